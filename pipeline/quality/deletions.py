"""Rules on deletions: each has one outcome, every replica acknowledged, and time goes forward.

A deletion whose controller was killed between the last write to ZooKeeper and the line has no outcome in the journal,
although it succeeded. The next controller reads the markers and records what it does about each, so a deletion that it
does not mention has ended: a warning.

A topic that another process removed (`vanished`) has that outcome. If it is created and marked again, that is its next
deletion; a controller that continues without a mark continues an ended deletion.

The table of deletions holds all of this. The number of acknowledgements is known only if the journal is complete from
the deletion's start.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline.literals import day_value
from lethe.pipeline.outcomes import DONE, OPEN, VANISHED
from lethe.pipeline.quality.evidence import (
    Evidence,
    SharedFrames,
    elections,
    gaps,
    record_name,
    skew,
    topic_violation,
    unhosted_replicas,
)
from lethe.pipeline.quality.ranges import are_valid, numbers_in
from lethe.pipeline.transforms.counting import plural_of

_STEPS: Final = ("started_at", "tombstoned_at", "acknowledged_at", "znodes_gone_at", "done_at", "let_go_at", "last_at")
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
"""Pairs of steps in order; either may be missing."""


def began_at() -> Column:
    """The time of the first line about a deletion; the mark is unknown if the beginning was rotated away."""
    return F.coalesce("marked_at", F.least(*_STEPS))


# --- outcomes -----------------------------------------------------------------------------------------------------


def second_outcomes(evidence: Evidence, _: SharedFrames) -> DataFrame:
    """Topics that were deleted or had vanished, and whose deletion then continued or ended again."""
    recent = evidence.recent_deletions.where(F.col("topic_id").isNotNull())
    return _after_done(recent).unionByName(_after_vanishing(recent, evidence.deletion_spans))


def _after_done(spans: DataFrame) -> DataFrame:
    same_run = _run_of("done_line") == _run_of("last_line")
    went_on = F.when(same_run, _number_of("last_line") > _number_of("done_line")).otherwise(
        F.col("last_at") > F.col("done_at") + skew()
    )
    detail = F.format_string(
        "it was deleted at %s, and went on until %s; it was done %d %s",
        F.col("done_at").cast("string"),
        F.col("last_at").cast("string"),
        "dones",
        plural_of(F.col("dones"), "time"),
    )
    return spans.where((F.col("dones") > 1) | went_on).select(
        *topic_violation("last_at", detail, "done_line", "last_line")
    )


def _after_vanishing(recent: DataFrame, spans: DataFrame) -> DataFrame:
    """The next deletion of a vanished topic that was not marked again."""
    vanished = spans.where(F.col("outcome") == VANISHED).select(
        "topic", "topic_id", (F.col("span") + 1).alias("span"), "last_at", F.col("last_line").alias("end_line")
    )
    unmarked = recent.where(F.col("marked_at").isNull() & F.col("outcome").isin(DONE, OPEN))
    detail = F.format_string(
        "another process had removed it by %s, it was not marked again, and its deletion continued until %s",
        F.col("last_at").cast("string"),
        F.col("time").cast("string"),
    )
    return (
        unmarked.select("topic", "topic_id", "span", F.col("last_at").alias("time"), "last_line")
        .join(vanished, ["topic", "topic_id", "span"], "inner")
        .select(*topic_violation("time", detail, "end_line", "last_line"))
    )


def _run_of(line: str) -> Column:
    """Source and run, of the name of a line."""
    return F.regexp_extract(line, "^(.*)-", 1)


def _number_of(line: str) -> Column:
    return F.substring_index(line, "-", -1).try_cast("bigint")


def without_outcome(evidence: Evidence, shared: SharedFrames) -> DataFrame:
    """Deletions without an end that a later controller does not mention."""
    taken_over = (
        elections(shared.rare)
        .where(F.col("what") == "active")
        .select(F.struct("time", "subject", record_name().alias("line")).alias("active"))
    )
    detail = F.format_string(
        "its deletion came as far as %s, and %s, active since %s, says nothing of it",
        "phase",
        "active.subject",
        F.col("active.time").cast("string"),
    )
    return (
        evidence.lasting_deletions.where(F.col("outcome") == OPEN)
        .select("topic", "topic_id", "span", "phase", "last_at", "last_line")
        .join(F.broadcast(taken_over), F.col("last_at") + skew() < F.col("active.time"), "inner")
        .groupBy("topic", "topic_id", "span", "phase", "last_line")
        .agg(F.min("active").alias("active"))
        .select(*topic_violation("active.time", detail, "last_line", "active.line"))
    )


# --- acknowledgements ---------------------------------------------------------------------------------------------


def lacks_acks() -> Column:
    """Whether the number of acknowledgements differs from the number of replicas, in a span with a complete journal."""
    is_known = (F.col("outcome") == DONE) & (F.col("started_at") <= F.col("done_at"))
    return is_known & (F.coalesce("acked_replicas", F.lit(0)) != F.col("replicas"))


def missing_acks(evidence: Evidence, shared: SharedFrames) -> DataFrame:
    """Deletions that were done although not every replica had acknowledged; except beside recorded gaps and unread
    days. Replicas that were placed on a controller are on no disk, and no broker is asked for them; what a broker owes
    is asked for later."""
    acked = F.coalesce("acked_replicas", F.lit(0))
    wanted = F.col("replicas") - F.coalesce("on_no_disk", F.lit(0))
    wanted = wanted - F.coalesce("owed_replicas", F.lit(0))
    spans = _recorded_in_full(evidence, shared, evidence.recent_deletions.where(lacks_acks()))
    detail = F.format_string("%d of %d %s acknowledged", acked, wanted, plural_of(wanted, "replica"))
    return (
        spans.join(_on_no_disk(spans, shared), ["topic", "id_key", "span"], "left")
        .where(~acked.between(wanted, F.col("replicas")))
        .select(*topic_violation("done_at", detail))
    )


def _recorded_in_full(evidence: Evidence, shared: SharedFrames, spans: DataFrame) -> DataFrame:
    """Return these deletions with `id_key`, except beside recorded gaps and unread days."""
    lost = gaps(shared.rare).where(F.col("gap_source").startswith("/lethe/controller/"))
    in_gap = (F.col("lost_from") <= F.col("done_at") + skew()) & (F.col("lost_until") >= began_at() - skew())
    read = spans.where(~_overlaps(evidence.unread_days))
    return read.withColumn("id_key", F.coalesce("topic_id", F.lit(""))).join(F.broadcast(lost), in_gap, "left_anti")


def _overlaps(times: Sequence[tuple[datetime.date, datetime.date]]) -> Column:
    """Whether any of these days lies between the start of a deletion and its end."""
    started, ended = F.to_date("started_at"), F.to_date("done_at")
    met = ((day_value(first) <= ended) & (day_value(last) >= started) for first, last in times)
    return reduce(or_, met, F.lit(False))


def _on_no_disk(spans: DataFrame, shared: SharedFrames) -> DataFrame:
    """topic, id_key, span, on_no_disk: the number of replicas of a deleted topic that no broker holds. After a failover
    they are recorded again."""
    told = (
        unhosted_replicas(shared.rare)
        .where(are_valid("partitions"))
        .withColumn("id_key", F.coalesce("topic_id", F.lit("")))
        .select("topic", "id_key", "time", "broker", F.explode(numbers_in("partitions")).alias("partition"))
    )
    return (
        spans.select("topic", "id_key", "span", "started_at", "done_at")
        .join(told, ["topic", "id_key"], "inner")
        .where(F.col("time").between(F.col("started_at"), F.col("done_at")))
        .groupBy("topic", "id_key", "span")
        .agg(F.count_distinct("broker", "partition").alias("on_no_disk"))
    )


# --- debts --------------------------------------------------------------------------------------------------------


def closed_twice(evidence: Evidence, _: SharedFrames) -> DataFrame:
    """Debts that controllers closed more than once: the later one has asked for a deletion that nobody owed."""
    detail = F.format_string(
        "the debt of broker %d was %s at %s, and closed again", "broker", "how", F.col("closed_at").cast("string")
    )
    twice = evidence.debts.where(F.col("closed_again_at").isNotNull())
    return twice.select(*topic_violation("closed_again_at", detail, "closed_line"))


def late_debts(evidence: Evidence, shared: SharedFrames) -> DataFrame:
    """Debts that were not written before the znodes of their topic went, of deletions that the journal has in full."""
    is_known = (F.col("started_at") <= F.col("done_at")) & F.col("znodes_gone_at").isNotNull()
    spans = _recorded_in_full(evidence, shared, evidence.deletion_spans.where(is_known))
    spans = spans.select("topic", "id_key", "span", "znodes_gone_at")
    gone, is_unwritten = F.col("znodes_gone_at"), F.col("written_line").isNull()
    detail = F.format_string(
        "its znodes went at %s, and no debt of broker %d was written by then", gone.cast("string"), "broker"
    )
    time = F.coalesce(F.when(is_unwritten, F.col("closed_at")), "since")
    return (
        evidence.debts.withColumn("id_key", F.coalesce("topic_id", F.lit("")))
        .join(spans, ["topic", "id_key", "span"], "inner")
        .where(is_unwritten | (F.col("since") > gone + skew()))
        .select(*topic_violation(time, detail, "written_line", "closed_line"))
    )


# --- times --------------------------------------------------------------------------------------------------------


def wrong_order(evidence: Evidence, _: SharedFrames) -> DataFrame:
    """Deletions that reached a step before the one that leads to it."""
    wrong = F.array_compact(F.array(*(_is_before(late, early) for early, late in _ORDER)))
    spans = evidence.recent_deletions.withColumn("wrong", wrong).where(F.size("wrong") > 0)
    return spans.select(*topic_violation(began_at(), F.array_join("wrong", "; ")))


def _is_before(late: str, early: str) -> Column:
    """Return that the later step is before the earlier one, in words; null if it is not."""
    at_late, at_early = F.col(late), F.col(early)
    words = F.format_string(f"{late} %s is before {early} %s", at_late.cast("string"), at_early.cast("string"))
    return F.when(at_early > at_late + skew(), words)


# --- ids ----------------------------------------------------------------------------------------------------------


def reused_ids(evidence: Evidence, _: SharedFrames) -> DataFrame:
    """Topic ids that two topics of different names have had."""
    said = evidence.deletion_spans.where(F.col("topic_id").isNotNull()).select(
        "topic_id", "topic", began_at().alias("time"), F.col("first_line").alias("line")
    )
    seen = evidence.topic_ids.select(
        "topic_id", "topic", F.col("taken_at").alias("time"), F.lit(None).cast("string").alias("line")
    )
    everything = said.unionByName(seen)
    suspects = _shared_ids(everything) if evidence.since is None else _recent_ids(evidence, evidence.since)
    by_name = Window.partitionBy("topic_id").orderBy("first_at", "topic")
    detail = F.format_string("its id %s was that of topic %s", "topic_id", "before")
    return (
        everything.join(F.broadcast(suspects), ["topic_id"], "left_semi")
        .groupBy("topic_id", "topic")
        .agg(F.min("time").alias("first_at"), F.min("line").alias("line"))
        .withColumns({"before": F.lag("topic").over(by_name), "line_before": F.lag("line").over(by_name)})
        .where(F.col("before").isNotNull())
        .select(*topic_violation("first_at", detail, "line_before", "line"))
    )


def _shared_ids(named: DataFrame) -> DataFrame:
    """Return (topic_id): ids with several names."""
    names = named.groupBy("topic_id").agg(F.min("topic").alias("least"), F.max("topic").alias("greatest"))
    return names.where(F.col("least") != F.col("greatest")).select("topic_id")


def _recent_ids(evidence: Evidence, since: datetime.date) -> DataFrame:
    """Return (topic_id): ids that were seen since that day. What others have had was found before."""
    seen = evidence.topic_ids.where(F.to_date("taken_at") >= day_value(since))
    return evidence.recent_deletions.select("topic_id").union(seen.select("topic_id"))
