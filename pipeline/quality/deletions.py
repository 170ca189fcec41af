"""Rules on deletions: each has one outcome, every replica acknowledged, and time goes forward.

A deletion that ended without anybody to write it down (its controller was killed between the last write to ZooKeeper
and the line) has no outcome in the journal, though nothing is wrong with it. The next controller reads which topics are
marked and says what it does about each, so a deletion of which it says nothing has ended: a warning.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from pipeline.quality.evidence import Digest, Evidence, facts, line_name, rare_facts, skew, topic, unasked
from pipeline.quality.ranges import are_sane, numbers_in
from protocol.journal import FactType

_PHASE: Final = StructType([StructField("phase", StringType()), StructField("topic_id", StringType())])
_GAP: Final = StructType([StructField("first", StringType()), StructField("last", StringType())])
_ELECTION: Final = StructType([StructField("what", StringType()), StructField("epoch", StringType())])
_ORDER: Final = (
    ("marked_at", "queued_at"),
    ("queued_at", "started_at"),
    ("started_at", "tombstoned_at"),
    ("started_at", "first_ack_at"),
    ("first_ack_at", "last_ack_at"),
    ("first_ack_at", "acknowledged_at"),
    ("acknowledged_at", "znodes_gone_at"),
    ("tombstoned_at", "znodes_gone_at"),
    ("znodes_gone_at", "done_at"),
    ("last_ack_at", "done_at"),
    ("marked_at", "let_go_at"),
)
"""What comes first, and what comes after it; either may be missing."""


def deleted(events: DataFrame) -> DataFrame:
    """The frame `Digest.deleted`."""
    said = facts(events, FactType.DELETION_PHASE, _PHASE)
    line = F.struct("time", "source", "run", "seq", "phase", line_name().alias("line"))
    is_done = F.col("phase") == "done"
    order = F.struct("time", "seq")
    return said.groupBy(topic().alias("topic"), "topic_id").agg(
        F.min("time").alias("first_at"),
        F.min_by(line_name(), order).alias("first_line"),
        F.count_if(is_done).alias("dones"),
        F.min_by(F.when(is_done, line), F.when(is_done, order)).alias("done"),
        F.max_by(line, order).alias("last"),
    )


# --- outcomes -----------------------------------------------------------------------------------------------------


def second_outcomes(_: Evidence, digest: Digest) -> DataFrame:
    """Topics that were deleted, and whose deletion then went on, or ended once more."""
    same_run = (F.col("done.source") == F.col("last.source")) & (F.col("done.run") == F.col("last.run"))
    went_on = F.when(same_run, F.col("last.seq") > F.col("done.seq")).otherwise(
        F.col("last.time") > F.col("done.time") + skew()
    )
    return digest.deleted.where(F.col("topic_id").isNotNull() & ((F.col("dones") > 1) | went_on)).select(
        F.format_string("topic/%s", "topic").alias("subject"),
        F.col("last.time").alias("time"),
        F.format_string(
            "it was deleted at %s, and then: %s; it was done %d times",
            F.col("done.time").cast("string"),
            "last.phase",
            "dones",
        ).alias("detail"),
        F.array_distinct(F.array("done.line", "last.line")).alias("event_ids"),
    )


def without_outcome(evidence: Evidence, digest: Digest) -> DataFrame:
    """Deletions that a later controller knows nothing of, and that nobody ended."""
    taken_over = (
        rare_facts(digest.rare, FactType.ELECTION, _ELECTION)
        .where(F.col("what") == "active")
        .select(F.struct("time", "subject", line_name().alias("line")).alias("active"))
    )
    said = digest.deleted.select("topic", F.col("topic_id").alias("said_id"), "last")
    return (
        evidence.deletion_spans.where(F.col("outcome") == "open")
        .select("topic", "topic_id", "phase")
        .join(said, "topic", "inner")
        .where(F.col("topic_id").eqNullSafe(F.col("said_id")))
        .join(F.broadcast(taken_over), F.col("last.time") + skew() < F.col("active.time"), "inner")
        .groupBy("topic", "topic_id", "phase", "last.line")
        .agg(F.min_by("active", "active.time").alias("active"))
        .select(
            F.format_string("topic/%s", "topic").alias("subject"),
            F.col("active.time").alias("time"),
            F.format_string(
                "its deletion came as far as %s, and %s, active since %s, says nothing of it",
                "phase",
                "active.subject",
                F.col("active.time").cast("string"),
            ).alias("detail"),
            F.array("line", "active.line").alias("event_ids"),
        )
    )


# --- acknowledgements ---------------------------------------------------------------------------------------------


def missing_acks(evidence: Evidence, digest: Digest) -> DataFrame:
    """Deletions that were done though not every replica had acknowledged; not where a controller says it has gaps.
    Replicas that were placed on a controller are on no disk, and nobody is asked for them."""
    gaps = rare_facts(digest.rare, FactType.GAP, _GAP).where(F.col("source").startswith("/lethe/controller/"))
    lost = gaps.select(F.try_to_timestamp("first").alias("lost_from"), F.try_to_timestamp("last").alias("lost_until"))
    acked = F.coalesce("acked_replicas", F.lit(0))
    wanted = F.col("replicas") - F.coalesce("on_no_disk", F.lit(0))
    in_gap = (F.col("lost_from") <= F.col("done_at") + skew()) & (F.col("lost_until") >= F.col("marked_at") - skew())
    return (
        evidence.deletion_spans.where((F.col("outcome") == "done") & (acked != F.col("replicas")))
        .withColumn("id_key", F.coalesce("topic_id", F.lit("")))
        .join(_on_no_disk(digest), ["topic", "id_key"], "left")
        .where(~acked.between(wanted, F.col("replicas")))
        .join(F.broadcast(lost), in_gap, "left_anti")
        .select(
            F.format_string("topic/%s", "topic").alias("subject"),
            F.col("done_at").alias("time"),
            F.format_string("%d of %d replicas acknowledged", acked, wanted).alias("detail"),
            F.array().cast("array<string>").alias("event_ids"),
        )
    )


def _on_no_disk(digest: Digest) -> DataFrame:
    """topic, id_key, on_no_disk: how many replicas of a deleted topic nobody holds. After a failover they are told
    of again."""
    return (
        unasked(digest.rare)
        .where(are_sane("partitions"))
        .select(
            "topic",
            F.coalesce("topic_id", F.lit("")).alias("id_key"),
            "broker",
            F.explode(numbers_in("partitions")).alias("partition"),
        )
        .groupBy("topic", "id_key")
        .agg(F.count_distinct("broker", "partition").alias("on_no_disk"))
    )


# --- times --------------------------------------------------------------------------------------------------------


def wrong_order(evidence: Evidence, _: Digest) -> DataFrame:
    """Deletions that reached a step before the one that leads to it."""
    wrong = F.array_compact(
        F.array(
            *(
                F.when(
                    F.col(early) > F.col(late) + skew(),
                    F.format_string(
                        "%s %s is before %s %s",
                        F.lit(late),
                        F.col(late).cast("string"),
                        F.lit(early),
                        F.col(early).cast("string"),
                    ),
                )
                for early, late in _ORDER
            )
        )
    )
    return (
        evidence.deletion_spans.withColumn("wrong", wrong)
        .where(F.size("wrong") > 0)
        .select(
            F.format_string("topic/%s", "topic").alias("subject"),
            F.col("marked_at").alias("time"),
            F.array_join("wrong", "; ").alias("detail"),
            F.array().cast("array<string>").alias("event_ids"),
        )
    )


# --- ids ----------------------------------------------------------------------------------------------------------


def reused_ids(evidence: Evidence, digest: Digest) -> DataFrame:
    """Topic ids that two topics of different names have had."""
    said = digest.deleted.where(F.col("topic_id").isNotNull()).select(
        "topic_id", "topic", F.col("first_at").alias("time"), F.col("first_line").alias("line")
    )
    seen = evidence.znode_snapshot.where((F.col("kind") == "topic") & F.col("topic_id").isNotNull()).select(
        "topic_id", "topic", F.col("taken_at").alias("time"), F.lit(None).cast("string").alias("line")
    )
    everything = said.unionByName(seen)
    shared = (
        everything.groupBy("topic_id")
        .agg(F.min("topic").alias("least"), F.max("topic").alias("greatest"))
        .where(F.col("least") != F.col("greatest"))
        .select("topic_id")
    )
    by_name = Window.partitionBy("topic_id").orderBy("first_at", "topic")
    return (
        everything.join(F.broadcast(shared), ["topic_id"], "left_semi")
        .groupBy("topic_id", "topic")
        .agg(F.min("time").alias("first_at"), F.min("line").alias("line"))
        .withColumns({"before": F.lag("topic").over(by_name), "line_before": F.lag("line").over(by_name)})
        .where(F.col("before").isNotNull())
        .select(
            F.format_string("topic/%s", "topic").alias("subject"),
            F.col("first_at").alias("time"),
            F.format_string("its id %s was that of topic %s", "topic_id", "before").alias("detail"),
            F.array_compact(F.array("line_before", "line")).alias("event_ids"),
        )
    )
