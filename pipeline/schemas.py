"""The columns of every table: names, types, meanings. Times are instants (UTC), sizes are bytes, `_ms` are
milliseconds.

A table is about one Kafka cluster. `day` is the UTC date by which a table is partitioned; `pipeline.tables` says of
which instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lethe.protocol import survey_records
from lethe.protocol.survey_records import ColumnKind

STRING: Final = StringType()
INTEGER: Final = IntegerType()
LONG: Final = LongType()
DOUBLE: Final = DoubleType()
BOOLEAN: Final = BooleanType()
TIMESTAMP: Final = TimestampType()
DATE: Final = DateType()
INTEGERS: Final = ArrayType(INTEGER, containsNull=False)
STRINGS: Final = ArrayType(STRING, containsNull=False)


def table(*columns: tuple[str, DataType, str]) -> StructType:
    """Return the schema. Every column is nullable, as in Parquet files; its comment is stored with the table."""
    return StructType(
        [StructField(name, kind, nullable=True, metadata={"comment": says}) for name, kind, says in columns]
    )


DAY: Final = ("day", DATE, "partition")
_INGESTED: Final = (
    ("_ingested_at", TIMESTAMP, "when the row was read"),
    ("_source_file", STRING, "the file that it was read from"),
    ("_batch_id", STRING, "the run that read it"),
)
# --- bronze -------------------------------------------------------------------------------------------------------

ON_BROKERS: Final = StructType([StructField("brokers", STRING), StructField("partitions", STRING)])
SAID: Final = StructType(
    [
        *(StructField(name, STRING) for name in ("topic", "topic_id", "what", "why", "phase", "held_by", "partitions")),
        StructField("partition_count", INTEGER),
        StructField("replica_count", INTEGER),
        StructField("replicas", ArrayType(ON_BROKERS, containsNull=True)),
        *(StructField(name, STRING) for name in ("machine", "before", "after", "result", "error", "reason")),
        *(StructField(name, INTEGER) for name in ("broker", "epoch", "taken_from")),
        *(StructField(name, LONG) for name in ("created_zxid", "size_bytes", "directories", "files")),
        *(StructField(name, LONG) for name in ("marked_at_ms", "owed_since_ms", "until_ms")),
        *(StructField(name, LONG) for name in ("tenure_ms", "loading_ms")),
    ]
)
"""Keys of a record's data, with the names of docs/journal.md. A deletion phase has numbers of partitions and replicas;
in other records `partitions` are ranges, and `replicas` are ranges of partitions by ranges of brokers."""
FLAW: Final = StructType([StructField("rule", STRING), StructField("detail", STRING)])
CONTROLLER_EVENTS: Final = table(
    ("source", STRING, "writer of the record: /lethe/controller/1001, /lethe/broker/1"),
    ("id", STRING, "unique for its source"),
    ("time", TIMESTAMP, "by the writer's clock"),
    ("type", STRING, "type of the record, without the prefix lethe."),
    ("subject", STRING, "for example topic/orders, broker/3"),
    ("data", STRING, "the record's data, JSON"),
    ("said", SAID, "what other tables use of the data; null where it is missing, or of another type"),
    ("flaws", ArrayType(FLAW, containsNull=False), "violations that the record alone shows; null if there are none"),
    *_INGESTED,
    DAY,
)
_OF_KIND: Final[Mapping[ColumnKind, DataType]] = {
    ColumnKind.TEXT: STRING,
    ColumnKind.NUMBER: INTEGER,
    ColumnKind.LONG: LONG,
    ColumnKind.TRUTH: BOOLEAN,
    ColumnKind.INSTANT: TIMESTAMP,
    ColumnKind.NUMBERS: INTEGERS,
    ColumnKind.TEXTS: STRINGS,
    ColumnKind.PROBLEMS: ArrayType(
        StructType([StructField("where", STRING), StructField("what", STRING)]), containsNull=False
    ),
}


def _columns_of(file: survey_records.SurveyFile, *names: str) -> list[tuple[str, DataType, str]]:
    """Return all columns of a kept survey's file, or those of these names."""
    columns = (each for each in file.columns if not names or each.name in names)
    return [(each.name, _OF_KIND[each.kind], each.meaning) for each in columns]


