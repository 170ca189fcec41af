"""Frames of a few rows for tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def frame_of(spark: SparkSession, schema: StructType, rows: Iterable[Sequence[Any]]) -> DataFrame:
    """The rows, values in the order of the schema's columns. They go to Spark by Arrow, once: rows of Python would pass
    through a Python process again with every query."""
    found = list(rows)
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = [pa.array([row[place] for row in found], type=field.type) for place, field in enumerate(arrow)]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), schema)
