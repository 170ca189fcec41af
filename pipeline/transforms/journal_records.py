"""Event records of each kind that the tables use, with the columns that their tables need. No JSON is parsed here: all
of it is in `said` (`pipeline.transforms.said`).

`id_key` is the topic's id, or the empty text if the record has none: older journals, clusters without ids, unreadable
topics. Unlike null it can be a key of groups and joins. `at` is the time by the writer's clock.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.controller.core.deletion_memory import DELETING, PAUSED, RESUMED
from lethe.pipeline.outcomes import REFUSED_AS
from lethe.protocol.journal_debts import PAID, VOID, WRITTEN, WRITTEN_OFF
from lethe.protocol.journal_trash import BACK, EXPIRED, GAVE_WAY, PURGED, RESTORED, TRASHED

MAX_RANGE: Final = 100_000
"""Maximum size of a range of partitions or brokers; a larger one is left to the audit."""
_RANGE: Final = r"^(\d{1,10})(?:-(\d{1,10}))?$"

_FREED_NUMBERS: Final = ("directories", "size_bytes", "files")

QUEUED: Final = "queued"
"""The phase in which a deletion begins."""
ASKED: Final = "asked"
INELIGIBLE: Final = "ineligible"
ACKED: Final = "acked"
REFUSED: Final = "refused"
_OF_TRASH: Final = (TRASHED, BACK, RESTORED, EXPIRED, PURGED, GAVE_WAY)
_BY_STATE: Final = {
    "DELETION_STARTED": ASKED,
    "DELETION_INELIGIBLE": INELIGIBLE,
    "DELETION_SUCCESSFUL": ACKED,
}


def phase_records(events: DataFrame) -> DataFrame:
    """Return lethe.deletion-phase, and the lethe.refusal of a deletion as the phase that ended it: topic, id_key, at,
    source, seq, id, controller, phase, partitions, replicas, held_by, marked_at, is_refusal. `marked_at` is when the
    marker was created, never later than the record; null if unknown."""
    is_refusal = F.col("type") == "refusal"
    outcome = F.coalesce(*(F.when(F.col("said.why") == why, phase) for why, phase in REFUSED_AS.items()))
    refused_as = F.when(F.col("said.what") == DELETING, outcome)
    return (
        events.where((F.col("type") == "deletion-phase") | is_refused_deletion())
        .select(
            *_of_topic(),
            *_line(),
            _number_after("source", "/lethe/controller/").alias("controller"),
            F.when(is_refusal, refused_as).otherwise(F.col("said.phase")).alias("phase"),
            F.col("said.partition_count").alias("partitions"),
            F.col("said.replica_count").alias("replicas"),
            *_said("held_by"),
            # ZooKeeper's clock may be ahead of the writer's.
            F.least(F.timestamp_millis("said.marked_at_ms"), "time").alias("marked_at"),
            is_refusal.alias("is_refusal"),
        )
        .where("topic is not null and phase is not null and at is not null")
    )


def is_refused_deletion() -> Column:
    """Return whether a row of CONTROLLER_EVENTS reports a refused deletion."""
    return (F.col("type") == "refusal") & F.col("said.what").eqNullSafe(DELETING)


def replica_records(events: DataFrame) -> DataFrame:
    """Return controllers' records about the deletion of replicas, one row for each broker: topic, id_key, at, kind,
    broker, ranges, result (if REFUSED). In older journals each record is about one broker. Kinds: ASKED, INELIGIBLE,
    ACKED (counted), REFUSED (an answer that does not count)."""
    state, result = F.col("said.after"), F.col("said.result")
    moved = (F.col("type") == "transition") & state.isin(*_BY_STATE)
    answered = (F.col("type") == "ack") & result.isNotNull()
    by_state = F.coalesce(*(F.when(state == name, kind) for name, kind in _BY_STATE.items()))
    by_result = F.when(result == "NONE", ACKED).when(result.isNotNull(), REFUSED)
    broker = F.col("said.broker").cast("string")
    of_one_broker = F.array(F.struct(broker.alias("brokers"), F.col("said.partitions").alias("partitions")))
    by_brokers = F.coalesce("said.replicas", of_one_broker)
    return (
        events.where(moved | answered)
        .select("type", "time", "subject", "said", F.explode(by_brokers).alias("on"))
        .select(
            *_of_topic(),
            F.when(F.col("type") == "ack", by_result).when(F.col("said.machine") == "replica", by_state).alias("kind"),
            F.explode(_numbers("on.brokers")).alias("broker"),
            F.col("on.partitions").alias("ranges"),
            F.when(result != "NONE", result).alias("result"),
        )
        .where("topic is not null and kind is not null and broker is not null and at is not null")
    )


def possible_refusals(events: DataFrame) -> DataFrame:
    """Return all REFUSED records and few others."""
    return events.where((F.col("type") == "ack") & (F.col("said.result") != "NONE"))


def freed_records(events: DataFrame) -> DataFrame:
    """Return lethe.bytes-freed: broker, topic (a long one may be cut), id_key, at, day, directories, size_bytes, files,
    error."""
    return (
        events.where(F.col("type") == "bytes-freed")
        .select(
            _number_after("subject", "broker/").alias("broker"),
            F.col("said.topic").alias("topic"),
            _id_key(),
            F.col("time").alias("at"),
            F.to_date("time").alias("day"),
            *(F.coalesce(F.col(f"said.{name}"), F.lit(0)).alias(name) for name in _FREED_NUMBERS),
            F.col("said.error").alias("error"),
        )
        .where("broker is not null and topic is not null and at is not null")
    )


def debt_records(events: DataFrame) -> DataFrame:
    """Return lethe.debt: topic, id_key, broker, znode, created_zxid, at, source, seq, id, what, ranges, since,
    size_bytes, why. `znode` names the debt among those of a broker and topic: the czxid, or else when it began."""
    zxid, since_ms = F.col("said.created_zxid"), F.col("said.owed_since_ms")
    return (
        events.where(F.col("type") == "debt")
        .select(
            *_of_topic(),
            *_line(),
            F.coalesce(zxid, since_ms, F.lit(-1)).alias("znode"),
            F.col("said.partitions").alias("ranges"),
            F.coalesce(F.timestamp_millis(since_ms), "time").alias("since"),
            *_said("broker", "created_zxid", "what", "size_bytes", "why"),
        )
        .where("topic is not null and broker is not null and at is not null")
        .where(F.col("what").isin(WRITTEN, PAID, VOID, WRITTEN_OFF))
    )


def is_trash_record() -> Column:
    """Return whether a row of CONTROLLER_EVENTS is about a topic in the trash; never null."""
    is_of_topic = (F.col("type") == "event") & F.col("subject").startswith("topic/")
    return is_of_topic & F.coalesce(F.col("said.what").isin(*_OF_TRASH), F.lit(False))


def trash_records(events: DataFrame) -> DataFrame:
    """Return lethe.event of topics in the trash, and lethe.deletion-phase where a deletion begins, with the phase as
    `what`: topic, id_key, at, source, seq, id, what, ranges, until."""
    begins = (F.col("type") == "deletion-phase") & (F.col("said.phase") == QUEUED)
    return (
        events.where(begins | is_trash_record())
        .select(
            *_of_topic(),
            *_line(),
            F.when(begins, QUEUED).otherwise(F.col("said.what")).alias("what"),
            F.col("said.partitions").alias("ranges"),
            F.timestamp_millis("said.until_ms").alias("until"),
        )
        .where("topic is not null and at is not null")
    )


def broker_records(events: DataFrame) -> DataFrame:
    """Return controllers' records about brokers: broker, at, what (`started`, `log directory failed`, ...)."""
    return (
        events.where(F.col("type") == "broker")
        .select(
            _number_after("subject", "broker/").alias("broker"),
            F.col("time").alias("at"),
            F.col("said.what").alias("what"),
        )
        .where("broker is not null and what is not null and at is not null")
    )


