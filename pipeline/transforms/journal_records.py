"""Event records as typed columns: one frame for each kind that the tables use.

Theory of operation. `data` is text. Only records of the required kinds are parsed, each once, with a schema that reads
every value as text and is cast afterwards. A key that is missing or of another type gives null, never an error, and the
transform that needs it drops the record. The same holds for an impossible number, so no damaged record overflows sums
and times.

`id_key` is the topic's id, or the empty text if the record has none: older journals, clusters without ids, unreadable
topics. Unlike null it can be a key of groups and joins. `at` is the time by the writer's clock.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, MapType, StringType, StructField, StructType

from lethe.controller.core.deletion_memory import DELETING, PAUSED, RESUMED
from lethe.pipeline.outcomes import REFUSED_AS
from lethe.protocol.journal_debts import PAID, VOID, WRITTEN, WRITTEN_OFF
from lethe.protocol.journal_trash import BACK, EXPIRED, GAVE_WAY, PURGED, RESTORED, TRASHED

MAX_RANGE: Final = 100_000
"""Maximum size of a range of partitions or brokers; a larger one is left to the audit."""
_RANGE: Final = r"^(\d{1,10})(?:-(\d{1,10}))?$"

MAX_BYTES: Final = 2**50
"""Maximum of one line about removed bytes; the same for files and directories."""
MAX_DURATION_MS: Final = 100 * 366 * 86_400_000
_FREED_NUMBERS: Final = ("directories", "size_bytes", "files")

QUEUED: Final = "queued"
"""The phase in which a deletion begins."""
ASKED: Final = "asked"
INELIGIBLE: Final = "ineligible"
ACKED: Final = "acked"
REFUSED: Final = "refused"
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
    lines = events.where((F.col("type") == "deletion-phase") | is_refused_deletion())
    return (
        _parsed(lines, "phase", "topic_id", "partitions", "replicas", "held_by", "marked_at_ms", "what", "why")
        .select(
            _topic().alias("topic"),
            _id_key(),
            F.col("time").alias("at"),
            "source",
            _seq().alias("seq"),
            "id",
            _number_after("source", "/lethe/controller/").alias("controller"),
            F.when(is_refusal, refused_as).otherwise(F.col("said.phase")).alias("phase"),
            F.col("said.partitions").try_cast("int").alias("partitions"),
            F.col("said.replicas").try_cast("int").alias("replicas"),
            F.col("said.held_by").alias("held_by"),
            _marked_at().alias("marked_at"),
            is_refusal.alias("is_refusal"),
        )
        .where("topic is not null and phase is not null and at is not null")
    )


def is_refused_deletion() -> Column:
    """Return whether a row of CONTROLLER_EVENTS may report a refused deletion; true for few others."""
    return (F.col("type") == "refusal") & F.col("data").contains(DELETING)


def replica_records(events: DataFrame) -> DataFrame:
    """Return controllers' records about the deletion of replicas, one row for each broker: topic, id_key, at, kind,
    broker, ranges, result (if REFUSED). In older journals each record is about one broker. Kinds: ASKED, INELIGIBLE,
    ACKED (counted), REFUSED (an answer that does not count)."""
    data = F.col("data")
    moved = (F.col("type") == "transition") & data.contains("DELETION_")
    answered = (F.col("type") == "ack") & data.contains('"result"')
    state = F.col("said.after")
    result = F.col("said.result")
    by_state = F.coalesce(*(F.when(state == name, kind) for name, kind in _BY_STATE.items()))
    by_result = F.when(result == "NONE", ACKED).when(result.isNotNull(), REFUSED)
    keys = ("topic_id", "broker", "partitions", "machine", "after", "result")
    lines = _parsed(events.where(moved | answered), *keys, replicas=MapType(StringType(), StringType()))
    of_one_broker = F.array(F.struct(F.col("said.broker").alias("key"), F.col("said.partitions").alias("value")))
    by_brokers = F.coalesce(F.map_entries("said.replicas"), of_one_broker)
    return (
        lines.select("*", F.explode(by_brokers).alias("on"))
        .select(
            _topic().alias("topic"),
            _id_key(),
            F.col("time").alias("at"),
            F.when(F.col("type") == "ack", by_result).when(F.col("said.machine") == "replica", by_state).alias("kind"),
            F.explode(_numbers("on.key")).alias("broker"),
            F.col("on.value").alias("ranges"),
            F.when(result != "NONE", result).alias("result"),
        )
        .where("topic is not null and kind is not null and broker is not null and at is not null")
    )


def possible_refusals(events: DataFrame) -> DataFrame:
    """Return all REFUSED records and few others: most answers are dropped before parsing."""
    return events.where((F.col("type") == "ack") & ~F.col("data").contains('"result":"NONE"'))


def freed_records(events: DataFrame) -> DataFrame:
    """Return lethe.bytes-freed: broker, topic (a long one may be cut), id_key, at, day, directories, size_bytes, files,
    error."""
    lines = events.where(F.col("type") == "bytes-freed")
    return (
        _parsed(lines, "topic", "topic_id", "directories", "size_bytes", "files", "error")
        .select(
            _number_after("subject", "broker/").alias("broker"),
            F.col("said.topic").alias("topic"),
            _id_key(),
            F.col("time").alias("at"),
            F.to_date("time").alias("day"),
            *(F.coalesce(_bounded_number(MAX_BYTES, n), F.lit(0)).alias(n) for n in _FREED_NUMBERS),
            F.col("said.error").alias("error"),
        )
        .where("broker is not null and topic is not null and at is not null")
    )


def debt_records(events: DataFrame) -> DataFrame:
    """Return lethe.debt: topic, id_key, broker, znode, created_zxid, at, source, seq, id, what, ranges, since,
    size_bytes, why. `znode` names the debt among those of a broker and topic: the czxid, or else when it began."""
    lines = events.where(F.col("type") == "debt")
    keys = ("what", "broker", "topic_id", "created_zxid", "partitions", "owed_since_ms", "size_bytes", "why")
    zxid, since_ms = F.col("said.created_zxid").try_cast("long"), _bounded_number(MAX_DURATION_MS, "owed_since_ms")
    return (
        _parsed(lines, *keys)
        .select(
            _topic().alias("topic"),
            _id_key(),
            F.col("said.broker").try_cast("int").alias("broker"),
            F.coalesce(zxid, since_ms, F.lit(-1)).alias("znode"),
            zxid.alias("created_zxid"),
            F.col("time").alias("at"),
            "source",
            _seq().alias("seq"),
            "id",
            F.col("said.what").alias("what"),
            F.col("said.partitions").alias("ranges"),
            F.coalesce(F.timestamp_millis(since_ms), "time").alias("since"),
            _bounded_number(MAX_BYTES, "size_bytes").alias("size_bytes"),
            F.col("said.why").alias("why"),
        )
        .where("topic is not null and broker is not null and at is not null")
        .where(F.col("what").isin(WRITTEN, PAID, VOID, WRITTEN_OFF))
    )


def is_trash_record() -> Column:
    """Return whether a row of CONTROLLER_EVENTS may be about a topic in the trash."""
    is_of_topic = (F.col("type") == "event") & F.col("subject").startswith("topic/")
    texts = (F.col("data").contains(text) for text in ("the trash", RESTORED, GAVE_WAY))
    return is_of_topic & reduce(or_, texts)


def trash_records(events: DataFrame) -> DataFrame:
    """Return lethe.event of topics in the trash, and lethe.deletion-phase where a deletion begins, with the phase as
    `what`: topic, id_key, at, source, seq, id, what, ranges, until."""
    begins = (F.col("type") == "deletion-phase") & F.col("data").contains(f'"{QUEUED}"')
    until = F.timestamp_millis(_bounded_number(MAX_DURATION_MS, "until_ms"))
    return (
        _parsed(events.where(begins | is_trash_record()), "what", "phase", "topic_id", "partitions", "until_ms")
        .select(
            _topic().alias("topic"),
            _id_key(),
            F.col("time").alias("at"),
            "source",
            _seq().alias("seq"),
            "id",
            F.coalesce("said.what", "said.phase").alias("what"),
            F.col("said.partitions").alias("ranges"),
            until.alias("until"),
        )
        .where("topic is not null and at is not null")
        .where(F.col("what").isin(TRASHED, BACK, RESTORED, EXPIRED, PURGED, GAVE_WAY, QUEUED))
    )


def broker_records(events: DataFrame) -> DataFrame:
    """Return controllers' records about brokers: broker, at, what (`started`, `log directory failed`, ...)."""
    return (
        _parsed(events.where(F.col("type") == "broker"), "what")
        .select(
            _number_after("subject", "broker/").alias("broker"),
            F.col("time").alias("at"),
            F.col("said.what").alias("what"),
        )
        .where("broker is not null and what is not null and at is not null")
    )


