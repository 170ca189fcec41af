"""Rows of a table as a frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, TimestampType

from lethe.pipeline.io.frames import frame_of
from lethe.protocol.journal import time_from_text

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
