"""The columns of every table: names, types, what they mean. Times are instants (UTC), sizes are bytes, `_ms` are
milliseconds.

A table is of one Kafka cluster. `day` is the UTC date by which a table is partitioned; which instant it is the date of
stands with the table, in `pipeline.tables`.
"""

from __future__ import annotations

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

TEXT: Final = StringType()
NUMBER: Final = IntegerType()
LONG: Final = LongType()
REAL: Final = DoubleType()
TRUTH: Final = BooleanType()
INSTANT: Final = TimestampType()
DATE: Final = DateType()
NUMBERS: Final = ArrayType(NUMBER, containsNull=False)
TEXTS: Final = ArrayType(TEXT, containsNull=False)


def _table(*columns: tuple[str, DataType, str]) -> StructType:
    """Every column is nullable, as in Parquet files; the comment travels with the table."""
    return StructType(
        [StructField(name, kind, nullable=True, metadata={"comment": says}) for name, kind, says in columns]
    )


_DAY: Final = ("day", DATE, "partition")
_INGESTED: Final = (
    ("_ingested_at", INSTANT, "when the row was read"),
    ("_source_file", TEXT, "the file that it was read from"),
    ("_batch_id", TEXT, "the run that read it"),
)
_SURVEY: Final = (
    ("survey_id", TEXT, "the survey that saw it"),
    ("taken_at", INSTANT, "when that survey began"),
)

# --- bronze -------------------------------------------------------------------------------------------------------

CONTROLLER_EVENTS: Final = _table(
    ("source", TEXT, "who wrote the line: /lethe/controller/1001, /lethe/broker/1"),
    ("id", TEXT, "unique for its source"),
    ("time", INSTANT, "by the writer's clock"),
    ("type", TEXT, "what kind of fact, without the prefix lethe."),
    ("subject", TEXT, "what it is about: topic/orders, broker/3"),
    ("data", TEXT, "the fact's data, JSON"),
    *_INGESTED,
    _DAY,
)
SURVEYS: Final = _table(
    *_SURVEY,
    ("took_ms", LONG, "how long it took"),
    ("cluster_id", TEXT, "the cluster's id, where it has one"),
    ("complete", TRUTH, "everything was seen, disks of source broker as far as those tell"),
    ("in_motion", TEXTS, "topics that came, went, were marked or changed meanwhile; nothing is said of them"),
    (
        "problems",
        ArrayType(StructType([StructField("where", TEXT), StructField("what", TEXT)]), containsNull=False),
        "what could not be seen",
    ),
    *_INGESTED,
    _DAY,
)
ZNODE_SNAPSHOT: Final = _table(
    *_SURVEY,
    ("kind", TEXT, "topic, partition, marker, config, reassignment, broker, controller"),
    ("path", TEXT, "of the znode"),
    ("topic", TEXT, "topic"),
    ("topic_id", TEXT, "the topic's id, as Kafka writes it"),
    ("partition", NUMBER, "partition"),
    ("replicas", NUMBERS, "of a partition: its assignment; of a reassignment: what is wanted"),
    ("adding", NUMBERS, "replicas that a reassignment adds"),
    ("removing", NUMBERS, "replicas that a reassignment removes"),
    ("leader", NUMBER, "of the state znode"),
    ("leader_epoch", NUMBER, "of the state znode"),
    ("isr", NUMBERS, "of the state znode"),
    (
        "has_znode",
        TRUTH,
        "of a topic: it has a znode /partitions; of a partition: it is a child of that, null where there is none",
    ),
    ("has_state_znode", TRUTH, "of a partition: its state znode exists, readable or not"),
    ("is_readable", TRUTH, "of a topic: its assignment can be understood"),
    ("broker", NUMBER, "of a broker, of the controller"),
    ("broker_epoch", LONG, "czxid of the registration"),
    ("controller_epoch", NUMBER, "of /controller_epoch"),
    ("created_at", INSTANT, "ctime of a topic's znode and of a marker"),
    *_INGESTED,
    _DAY,
)
BROKER_METADATA: Final = _table(
    *_SURVEY,
    ("kind", TEXT, "broker: one row for each that was asked; topic: what its cache has"),
    ("broker", NUMBER, "who was asked"),
    ("answered", TRUTH, "of a broker: it told its cache"),
    ("told_log_dirs", TRUTH, "of a broker: it told its log directories"),
    ("failure", TEXT, "of a broker: how it failed to answer, if it did"),
    ("controller", NUMBER, "of a broker: whom it takes for the controller; -1 for nobody"),
    ("topic", TEXT, "topic"),
    ("topic_id", TEXT, "as the cache has it"),
    ("partitions", NUMBERS, "as the cache has them"),
    *_INGESTED,
    _DAY,
)
AGENT_INVENTORY: Final = _table(
    *_SURVEY,
    ("broker", NUMBER, "whose disk"),
    ("log_dir", TEXT, "path of the log directory"),
    ("source", TEXT, "local: read from the file system; broker: the broker's word"),
    ("kind", TEXT, "log-dir: one row for each; replica, future, deleted, stray, unknown: a directory in it"),
    ("directory", TEXT, "its name"),
    ("topic", TEXT, "of a long name as far as the directory's name tells"),
    ("partition", NUMBER, "partition"),
    ("topic_id", TEXT, "what partition.metadata says"),
    ("size_bytes", LONG, "of all files"),
    ("segment_bytes", LONG, "of the segments alone, which are empty where nothing was written"),
    ("files", LONG, "how many files"),
    ("newest_write", INSTANT, "newest modification of the directory or of any file in it"),
    ("newest_segment_write", INSTANT, "newest modification of a segment"),
    ("has_failed", TRUTH, "of a log-dir: its broker can no longer use it"),
    ("problem", TEXT, "why it could not be seen, or not whole"),
    *_INGESTED,
    _DAY,
)

