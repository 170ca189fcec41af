"""Data frames from a few rows of the driver. They go to Spark once, by Arrow, and are part of the query plan.

Frames from Python rows would pass through an executor's Python process in every query, and an executor need not have
Python. The optimizer sees that a frame has no rows, and drops everything that depends on them before it plans the
query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def frame_of(spark: SparkSession, schema: StructType, rows: Iterable[Sequence[Any]]) -> DataFrame:
    """Return a frame of these rows, with values in the order of the schema's columns; a struct is a mapping."""
    found = list(rows)
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = [pa.array([row[place] for row in found], type=field.type) for place, field in enumerate(arrow)]
    return frame_of_arrow(spark, schema, pa.Table.from_arrays(columns, schema=arrow))


def frame_of_arrow(spark: SparkSession, schema: StructType, rows: pa.Table) -> DataFrame:
    """Return a frame of these rows, which have the schema's columns in order."""
    # PySpark fails on a column that has no chunks, such as the result of a filter.
    return spark.createDataFrame(rows if rows.num_rows else rows.schema.empty_table(), schema)


def empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a frame with these columns and no rows."""
    return frame_of(spark, schema, ())
