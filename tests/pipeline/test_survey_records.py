"""The files of kept surveys and the tables that they become have the same columns of the same types."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql.types import StructType

from lethe.pipeline import schemas
from lethe.protocol.survey_records import DIRECTORIES, MANIFEST, METADATA, ZNODES, ColumnKind, SurveyFile

TYPES: Final = {
    ColumnKind.TEXT: schemas.STRING,
    ColumnKind.NUMBER: schemas.INTEGER,
    ColumnKind.LONG: schemas.LONG,
    ColumnKind.TRUTH: schemas.BOOLEAN,
    ColumnKind.INSTANT: schemas.TIMESTAMP,
    ColumnKind.NUMBERS: schemas.INTEGERS,
    ColumnKind.TEXTS: schemas.STRINGS,
    ColumnKind.PROBLEMS: schemas.SURVEYS["problems"].dataType,
}
OF_THE_LAKE: Final = {"_ingested_at", "_source_file", "_batch_id", "day"}
OF_THE_FILE: Final = {"version", "rows", "checksums"}


@pytest.mark.parametrize(
    "file, table",
    [
        (MANIFEST, schemas.SURVEYS),
        (ZNODES, schemas.ZNODE_SNAPSHOT),
        (METADATA, schemas.BROKER_METADATA),
        (DIRECTORIES, schemas.AGENT_INVENTORY),
    ],
    ids=lambda each: each.name if isinstance(each, SurveyFile) else "",
)
def test_columns_and_types_agree(file: SurveyFile, table: StructType) -> None:
    kept = [(column.name, TYPES[column.kind]) for column in file.columns if column.name not in OF_THE_FILE]
    assert kept == [(column.name, column.dataType) for column in table.fields if column.name not in OF_THE_LAKE]
