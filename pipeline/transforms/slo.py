"""How long deletions take, by the day of the request and by number of replicas."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import schemas
from lethe.pipeline.outcomes import DONE, LET_GO, OPEN, VANISHED
from lethe.pipeline.transforms.contract import to_schema

ALL: Final = "all"
UNKNOWN: Final = "unknown"
SIZE_CLASSES: Final = (("1-9", 1, 9), ("10-99", 10, 99), ("100-999", 100, 999), ("1000+", 1000, 2**31 - 1))
"""Each with its least and its greatest number of replicas."""
_PERCENTS: Final = (50, 90, 99)


def deletion_slo(spans: DataFrame) -> DataFrame:
    """DELETION_SLO, from the DELETION_SPANS of whole days. Percentiles are exact, over the deletions that have reached
    the phase."""
    classed = spans.withColumn("size_class", F.explode(F.array(size_class(), F.lit(ALL))))
    outcome = F.col("outcome")
    return to_schema(
        classed.groupBy("day", "size_class").agg(
            F.count("*").alias("deletions"),
            F.count_if(outcome == DONE).alias("done"),
            F.count_if((outcome == DONE) & is_owing()).alias("owing"),
            F.count_if(F.col("bytes_gone_at").isNotNull()).alias("reclaimed"),
            F.count_if(outcome == LET_GO).alias("let_go"),
            F.count_if(outcome == VANISHED).alias("vanished"),
            F.count_if(outcome == OPEN).alias("open"),
            *_latencies("deleted"),
            *_latencies("reclaimed"),
            F.coalesce(F.sum("held_ms"), F.lit(0)).alias("held_ms"),
            F.coalesce(F.sum("waited_ms"), F.lit(0)).alias("waited_ms"),
        ),
        schemas.DELETION_SLO,
    )


def is_owing() -> Column:
    """Whether a broker owes replicas of the deletion. Rows that an earlier release wrote have no debts."""
    return F.coalesce(F.col("owed_replicas") > 0, F.lit(False)) & F.col("settled_at").isNull()


def size_class() -> Column:
    """The class by number of replicas; UNKNOWN if no line has that number."""
    classes = (F.when(F.col("replicas").between(least, most), name) for name, least, most in SIZE_CLASSES)
    return F.coalesce(*classes, F.lit(UNKNOWN))


def _latencies(what: str) -> list[Column]:
    ms = f"{what}_ms"
    percentiles = [F.percentile(ms, percent / 100).alias(f"{what}_p{percent}_ms") for percent in _PERCENTS]
    return [*percentiles, F.max(ms).alias(f"{what}_max_ms")]