# --- silver -------------------------------------------------------------------------------------------------------

HELD: Final = StructType(
    [
        StructField("held_by", TEXT),
        StructField("since", INSTANT),
        StructField("until", INSTANT),
        StructField("ms", LONG),
    ]
)
WAITED_FOR: Final = StructType(
    [
        StructField("broker", NUMBER),
        StructField("reason", TEXT),
        StructField("replicas", NUMBER),
        StructField("since", INSTANT),
        StructField("until", INSTANT),
        StructField("ms", LONG),
    ]
)
_SPAN: Final = (
    ("topic", TEXT, "topic"),
    ("topic_id", TEXT, "the incarnation; null where the cluster has no ids"),
    ("span", NUMBER, "which deletion of that topic and id, from 1: without ids a name has several"),
)
DELETION_SPANS: Final = _table(
    *_SPAN,
    ("partitions", NUMBER, "how many"),
    ("replicas", NUMBER, "how many"),
    (
        "marked_at",
        INSTANT,
        "when ZooKeeper made the marker (earlier releases: when a controller first saw it); null where nothing says so",
    ),
    ("queued_at", INSTANT, "when it was first queued"),
    ("started_at", INSTANT, "when it was first started"),
    ("tombstoned_at", INSTANT, "when the brokers were first told that it goes"),
    ("first_ack_at", INSTANT, "first replica acknowledged, to a controller"),
    ("last_ack_at", INSTANT, "last replica acknowledged"),
    ("acknowledged_at", INSTANT, "every replica acknowledged"),
    ("znodes_gone_at", INSTANT, "its znodes were removed"),
    ("done_at", INSTANT, "deleted, as the controller sees it"),
    ("let_go_at", INSTANT, "the mark was taken back, or refused by a controller that took over"),
    (
        "vanished_at",
        INSTANT,
        "somebody else had removed its znodes, or by then what stood there was deleted unread; bytes may lie on disks",
    ),
    (
        "bytes_gone_at",
        INSTANT,
        "the last directory was removed; null until each broker has removed what it acknowledged",
    ),
    ("outcome", TEXT, "done, let go, vanished, or open"),
    ("phase", TEXT, "the last phase that was reached"),
    ("acked_replicas", NUMBER, "replicas that acknowledged, each counted once"),
    ("freed_directories", LONG, "directories removed"),
    ("freed_bytes", LONG, "bytes freed"),
    ("freed_files", LONG, "files removed"),
    ("held", ArrayType(HELD, containsNull=False), "why it was held back before it was queued, and how long"),
    ("held_ms", LONG, "sum of that; null while it is held"),
    (
        "waited_for",
        ArrayType(WAITED_FOR, containsNull=False),
        "for whom, and why (now, if it lasts): broker_to_return, log_directory, unreachable, asked, or an answer",
    ),
    ("waited_ms", LONG, "as long as one of these lasted, overlaps counted once; null while one lasts"),
    ("controllers", NUMBERS, "ids of the controllers that worked on it"),
    ("last_at", INSTANT, "its last line"),
    ("first_line", TEXT, "source and id of its first line"),
    ("last_line", TEXT, "source and id of its last line"),
    ("done_line", TEXT, "source and id of the line that first said done"),
    ("dones", NUMBER, "how often it was said to be done"),
    ("deleted_ms", LONG, "from the mark to done"),
    ("reclaimed_ms", LONG, "from the mark to the last byte"),
    _DAY,
)
REPLICA_DELETIONS: Final = _table(
    *_SPAN,
    ("partition", NUMBER, "partition"),
    ("broker", NUMBER, "broker"),
    ("first_asked_at", INSTANT, "when its deletion was first started"),
    ("last_asked_at", INSTANT, "when its deletion was last started"),
    ("attempts", NUMBER, "how often it was started"),
    ("acked_at", INSTANT, "when a controller first counted its acknowledgement"),
    ("refused", NUMBER, "answers that did not count"),
    ("last_refusal", TEXT, "the last of them"),
    ("ineligible_since", INSTANT, "when it first could not be deleted, or answered with an error"),
    (
        "ineligible_ms",
        LONG,
        "how long from then until it was, or the deletion ended; 0: always possible; null while it is not",
    ),
    ("last_ineligible_at", INSTANT, "when it last could not be deleted, or answered with an error"),
    ("ack_ms", LONG, "from the last time of asking to the acknowledgement"),
    _DAY,
)
DIRECTORIES: Final = StructType(AGENT_INVENTORY.fields)
LEFTOVERS: Final = _table(
    *_SURVEY,
    ("place", TEXT, "zookeeper, cache, disk"),
    ("standing", TEXT, "left_over, set_aside, missing, incomplete, pending"),
    ("reason", TEXT, "for programs; the sentence is in protocol.findings"),
    ("what", TEXT, "a znode path, a topic in a cache, the path of a directory"),
    ("topic", TEXT, "topic"),
    ("broker", NUMBER, "broker"),
    ("partition", NUMBER, "partition"),
    ("size_bytes", LONG, "on disk"),
    ("detail", TEXT, "what is particular about this one"),
    _DAY,
)
QUARANTINE: Final = _table(
    ("_source_file", TEXT, "where it was read"),
    ("line_hash", TEXT, "SHA-256 of the line"),
    ("line", TEXT, "the line, its first 10,000 characters; whole where it only came late"),
    (
        "reason",
        TEXT,
        "cut off, not JSON, unknown type, later than the watermark, lost to rotation, a damaged file, ...",
    ),
    ("detail", TEXT, "what exactly"),
    ("copies", LONG, "how often that line stands in the file"),
)