def is_tenure_record() -> Column:
    """Return whether a row of CONTROLLER_EVENTS is about a tenure: elections, and deletions paused or resumed."""
    says_pause = F.col("data").contains(PAUSED) | F.col("data").contains(RESUMED)
    return (F.col("type") == "election") | ((F.col("type") == "event") & says_pause)


def tenure_records(events: DataFrame) -> DataFrame:
    """Return lethe.election, and the lethe.event that deletions are PAUSED or RESUMED, which has no epoch: controller,
    epoch, at, seq, id, what, taken_from, reason, held_by, tenure_ms, loading_ms."""
    lines = events.where(is_tenure_record())
    return (
        _parsed(lines, "what", "epoch", "taken_from", "reason", "held_by", "tenure_ms", "loading_ms")
        .select(
            _number_after("subject", "controller/").alias("controller"),
            F.col("said.epoch").try_cast("int").alias("epoch"),
            F.col("time").alias("at"),
            _seq().alias("seq"),
            "id",
            F.col("said.what").alias("what"),
            F.col("said.taken_from").try_cast("int").alias("taken_from"),
            F.col("said.reason").alias("reason"),
            F.col("said.held_by").alias("held_by"),
            *(_bounded_number(MAX_DURATION_MS, name).alias(name) for name in ("tenure_ms", "loading_ms")),
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


def _parsed(events: DataFrame, *keys: str, **others: DataType) -> DataFrame:
    """Return the records with `said`: these keys of the data as texts, `others` as their types."""
    schema = StructType([StructField(key, others.get(key, StringType())) for key in (*keys, *others)])
    return events.withColumn("said", F.from_json("data", schema))


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

    return F.flatten(F.transform(F.split(ranges, ","), in_piece))


def _topic() -> Column:
    subject = F.col("subject")
    return F.when(subject.startswith("topic/"), F.substring(subject, F.lit(7), F.length(subject)))


def _id_key() -> Column:
    return F.coalesce(F.col("said.topic_id"), F.lit("")).alias("id_key")


def _bounded_number(most: int, name: str) -> Column:
    """Return a whole number of at least 0; null beyond `most`."""
    number = F.col(f"said.{name}").try_cast("long")
    return F.when(number.between(0, most), number)


def _marked_at() -> Column:
    """ZooKeeper's clock may be ahead of the writer's."""
    return F.least(F.timestamp_millis(_bounded_number(MAX_DURATION_MS, "marked_at_ms")), F.col("time"))


def _seq() -> Column:
    """Return the record's number in its writer's run: it orders records of one millisecond."""
    return F.coalesce(F.substring_index("id", "-", -1).try_cast("long"), F.lit(0))


def _number_after(column: str, prefix: str) -> Column:
    return F.regexp_extract(column, f"^{prefix}(\\d{{1,9}})$", 1).try_cast("int")
