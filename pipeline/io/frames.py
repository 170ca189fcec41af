"""Frames of what the driver holds: a few rows that go to Spark once, by Arrow, and are part of the plan from then on.

Made of rows of Python instead, they would pass through a Python process of an executor with every query, and an
executor need not have Python. Of a frame without rows the optimizer sees that it has none: whatever only it could have
fed falls away before anything is planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def frame_of(spark: SparkSession, schema: StructType, rows: Iterable[Sequence[Any]]) -> DataFrame:
    """The rows, values in the order of the schema's columns; a struct in them is a mapping."""
    found = list(rows)
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = [pa.array([row[place] for row in found], type=field.type) for place, field in enumerate(arrow)]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), schema)


def empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows of these columns."""
    return frame_of(spark, schema, ())
