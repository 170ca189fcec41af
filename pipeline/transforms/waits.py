"""What the deletion of a topic waited for: the brokers whose replicas could not be deleted, why, and how long.

A broker is waited for from the first time that one of its replicas could not be deleted (or its answer did not count)
until the last of them was acknowledged. The reason is read from the broker's history in the journal (failed, log
directory failed, started). For a wait that is over it is the last line before the wait, or, where a return is the first
line about the broker, that it was away. Where the history gives none, it is the answer that did not count.

For a wait that lasts the last line of all counts, because a person acts on it: a broker that came back is not away, and
one that was asked after that owes an answer. Times are seconds:

    broker   history                  replicas                                 wait    reason
    1        9 failed, 19 started     10 ineligible, 20 acknowledged           10-20   broker_to_return
    2        14 directory failed      15 ineligible, 25 acknowledged           15-25   log_directory
    3        none                     40 STALE_BROKER_EPOCH, 42 acknowledged   40-42   STALE_BROKER_EPOCH
    4        none                     50 ineligible, 51 acknowledged           50-51   unreachable
    5        5 started                2 ineligible, 6 acknowledged             2-6     broker_to_return
    6        1.5 failed               2 ineligible                             lasts   broker_to_return
    7        1.5 failed, 30 started   2 ineligible, 31 asked again             lasts   asked
    8        1.5 failed, 30 started   2 ineligible                             lasts   unreachable
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline.transforms.contract import ms_between
from lethe.pipeline.transforms.journal_lines import broker_lines
from lethe.protocol.causes import CauseKind

BROKER_TO_RETURN: Final = CauseKind.BROKER_TO_RETURN.code
LOG_DIRECTORY: Final = CauseKind.LOG_DIRECTORY.code
UNREACHABLE: Final = "unreachable"
ASKED: Final = "asked"
"""A reason that is none of these is the answer that did not count."""
_FAILED: Final = "failed"
_STARTED: Final = "started"
_LOST_DIRECTORY: Final = "log directory failed"
_SPAN: Final = ("topic", "topic_id", "span")


def waits(replicas: DataFrame, events: DataFrame) -> DataFrame:
    """One row per span and broker of REPLICA_DELETIONS: topic, topic_id, span, broker; acked (replicas), first_ack_at,
    last_ack_at; wait: a WAITED_FOR, null where nothing was waited for."""
    lasts = F.col("ineligible_since").isNotNull() & F.col("ineligible_ms").isNull()
    is_asked = F.coalesce(F.col("last_asked_at") > F.col("last_ineligible_at"), F.lit(False))
    until = F.timestamp_millis(F.unix_millis("ineligible_since") + F.col("ineligible_ms"))
    by_broker = replicas.groupBy(*_SPAN, "broker").agg(
        F.count("acked_at").alias("acked"),
        F.min("acked_at").alias("first_ack_at"),
        F.max("acked_at").alias("last_ack_at"),
        F.count("ineligible_since").alias("waited"),
        F.min("ineligible_since").alias("since"),
        F.max(F.when(F.col("ineligible_since").isNotNull(), until)).alias("last_until"),
        F.count_if(lasts).alias("lasting"),
        F.count_if(lasts & ~is_asked).alias("unasked"),
        F.min(F.when(lasts, F.col("last_asked_at"))).alias("asked_at"),
        F.max("last_refusal").alias("refusal"),
    )
    ended = F.when(F.col("lasting") == 0, F.col("last_until"))
    wait = F.struct(
        F.col("broker"),
        _reason().alias("reason"),
        F.col("waited").cast("int").alias("replicas"),
        F.col("since"),
        ended.alias("until"),
        ms_between(F.col("since"), ended).alias("ms"),
    )
    histories = F.broadcast(_histories(events))
    return by_broker.join(histories, "broker", "left").select(
        *_SPAN, "broker", "acked", "first_ack_at", "last_ack_at", F.when(F.col("waited") > 0, wait).alias("wait")
    )


def waited_ms(waited_for: Column) -> Column:
    """How long an array of WAITED_FOR lasted, overlaps counted once; null while one of them lasts."""
    in_order = F.sort_array(F.transform(waited_for, lambda wait: F.struct(wait["since"], wait["until"])))
    nothing = F.struct(F.lit(0).cast("long").alias("ms"), F.lit(None).cast("timestamp").alias("reach"))

    def add(sum_: Column, wait: Column) -> Column:
        begin = F.greatest(wait["since"], sum_["reach"])
        return F.struct(
            (sum_["ms"] + ms_between(begin, wait["until"])).alias("ms"),
            F.greatest(sum_["reach"], wait["until"]).alias("reach"),
        )

    lasts = F.exists(waited_for, lambda wait: wait["until"].isNull())
    return F.when(~lasts, F.aggregate(in_order, nothing, add)["ms"])


def _histories(events: DataFrame) -> DataFrame:
    """broker, history: array of (at, what), in order."""
    told = broker_lines(events).where(F.col("what").isin(_FAILED, _STARTED, _LOST_DIRECTORY))
    return told.groupBy("broker").agg(F.sort_array(F.collect_list(F.struct("at", "what"))).alias("history"))


def changed_reasons(spans: DataFrame, events: DataFrame, brokers: Collection[int]) -> DataFrame:
    """topic: those of DELETION_SPANS of which the table does not say, of one of these brokers, what `events` tell:
    lines about brokers that came late, or before others. The lines are those about brokers, of all days."""
    told = F.when(F.col("said").isin(BROKER_TO_RETURN, LOG_DIRECTORY), F.col("said"))
    return (
        spans.select("topic", F.explode("waited_for").alias("wait"))
        .select("topic", "wait.broker", "wait.since", "wait.until", F.col("wait.reason").alias("said"))
        .where(F.col("broker").isin(*brokers))
        .join(F.broadcast(_histories(events)), "broker", "left")
        .where(~told.eqNullSafe(_reason_from_history(F.col("until").isNull())))
        .select("topic")
    )


def _reason() -> Column:
    lasts = F.col("lasting") > 0
    told = F.try_element_at("history", F.lit(-1))
    is_since = told.isNull() | (told["what"] == _STARTED) | (F.col("asked_at") > told["at"])
    return F.when(lasts & (F.col("unasked") == 0) & is_since, ASKED).otherwise(
        F.coalesce(_reason_from_history(lasts), "refusal", F.lit(UNREACHABLE))
    )


def _reason_from_history(lasts: Column) -> Column:
    """What a broker's history gives as the reason; null where it gives none."""
    before = F.filter("history", lambda told: told["at"] <= F.col("since"))
    after = F.filter("history", lambda told: told["at"] > F.col("since"))
    last = F.try_element_at(before, F.lit(-1))["what"]
    following = F.try_element_at(after, F.lit(1))["what"]
    was_away = last.isNull() & (following == _STARTED)
    at_first = F.when(was_away, _FAILED).otherwise(last)
    told = F.when(lasts, F.try_element_at("history", F.lit(-1))["what"]).otherwise(at_first)
    return F.when(told == _FAILED, BROKER_TO_RETURN).when(told == _LOST_DIRECTORY, LOG_DIRECTORY)
