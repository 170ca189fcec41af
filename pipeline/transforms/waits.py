"""What the deletion of a topic waited for: the brokers whose replicas could not be deleted, why, and how long.

Rule. The wait for a broker begins when one of its replicas first could not be deleted, or first answered with an error.
It ends when the last of these replicas is acknowledged. The reason comes from the broker's history in the journal
(failed, log directory failed, started):

* The wait is over: the last event before the wait counts. If `started` is the first event about the broker, it was
  away. Without a reason in the history, the broker's error is the reason; without an error, `unreachable`.
* The wait lasts: the last event of all counts, because a person acts on it. A broker that came back is not away, and
  one that was asked since then owes an answer.

Times in seconds:

    broker  history                replicas                         wait     reason              why
    1       9 failed, 19 started   10 ineligible, 20 acked          10-20    broker_to_return    failed at 9
    2       14 directory failed    15 ineligible, 25 acked          15-25    log_directory       failed at 14
    3       none                   40 STALE_BROKER_EPOCH, 42 acked  40-42    STALE_BROKER_EPOCH  its answer
    4       none                   50 ineligible, 51 acked          50-51    unreachable         nothing known
    5       5 started              2 ineligible, 6 acked            2-6      broker_to_return    it was away until 5
    6       1 failed               2 ineligible                     lasts    broker_to_return    still away
    7       1 failed, 30 started   2 ineligible, 31 asked           lasts    asked               owes the answer
    8       1 failed, 30 started   2 ineligible                     lasts    unreachable         back, not asked yet
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline.transforms.contract import ms_between
from lethe.pipeline.transforms.journal_records import broker_records
from lethe.protocol.causes import CauseKind

BROKER_TO_RETURN: Final = CauseKind.BROKER_TO_RETURN.code
LOG_DIRECTORY: Final = CauseKind.LOG_DIRECTORY.code
UNREACHABLE: Final = "unreachable"
ASKED: Final = "asked"
"""Any other reason is the broker's error."""
_FAILED: Final = "failed"
_STARTED: Final = "started"
_LOST_DIRECTORY: Final = "log directory failed"
_SPAN: Final = ("topic", "topic_id", "span")


def waits(replicas: DataFrame, events: DataFrame) -> DataFrame:
    """Return one row per span and broker of REPLICA_DELETIONS: topic, topic_id, span, broker; acked (replicas),
    first_ack_at, last_ack_at; wait: a WAITED_FOR, null if the span did not wait for the broker."""
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


def covered_ms(intervals: Column) -> Column:
    """Return how long an array of HELD or WAITED_FOR lasted, in ms, overlaps counted once; null while one of them
    lasts."""
    in_order = F.sort_array(F.transform(intervals, lambda each: F.struct(each["since"], each["until"])))
    nothing = F.struct(F.lit(0).cast("long").alias("ms"), F.lit(None).cast("timestamp").alias("reach"))

    def add(sum_: Column, each: Column) -> Column:
        begin = F.greatest(each["since"], sum_["reach"])
        return F.struct(
            (sum_["ms"] + ms_between(begin, each["until"])).alias("ms"),
            F.greatest(sum_["reach"], each["until"]).alias("reach"),
        )

    lasts = F.exists(intervals, lambda each: each["until"].isNull())
    return F.when(~lasts, F.aggregate(in_order, nothing, add)["ms"])


def _histories(events: DataFrame) -> DataFrame:
    """Return broker, history: array of (at, what), in order."""
    told = broker_records(events).where(F.col("what").isin(_FAILED, _STARTED, _LOST_DIRECTORY))
    return told.groupBy("broker").agg(F.sort_array(F.collect_list(F.struct("at", "what"))).alias("history"))


def changed_reasons(spans: DataFrame, events: DataFrame, brokers: Collection[int]) -> DataFrame:
    """Return (topic): topics of DELETION_SPANS with a wait for one of these brokers whose reason differs from that of
    `events`. Records may arrive late or out of order. `events` are all records about brokers."""
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
    """Return the reason by the broker's history; null if it gives none."""
    before = F.filter("history", lambda told: told["at"] <= F.col("since"))
    after = F.filter("history", lambda told: told["at"] > F.col("since"))
    last = F.try_element_at(before, F.lit(-1))["what"]
    following = F.try_element_at(after, F.lit(1))["what"]
    was_away = last.isNull() & (following == _STARTED)
    at_first = F.when(was_away, _FAILED).otherwise(last)
    told = F.when(lasts, F.try_element_at("history", F.lit(-1))["what"]).otherwise(at_first)
    return F.when(told == _FAILED, BROKER_TO_RETURN).when(told == _LOST_DIRECTORY, LOG_DIRECTORY)
