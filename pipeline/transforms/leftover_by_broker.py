"""Gold `leftover_by_broker`: the findings of each survey, counted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import schemas
from lethe.pipeline.transforms.contract import to_schema


def leftover_by_broker(leftovers: DataFrame) -> DataFrame:
    """Return LEFTOVER_BY_BROKER from LEFTOVERS; `broker` is null for findings in ZooKeeper and topics in no cache."""
    return (
        leftovers.groupBy("survey_id", "taken_at", "broker", "place", "standing", "reason", "day")
        .agg(F.count("*").alias("findings"), F.coalesce(F.sum("size_bytes"), F.lit(0)).alias("size_bytes"))
        .transform(to_schema, schemas.LEFTOVER_BY_BROKER)
    )
