"""Shared by transforms: the last step of each, which selects exactly the columns of its table; unions; time; runs."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType


def to_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """The columns of `schema`, in its order, with its types and comments. A column that is missing is an error."""
    return frame.select(*(_column(field) for field in schema.fields))


def _column(field: StructField) -> Column:
    column, kind = F.col(field.name), field.dataType
    # Spark does not infer that an array holds no nulls, and then refuses the schema.
    whole = F.array_compact(column) if isinstance(kind, ArrayType) and not kind.containsNull else column
    return whole.cast(kind).alias(field.name, metadata=field.metadata)


def union_of(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all frames, which have the same columns. Built by halves, because Spark analyses every union with all
    below it."""
    middle = len(frames) // 2
    return union_of(frames[:middle]).unionByName(union_of(frames[middle:])) if middle else frames[0]


class Ingestion(NamedTuple):
    """The run or micro-batch that adds rows to bronze tables, and when; `at` has a time zone."""

    batch_id: str
    at: datetime.datetime

    def columns(self) -> tuple[Column, Column]:
        """Return `_ingested_at` and `_batch_id`."""
        at = F.lit(self.at.astimezone(datetime.UTC).isoformat()).cast("timestamp")
        return at.alias("_ingested_at"), F.lit(self.batch_id).alias("_batch_id")


MIN_INSTANT_MS: Final = -62_135_596_800_000
"""The first millisecond of the year 1 in UTC: there is no earlier day."""


def ms_before(instant: Column, ms: Column) -> Column:
    """The instant minus these milliseconds; null before the first day."""
    moment = F.unix_millis(instant) - ms
    return F.when(moment >= MIN_INSTANT_MS, F.timestamp_millis(moment))


def ms_between(earlier: Column, later: Column) -> Column:
    """Milliseconds from one instant to another, at least 0 because clocks differ. Null if one is null."""
    difference = F.unix_millis(later) - F.unix_millis(earlier)
    return F.when(difference.isNotNull(), F.greatest(difference, F.lit(0)))