def _of_file(file: survey_records.SurveyFile, *names: str) -> StructType:
    return table(*_columns_of(file, *names), *_INGESTED, DAY)


SURVEYS: Final = _of_file(
    survey_records.MANIFEST,
    *("survey_id", "taken_at", "took_ms", "cluster_id", "complete", "in_motion", "problems"),
)
ZNODE_SNAPSHOT: Final = _of_file(survey_records.ZNODES)
BROKER_METADATA: Final = _of_file(survey_records.METADATA)
AGENT_INVENTORY: Final = _of_file(survey_records.DIRECTORIES)

# --- silver -------------------------------------------------------------------------------------------------------

HELD: Final = StructType(
    [
        StructField("held_by", STRING),
        StructField("since", TIMESTAMP),
        StructField("until", TIMESTAMP),
        StructField("ms", LONG),
    ]
)
WAITED_FOR: Final = StructType(
    [
        StructField("broker", INTEGER),
        StructField("reason", STRING),
        StructField("replicas", INTEGER),
        StructField("since", TIMESTAMP),
        StructField("until", TIMESTAMP),
        StructField("ms", LONG),
    ]
)
_SPAN: Final = (
    ("topic", STRING, "topic"),
    ("topic_id", STRING, "the incarnation; null where the cluster has no ids"),
    ("span", INTEGER, "number of the deletion of that topic and id, from 1; without ids a name may have several"),
)
DELETION_SPANS: Final = table(
    *_SPAN,
    ("partitions", INTEGER, "how many"),
    ("replicas", INTEGER, "how many"),
    (
        "marked_at",
        TIMESTAMP,
        "when the marker was created (earlier releases: when a controller first saw it); null if unknown",
    ),
    ("queued_at", TIMESTAMP, "when it was first queued"),
    ("started_at", TIMESTAMP, "when it was first started"),
    ("tombstoned_at", TIMESTAMP, "when no registered broker owed an answer to the tombstone"),
    ("first_ack_at", TIMESTAMP, "first replica acknowledged, to a controller"),
    ("last_ack_at", TIMESTAMP, "last replica acknowledged"),
    ("acknowledged_at", TIMESTAMP, "every replica acknowledged"),
    ("znodes_gone_at", TIMESTAMP, "its znodes were removed"),
    ("done_at", TIMESTAMP, "deleted, as the controller sees it"),
    ("let_go_at", TIMESTAMP, "the mark was removed, or refused by a controller that took over"),
    (
        "vanished_at",
        TIMESTAMP,
        "others had removed its znodes, or they were deleted unread; bytes may lie on disks",
    ),
    (
        "bytes_gone_at",
        TIMESTAMP,
        "the last directory was removed; null until each broker has removed what it acknowledged or owed",
    ),
    ("outcome", STRING, "done, let go, vanished, or open"),
    ("phase", STRING, "the last phase that was reached"),
    ("acked_replicas", INTEGER, "replicas that acknowledged, each counted once"),
    ("freed_directories", LONG, "directories removed"),
    ("freed_bytes", LONG, "bytes freed"),
    ("freed_files", LONG, "files removed"),
    ("held", ArrayType(HELD, containsNull=False), "why it was held back before it was queued, and how long"),
    ("held_ms", LONG, "sum of that; null while it is held"),
    (
        "waited_for",
        ArrayType(WAITED_FOR, containsNull=False),
        "brokers, and why (now, if it lasts): broker_to_return, log_directory, unreachable, asked, or an error code",
    ),
    ("waited_ms", LONG, "time in which at least one of these lasted; null while one lasts"),
    ("controllers", INTEGERS, "ids of the controllers that worked on it"),
    ("last_at", TIMESTAMP, "time of its last record"),
    ("first_line", STRING, "source and id of its first record"),
    ("last_line", STRING, "source and id of its last record"),
    ("done_line", STRING, "source and id of its first record with phase done"),
    ("dones", INTEGER, "number of records with phase done"),
    ("owed_by", INTEGERS, "brokers that it ended without: they owed replicas"),
    ("owed_replicas", INTEGER, "replicas that these owed"),
    ("settled_at", TIMESTAMP, "when the last of these debts was closed; null while one is open, and without debts"),
    ("deleted_ms", LONG, "from the mark to done"),
    ("reclaimed_ms", LONG, "from the mark to the last byte"),
    DAY,
)
REPLICA_DELETIONS: Final = table(
    *_SPAN,
    ("partition", INTEGER, "partition"),
    ("broker", INTEGER, "broker"),
    ("first_asked_at", TIMESTAMP, "when its deletion was first started"),
    ("last_asked_at", TIMESTAMP, "when its deletion was last started"),
    ("attempts", INTEGER, "how often it was started"),
    ("acked_at", TIMESTAMP, "when a controller first counted its acknowledgement"),
    ("refused", INTEGER, "answers that did not count"),
    ("last_refusal", STRING, "the last of them"),
    ("ineligible_since", TIMESTAMP, "when it first could not be deleted, or answered with an error"),
    (
        "ineligible_ms",
        LONG,
        "from then until it was acknowledged or the deletion ended; 0: never ineligible; null while it lasts",
    ),
    ("last_ineligible_at", TIMESTAMP, "when it last could not be deleted, or answered with an error"),
    ("ack_ms", LONG, "from the last request to the acknowledgement"),
    DAY,
)
LEFTOVERS: Final = _of_file(survey_records.LEFTOVERS)
QUARANTINE: Final = table(
    ("_source_file", STRING, "where it was read"),
    ("line_hash", STRING, "SHA-256 of the line"),
    ("line", STRING, "first 10,000 characters of the line; a late line is stored whole"),
    (
        "reason",
        STRING,
        "cut off, not JSON, too long, unknown type, later than the watermark, lost to rotation, a damaged file, ...",
    ),
    ("detail", STRING, "details"),
    ("copies", LONG, "number of occurrences in the file"),
)