def is_tenure_record() -> Column:
    """Return whether a row of CONTROLLER_EVENTS is about a tenure: elections, and deletions paused or resumed."""
    says_pause = F.coalesce(F.col("said.what").isin(PAUSED, RESUMED), F.lit(False))
    return (F.col("type") == "election") | ((F.col("type") == "event") & says_pause)


def tenure_records(events: DataFrame) -> DataFrame:
    """Return lethe.election, and the lethe.event that deletions are PAUSED or RESUMED, which has no epoch: controller,
    epoch, at, seq, id, what, taken_from, reason, held_by, tenure_ms, loading_ms."""
    return (
        events.where(is_tenure_record())
        .select(
            _number_after("subject", "controller/").alias("controller"),
            F.col("time").alias("at"),
            *_line(),
            *_said("epoch", "what", "taken_from", "reason", "held_by", "tenure_ms", "loading_ms"),
        )
        .where("controller is not null and what is not null and at is not null")
    )


def explode_partitions(lines: DataFrame) -> DataFrame:
    """Return one row for each partition in `ranges` (`0-3,7`), which `partition` replaces. An invalid range, or one of
    more than MAX_RANGE partitions, gives no row."""
    return lines.withColumn("partition", F.explode(_numbers("ranges"))).drop("ranges")


