"""Brokers that delete replicas slowly: their answer times, and the times when they could not be asked."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import schemas
from lethe.pipeline.transforms.contract import to_schema


def slow_brokers(replicas: DataFrame) -> DataFrame:
    """SLOW_BROKERS, from the REPLICA_DELETIONS of whole days. A broker is compared with the median of the brokers'
    medians, so that a slow broker with most replicas does not shift the reference."""
    by_broker = replicas.groupBy("day", "broker").agg(
        F.count("*").alias("replicas"),
        F.count("acked_at").alias("acked"),
        F.coalesce(F.sum("refused"), F.lit(0)).alias("refused"),
        F.percentile("ack_ms", 0.5).alias("ack_p50_ms"),
        F.percentile("ack_ms", 0.99).alias("ack_p99_ms"),
        F.max("ack_ms").alias("ack_max_ms"),
        F.coalesce(F.sum("ineligible_ms"), F.lit(0)).alias("ineligible_ms"),
    )
    medians = by_broker.groupBy("day").agg(F.percentile("ack_p50_ms", 0.5).alias("median"))
    times_median = F.when(F.col("median") > 0, F.col("ack_p50_ms") / F.col("median"))
    return to_schema(
        by_broker.join(F.broadcast(medians), "day", "inner").withColumn("times_median", times_median),
        schemas.SLOW_BROKERS,
    )
