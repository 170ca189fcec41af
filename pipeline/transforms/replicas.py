"""The deletion of every replica of the deleted topics: asked, refused, acknowledged, and how long it was ineligible.

Rule. An acknowledgement counts if a controller recorded it: the replica's transition and the answer both do. After a
failover a replica is asked and acknowledges again: the last one counts.

    time     event record                 row so far
    10 s     1001 asked broker 3          attempts 1
    12 s     broker 3 ineligible          ineligible_since 12 s
    60 s     1002 asked broker 3          attempts 2, after a failover
    61 s     broker 3 acknowledged        acked_at 61 s, ack_ms 1,000, ineligible_ms 49,000

A record names the partitions of one topic on one broker as ranges. It is attributed to its span first and split into
partitions afterwards, so that ranges, not replicas, are shuffled. All aggregates of a replica have a fixed width and
are computed in one pass. Refusals have texts, are few, and are aggregated separately.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import schemas
from lethe.pipeline.transforms.attribution import attribute_replica_records
from lethe.pipeline.transforms.contract import ms_between, to_schema
from lethe.pipeline.transforms.journal_records import (
    ACKED,
    ASKED,
    INELIGIBLE,
    REFUSED,
    explode_partitions,
    possible_refusals,
    replica_records,
)

_REPLICA: Final = ("topic", "id_key", "span", "partition", "broker")


def replica_deletions(events: DataFrame, heads: DataFrame) -> DataFrame:
    """Return REPLICA_DELETIONS, from CONTROLLER_EVENTS and `span_heads` of the same events: a row for each replica with
    a record during its topic's deletion."""
    refusals = _refusals(_attributed(possible_refusals(events), heads))
    rows = _aggregate(explode_partitions(_attributed(events, heads))).join(refusals, list(_REPLICA), "left")
    # After a failover an acknowledgement of the former controller does not end what the present one waits for.
    ineligible_ms = (
        F.when(F.col("ineligible_since").isNull(), F.lit(0))
        .when(F.col("last_acked_at") >= F.col("last_ineligible_at"), _ms("ineligible_since", "last_acked_at"))
        .when(F.col("ended_at").isNotNull(), _ms("ineligible_since", "ended_at"))
    )
    answered_last = F.col("last_acked_at") >= F.col("last_asked_at")
    return to_schema(
        rows.withColumns(
            {
                "topic_id": F.nullif("id_key", F.lit("")),
                "refused": F.coalesce("refused", F.lit(0)),
                "ineligible_ms": ineligible_ms,
                "ack_ms": F.when(answered_last, _ms("last_asked_at", "last_acked_at")),
            }
        ),
        schemas.REPLICA_DELETIONS,
    )


def _attributed(events: DataFrame, heads: DataFrame) -> DataFrame:
    of = F.col("of")
    return attribute_replica_records(replica_records(events), heads).select(
        "topic",
        of["id_key"].alias("id_key"),
        of["span"].alias("span"),
        of["day"].alias("day"),
        of["ended_at"].alias("ended_at"),
        "at",
        "kind",
        "broker",
        "ranges",
        "result",
    )


def _aggregate(said: DataFrame) -> DataFrame:
    return said.groupBy(*_REPLICA).agg(
        F.min("day").alias("day"),
        F.min("ended_at").alias("ended_at"),
        F.min(_at(ASKED)).alias("first_asked_at"),
        F.max(_at(ASKED)).alias("last_asked_at"),
        F.count(_at(ASKED)).alias("attempts"),
        F.min(_at(ACKED)).alias("acked_at"),
        F.max(_at(ACKED)).alias("last_acked_at"),
        F.min(_at(INELIGIBLE, REFUSED)).alias("ineligible_since"),
        F.max(_at(INELIGIBLE, REFUSED)).alias("last_ineligible_at"),
    )


def _refusals(said: DataFrame) -> DataFrame:
    return (
        explode_partitions(said.where(F.col("kind") == REFUSED))
        .groupBy(*_REPLICA)
        .agg(F.count("*").alias("refused"), F.max(F.struct("at", "result"))["result"].alias("last_refusal"))
    )


def _at(*kinds: str) -> Column:
    return F.when(F.col("kind").isin(*kinds), F.col("at"))


def _ms(earlier: str, later: str) -> Column:
    return ms_between(F.col(earlier), F.col(later))