# --- gold ---------------------------------------------------------------------------------------------------------

DELETION_SLO: Final = table(
    ("size_class", STRING, "by replicas: 1-9, 10-99, 100-999, 1000+; unknown; all"),
    ("deletions", LONG, "topics marked that day"),
    ("done", LONG, "deleted by now"),
    ("owing", LONG, "of these, a broker still owes replicas"),
    ("reclaimed", LONG, "their bytes are removed too"),
    ("let_go", LONG, "marks that were removed or refused"),
    ("vanished", LONG, "znodes removed by others"),
    ("open", LONG, "none of these"),
    ("deleted_p50_ms", DOUBLE, "from mark to done"),
    ("deleted_p90_ms", DOUBLE, ""),
    ("deleted_p99_ms", DOUBLE, ""),
    ("deleted_max_ms", LONG, ""),
    ("reclaimed_p50_ms", DOUBLE, "from mark to the last byte"),
    ("reclaimed_p90_ms", DOUBLE, ""),
    ("reclaimed_p99_ms", DOUBLE, ""),
    ("reclaimed_max_ms", LONG, ""),
    ("held_ms", LONG, "sum of times held back"),
    ("waited_ms", LONG, "sum of times waiting for brokers"),
    DAY,
)
_SINCE: Final = (*_SPAN, ("since", TIMESTAMP, "time of the mark, or else of the first record"))
_CAUSES: Final = (
    ("phase", STRING, "the last phase that was reached"),
    ("reasons", STRINGS, "what it waits for, one sentence each"),
    ("brokers", INTEGERS, "brokers among the causes"),
    ("seen_in", STRING, "journal, survey, or both"),
    ("remedy", STRING, "a command that helps or shows more, or an instruction"),
)
WAITING_DELETIONS: Final = table(*_SINCE, *_CAUSES)
STUCK_NOW: Final = table(*_SINCE, ("waiting_ms", LONG, "until the time of the run"), *_CAUSES)
SLOW_BROKERS: Final = table(
    ("broker", INTEGER, "broker"),
    ("replicas", LONG, "replicas whose deletion was asked for"),
    ("acked", LONG, "acknowledged"),
    ("refused", LONG, "answers that did not count"),
    ("ack_p50_ms", DOUBLE, "from asking to the acknowledgement"),
    ("ack_p99_ms", DOUBLE, ""),
    ("ack_max_ms", LONG, ""),
    ("ineligible_ms", LONG, "sum of times in which replicas were ineligible"),
    ("times_median", DOUBLE, "its p50 divided by the median of all brokers' p50 of that day"),
    DAY,
)
DAILY_RECLAIM: Final = table(
    ("broker", INTEGER, "broker"),
    ("directories", LONG, "removed"),
    ("files", LONG, "removed"),
    ("size_bytes", LONG, "freed"),
    ("failed_directories", LONG, "directories whose removal has failed at least once"),
    ("topics", LONG, "topics among them"),
    DAY,
)
LEFTOVER_BY_BROKER: Final = table(
    *_columns_of(survey_records.LEFTOVERS, "survey_id", "taken_at"),
    ("broker", INTEGER, "broker; null for ZooKeeper"),
    *_columns_of(survey_records.LEFTOVERS, "place", "standing", "reason"),
    ("findings", LONG, "how many"),
    ("size_bytes", LONG, "on disk"),
    DAY,
)
STALE_TOPIC_CANDIDATES: Final = table(
    ("topic", STRING, "topic"),
    ("topic_id", STRING, "the incarnation in the survey; no other one is deleted"),
    ("partitions", INTEGER, "how many"),
    ("replicas", INTEGER, "how many"),
    ("size_bytes", LONG, "on all disks"),
    ("segment_bytes", LONG, "of all replicas' segments, as brokers count; null if one is unknown"),
    ("is_empty", BOOLEAN, "no segment of any replica holds a byte"),
    ("last_write", TIMESTAMP, "newest known write to any replica"),
    ("unwritten_days", INTEGER, "whole days since then, or since its size last changed between surveys"),
    ("evidence", STRING, "mtime: every replica's directory was read; sizes: unchanged over surveys"),
    ("created_at", TIMESTAMP, "when the topic was created"),
    ("survey_id", STRING, "the newest complete survey, from which the row is"),
    ("taken_at", TIMESTAMP, "when the survey began"),
)
CONTROLLER_TENURES: Final = table(
    ("controller", INTEGER, "id"),
    ("epoch", INTEGER, "controller epoch"),
    ("elected_at", TIMESTAMP, ""),
    ("active_at", TIMESTAMP, "everything loaded"),
    ("resigned_at", TIMESTAMP, "null while it lasts, and if the controller died"),
    ("paused_at", TIMESTAMP, "when it found deletions paused; null if they are not paused"),
    ("paused_by", STRING, "the cause: PAUSED or CONFIGURATION; null in journals of earlier releases"),
    ("taken_from", INTEGER, "the controller that it took over from"),
    ("loading_ms", LONG, "from the election to being active"),
    ("tenure_ms", LONG, "duration; until the next election if its end was not recorded"),
    ("reason", STRING, "why it ended"),
    DAY,
)

# --- quality ------------------------------------------------------------------------------------------------------

VIOLATIONS: Final = table(
    ("rule", STRING, "which rule"),
    ("severity", STRING, "error (sets the exit code) or warning"),
    ("subject", STRING, "topic/orders, replica/orders-0 on 3, controller/1001"),
    ("time", TIMESTAMP, "when"),
    ("detail", STRING, "found and expected values"),
    ("event_ids", STRINGS, "source and id of the records that show it"),
    DAY,
)