# --- gold ---------------------------------------------------------------------------------------------------------

DELETION_SLO: Final = _table(
    ("size_class", TEXT, "by replicas: 1-9, 10-99, 100-999, 1000+; unknown; all"),
    ("deletions", LONG, "topics marked that day"),
    ("done", LONG, "deleted by now"),
    ("reclaimed", LONG, "their bytes gone too"),
    ("let_go", LONG, "marks taken back"),
    ("vanished", LONG, "znodes removed by somebody else"),
    ("open", LONG, "none of these"),
    ("deleted_p50_ms", REAL, "from mark to done"),
    ("deleted_p90_ms", REAL, ""),
    ("deleted_p99_ms", REAL, ""),
    ("deleted_max_ms", LONG, ""),
    ("reclaimed_p50_ms", REAL, "from mark to the last byte"),
    ("reclaimed_p90_ms", REAL, ""),
    ("reclaimed_p99_ms", REAL, ""),
    ("reclaimed_max_ms", LONG, ""),
    ("held_ms", LONG, "held back, all together"),
    ("waited_ms", LONG, "waited for brokers, all together"),
    _DAY,
)
STUCK_NOW: Final = _table(
    *_SPAN,
    ("since", INSTANT, "marked at, or known to be marked since"),
    ("waiting_ms", LONG, "until the moment of the run"),
    ("phase", TEXT, "the last phase that was reached"),
    ("reasons", TEXTS, "what it waits for, one sentence each"),
    ("brokers", NUMBERS, "the brokers among that"),
    ("seen_in", TEXT, "journal, survey, or both"),
    ("remedy", TEXT, "the command that helps, or shows more"),
)
SLOW_BROKERS: Final = _table(
    ("broker", NUMBER, "broker"),
    ("replicas", LONG, "replicas whose deletion was asked for"),
    ("acked", LONG, "acknowledged"),
    ("refused", LONG, "answers that did not count"),
    ("ack_p50_ms", REAL, "from asking to the acknowledgement"),
    ("ack_p99_ms", REAL, ""),
    ("ack_max_ms", LONG, ""),
    ("ineligible_ms", LONG, "replicas could not be deleted, all together"),
    ("times_median", REAL, "its p50 against the median of all brokers' that day"),
    _DAY,
)
DAILY_RECLAIM: Final = _table(
    ("broker", NUMBER, "broker"),
    ("directories", LONG, "removed"),
    ("files", LONG, "removed"),
    ("size_bytes", LONG, "freed"),
    ("failed_directories", LONG, "could not be removed at the first attempt, or yet"),
    ("topics", LONG, "topics among them"),
    _DAY,
)
LEFTOVER_BY_BROKER: Final = _table(
    *_SURVEY,
    ("broker", NUMBER, "broker; null for ZooKeeper"),
    ("place", TEXT, "zookeeper, cache, disk"),
    ("standing", TEXT, "left_over, set_aside, missing, incomplete, pending"),
    ("reason", TEXT, "reason"),
    ("findings", LONG, "how many"),
    ("size_bytes", LONG, "on disk"),
    _DAY,
)
STALE_TOPIC_CANDIDATES: Final = _table(
    ("topic", TEXT, "topic"),
    ("topic_id", TEXT, "the incarnation that was seen: another one is never deleted for it"),
    ("partitions", NUMBER, "how many"),
    ("replicas", NUMBER, "how many"),
    ("size_bytes", LONG, "on all disks"),
    ("segment_bytes", LONG, "of all replicas' segments, as brokers count; null where not known of all"),
    ("is_empty", TRUTH, "no segment of any replica holds a byte"),
    ("last_write", INSTANT, "newest write that is known of, to any replica"),
    ("unwritten_days", NUMBER, "whole days since, or since its size was last seen to change"),
    ("evidence", TEXT, "mtime: every replica's directory was read; sizes: unchanged over surveys"),
    ("created_at", INSTANT, "when the topic was created"),
    ("survey_id", TEXT, "the newest survey, which this rests on"),
    ("taken_at", INSTANT, "when that survey began"),
)
CONTROLLER_TENURES: Final = _table(
    ("controller", NUMBER, "id"),
    ("epoch", NUMBER, "controller epoch"),
    ("elected_at", INSTANT, ""),
    ("active_at", INSTANT, "everything loaded"),
    ("resigned_at", INSTANT, "null while it lasts, and after a death"),
    ("paused_at", INSTANT, "when it found deletions paused; null: it found none, or they went on"),
    ("paused_by", TEXT, "what holds them: PAUSED or CONFIGURATION; null in journals of earlier releases"),
    ("taken_from", NUMBER, "the controller that held control until then"),
    ("loading_ms", LONG, "from the election to being active"),
    ("tenure_ms", LONG, "how long it lasted; until the next election where its end was not written"),
    ("reason", TEXT, "why it ended"),
    _DAY,
)

# --- quality ------------------------------------------------------------------------------------------------------

VIOLATIONS: Final = _table(
    ("rule", TEXT, "which rule"),
    ("severity", TEXT, "error: the exit code says so; warning"),
    ("subject", TEXT, "topic/orders, replica/orders-0 on 3, controller/1001"),
    ("time", INSTANT, "when"),
    ("detail", TEXT, "what was found, and what was expected"),
    ("event_ids", TEXTS, "ids of the lines that show it, with their sources"),
    _DAY,
)
