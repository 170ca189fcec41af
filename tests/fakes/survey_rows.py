"""Surveys as frames of the bronze tables, by way of the rows that are kept of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, TimestampType

from lethe.pipeline import schemas
from lethe.pipeline.io.frames import frame_of
from lethe.protocol.journal import time_from_text
from lethe.protocol.survey_records import DIRECTORIES, METADATA, ZNODES
from lethe.survey.records import manifest, rows_of
from lethe.survey.views import Survey

Row = dict[str, Any]
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def frame(spark: SparkSession, schema: StructType, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """The rows; what a row does not name is null. Times are instants, or texts as in a survey's files."""
    names = schema.fieldNames()
    instants = frozenset(field.name for field in schema.fields if isinstance(field.dataType, TimestampType))

    def value(row: Mapping[str, Any], name: str) -> Any:
        found = row.get(name)
        if name in instants and isinstance(found, str):
            return EPOCH + timedelta(milliseconds=time_from_text(found))
        return found

    return frame_of(spark, schema, (tuple(value(row, name) for name in names) for row in rows))


def frames(spark: SparkSession, surveys: Iterable[Survey]) -> tuple[DataFrame, DataFrame, DataFrame, DataFrame]:
    """SURVEYS, ZNODE_SNAPSHOT, BROKER_METADATA, AGENT_INVENTORY, `day` included."""
    told: dict[str, list[Row]] = {"surveys": [], ZNODES.name: [], METADATA.name: [], DIRECTORIES.name: []}
    for survey in surveys:
        day = (EPOCH + timedelta(milliseconds=survey.taken_at_ms)).date()
        told["surveys"].append({**manifest(survey, {}, {}), "day": day})
        for file in (ZNODES, METADATA, DIRECTORIES):
            told[file.name] += ({**row, "day": day} for row in rows_of(file, survey))
    return (
        frame(spark, schemas.SURVEYS, told["surveys"]),
        frame(spark, schemas.ZNODE_SNAPSHOT, told[ZNODES.name]),
        frame(spark, schemas.BROKER_METADATA, told[METADATA.name]),
        frame(spark, schemas.AGENT_INVENTORY, told[DIRECTORIES.name]),
    )