def count_of(ranges: str) -> Column:
    """Return how many numbers `0-3,7` names, as `explode_partitions` counts them; 0 for null."""
    return F.coalesce(F.size(_numbers(ranges)), F.lit(0))


# --- columns ------------------------------------------------------------------------------------------------------


def _numbers(ranges: str) -> Column:
    """Return the numbers in a text like `0-3,7` as an array, without those of invalid and of too large ranges."""

    def in_piece(piece: Column) -> Column:
        low = F.regexp_extract(piece, _RANGE, 1).try_cast("int")
        last = F.regexp_extract(piece, _RANGE, 2)
        high = F.when(last == "", low).otherwise(last.try_cast("int"))
        # Bounded here as well, so that it does not matter in which order the condition and the sequence are computed.
        bounded = F.greatest(low, F.least(high, low.cast("bigint") + MAX_RANGE - 1).cast("int"))
        is_valid = (high >= low) & (high.cast("bigint") - low < MAX_RANGE)
        return F.when(is_valid, F.sequence(low, bounded)).otherwise(F.array().cast("array<int>"))

    return numbers_of_one_range(F.col(ranges), F.flatten(F.transform(F.split(ranges, ","), in_piece)))


def numbers_of_one_range(text: Column, otherwise: Column) -> Column:
    """Return the numbers in a text like `7` or `0-3` as an array, `otherwise` for any other text. Nearly all ranges are
    like these, and Java compiles no function over the pieces of a text."""
    low, high = (F.substring_index(text, "-", which).try_cast("int") for which in (1, -1))
    is_one = text.rlike(r"\A\d{1,4}(?:-\d{1,4})?\z") & (low <= high)
    return F.when(is_one, F.sequence(low, F.greatest(low, high))).otherwise(otherwise)


def topic_of_subject() -> Column:
    """Return the topic of a subject like `topic/orders`."""
    subject = F.col("subject")
    return F.when(subject.startswith("topic/"), F.substring(subject, F.lit(7), F.length(subject)))


def _id_key() -> Column:
    return F.coalesce(F.col("said.topic_id"), F.lit("")).alias("id_key")


def _of_topic() -> tuple[Column, ...]:
    """Return topic, id_key, at: of records whose subject is a topic."""
    return topic_of_subject().alias("topic"), _id_key(), F.col("time").alias("at")


def _line() -> tuple[Column, ...]:
    """Return source, seq, id. `seq` is the record's number in its writer's run: it orders records of one
    millisecond."""
    seq = F.coalesce(F.substring_index("id", "-", -1).try_cast("long"), F.lit(0))
    return F.col("source"), seq.alias("seq"), F.col("id")


def _said(*names: str) -> tuple[Column, ...]:
    """Return these fields of `said`, under their names."""
    return tuple(F.col(f"said.{name}").alias(name) for name in names)


def _number_after(column: str, prefix: str) -> Column:
    return F.regexp_extract(column, f"^{prefix}(\\d{{1,9}})$", 1).try_cast("int")
