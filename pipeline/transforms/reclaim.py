"""The bytes that every broker freed each day, from its agent's lines."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import schemas
from lethe.pipeline.transforms.contract import to_schema
from lethe.pipeline.transforms.journal_records import freed_records


def daily_reclaim(events: DataFrame) -> DataFrame:
    """DAILY_RECLAIM, from the CONTROLLER_EVENTS of whole days. Topics are identified by the names of their
    directories."""
    removed = F.col("error").isNull()
    by_topic = (
        freed_records(events)
        .groupBy("day", "broker", "topic")
        .agg(
            *(F.sum(F.when(removed, F.col(n))).alias(n) for n in ("directories", "files", "size_bytes")),
            F.sum(F.when(~removed, F.col("directories"))).alias("failed_directories"),
            F.bool_or(removed).alias("is_removed"),
        )
    )
    return to_schema(
        by_topic.groupBy("day", "broker").agg(
            *(
                F.coalesce(F.sum(n), F.lit(0)).alias(n)
                for n in ("directories", "files", "size_bytes", "failed_directories")
            ),
            F.count_if("is_removed").alias("topics"),
        ),
        schemas.DAILY_RECLAIM,
    )
