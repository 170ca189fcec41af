"""Schema of the event records' data in the journal: tests check against it, and docs/journal.md is generated from it.

A type may have several forms, because controllers and agents record different data; an event record must have one of
them. Writers may add keys; readers must ignore unknown ones. Keys are never renamed within one major version.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.journal_clients import CLIENT_REQUEST_SCHEMA
from lethe.protocol.journal_debts import DEBT_SCHEMA
from lethe.protocol.journal_forms import Form, Key, KeyKind, Schema, problems_with
from lethe.protocol.journal_trash import TOPIC_EVENT_FORM

_TOPIC: Final = r"topic/.+"
_BROKER: Final = r"broker/\d+"
_CONTROLLER: Final = r"controller/\d+"
_ANYTHING: Final = r"(topic|partition|replica|broker|controller|znode)/.+|cluster|controller|reassignments"

_BROKER_KEY: Final = Key("broker", KeyKind.ID, "broker id")
_BROKER_EPOCH: Final = Key("broker_epoch", KeyKind.ID, "epoch of the broker incarnation: czxid of its registration")
_REQUEST_ID: Final = Key("request_id", KeyKind.COUNT, "number of the request, unique within one controller process")
_PARTITIONS: Final = Key("partitions", KeyKind.RANGES, "which partitions of the topic")
_API: Final = Key("api", KeyKind.TEXT, "LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA or DESCRIBE_LOG_DIRS")
_PARTITION_COUNT: Final = Key("partitions", KeyKind.COUNT, "how many partitions")
_BEFORE: Final = Key("before", KeyKind.TEXT, "state before")
_AFTER: Final = Key("after", KeyKind.TEXT, "state after")
_TOPIC_COUNT: Final = Key("topics", KeyKind.COUNT, "how many topics")
_CONTROLLER_EPOCH: Final = Key("controller_epoch", KeyKind.ID, "epoch of the controller that asked")
_TOPIC_ID: Final = Key("topic_id", KeyKind.TEXT_OR_NULL, "the incarnation; null where there is no id", optional=True)
_REASON: Final = Key("reason", KeyKind.TEXT, "why")
_LOG_DIR: Final = Key("log_dir", KeyKind.TEXT, "path of the log directory")
_SIZE: Final = Key("size_bytes", KeyKind.COUNT, "bytes on disk")
_EPOCH: Final = Key("epoch", KeyKind.ID, "controller epoch of the term")

SCHEMAS: Final[Mapping[EventRecordType, Schema]] = MappingProxyType(
    {
        EventRecordType.ELECTION: Schema(
            "A term of this controller began, became effective or ended.",
            (
                Form(
                    "controller",
                    _CONTROLLER,
                    (
                        Key(
                            "what",
                            KeyKind.TEXT,
                            "`taken` (from another one, the epoch not raised yet), `elected`, `active` (everything is "
                            "loaded) or `resigned`",
                        ),
                        _EPOCH,
                        Key("taken_from", KeyKind.ID, "the controller that held control until then", optional=True),
                        Key("reason", KeyKind.TEXT, "why it resigned", optional=True),
                        Key("tenure_ms", KeyKind.COUNT, "how long the term lasted", optional=True),
                        Key("loading_ms", KeyKind.COUNT, "from the election to being active", optional=True),
                    ),
                ),
            ),
        ),
        EventRecordType.EVENT: Schema(
            "Something was handled: a watch, an answer, a timer, a session; or a step of some size began.",
            (
                Form(
                    "controller, for each event",
                    _CONTROLLER,
                    (
                        Key("event", KeyKind.TEXT, "name of the event"),
                        Key(
                            "outcome", KeyKind.TEXT, "`handled`, `fault`, `cancelled`, `abandoned…`, `preempted others`"
                        ),
                        Key("queued_ms", KeyKind.NUMBER, "time in the queue", optional=True),
                        Key("handled_ms", KeyKind.NUMBER, "time until its course was over", optional=True),
                        Key("error", KeyKind.TEXT, "the fault", optional=True),
                        Key("preempted", KeyKind.COUNTS, "events that were dropped, by name", optional=True),
                    ),
                ),
                Form(
                    "controller, for a step of some size",
                    _CONTROLLER,
                    (
                        Key("what", KeyKind.TEXT, "what began; also `deletions are paused` and `deletions go on`"),
                        _TOPIC_COUNT,
                        _PARTITION_COUNT,
                        Key("reason", KeyKind.TEXT, "why deletions are paused", optional=True),
                        Key(
                            "held_by",
                            KeyKind.TEXT,
                            "of a pause: `PAUSED` or `CONFIGURATION`",
                            optional=True,
                        ),
                    ),
                ),
                TOPIC_EVENT_FORM,
                Form(
                    "controller, for its dynamic configuration",
                    _CONTROLLER,
                    (
                        Key("what", KeyKind.TEXT, "`configuration changed`"),
                        Key("delete_topic_enable", KeyKind.BOOLEAN, "what holds now"),
                        Key("unclean_leader_election_enable", KeyKind.BOOLEAN, "what holds now"),
                        Key("protected_topics", KeyKind.TEXT, "the patterns that hold now, by comma", optional=True),
                        Key("deletion_offline_replicas", KeyKind.TEXT, "`wait` or `owe`", optional=True),
                        Key(
                            "topics_per_second", KeyKind.NUMBER, "limit of deletions that begin; 0: none", optional=True
                        ),
                        Key("bytes_per_second", KeyKind.NUMBER, "the same for their bytes", optional=True),
                        Key("deletion_grace", KeyKind.TEXT, "grace periods by pattern, by comma", optional=True),
                        Key("trash_free_percent", KeyKind.NUMBER, "`lethe.trash.free.percent`", optional=True),
                    ),
                ),
            ),
        ),
        EventRecordType.TRANSITION: Schema(
            "Partitions or replicas of one topic changed their state: one line for all that changed alike. An answer "
            "that counts has no such line: its `lethe.ack` names the states.",
            (
                Form(
                    "controller, for partitions",
                    _TOPIC,
                    (
                        Key("machine", KeyKind.TEXT, "`partition`; `replica` with `broker`"),
                        _TOPIC_ID,
                        _PARTITIONS,
                        Key("broker", KeyKind.ID, "older journals: the broker of these replicas", optional=True),
                        _BEFORE,
                        _AFTER,
                    ),
                ),
                Form(
                    "controller, for replicas",
                    _TOPIC,
                    (
                        Key("machine", KeyKind.TEXT, "`replica`"),
                        _TOPIC_ID,
                        Key("replicas", KeyKind.REPLICAS, "which replicas"),
                        _BEFORE,
                        _AFTER,
                    ),
                ),
            ),
        ),
        EventRecordType.REFUSAL: Schema(
            "A request was not carried out for one subject; the rest of it was.",
            (
                Form(
                    "controller and agent",
                    _ANYTHING,
                    (Key("what", KeyKind.TEXT, "what was to be done"), Key("why", KeyKind.TEXT, "why it was not")),
                ),
            ),
        ),
        EventRecordType.REQUEST: Schema(
            "A control request was queued for a broker, or handled by an agent.",
            (
                Form("controller", _BROKER, (_API, _BROKER_EPOCH, _REQUEST_ID, _TOPIC_COUNT, _PARTITION_COUNT)),
                Form(
                    "agent",
                    _BROKER,
                    (
                        _API,
                        Key("controller", KeyKind.ID, "id of the controller that asked"),
                        _CONTROLLER_EPOCH,
                        _TOPIC_COUNT,
                        _PARTITION_COUNT,
                        Key("answers", KeyKind.COUNTS, "Kafka's error name to how many partitions"),
                    ),
                ),
            ),
        ),
        EventRecordType.CLIENT_REQUEST: CLIENT_REQUEST_SCHEMA,
        EventRecordType.ACK: Schema(
            "The deletion of replicas was answered, or needs no answer.",
            (
                Form(
                    "controller",
                    _TOPIC,
                    (
                        _TOPIC_ID,
                        _BROKER_KEY,
                        _BROKER_EPOCH,
                        _REQUEST_ID,
                        _PARTITIONS,
                        Key("result", KeyKind.TEXT, "`NONE`, or why it does not count"),
                        _BEFORE._replace(optional=True),
                        _AFTER._replace(optional=True),
                    ),
                ),
                Form(
                    "controller, for replicas on no broker",
                    _TOPIC,
                    (
                        _TOPIC_ID,
                        Key("broker", KeyKind.ID, "the id under which they were placed"),
                        _PARTITIONS,
                        Key("why", KeyKind.TEXT, "why no broker was asked"),
                    ),
                ),
                Form(
                    "agent",
                    _TOPIC,
                    (
                        Key(
                            "topic_id",
                            KeyKind.TEXT_OR_NULL,
                            "the incarnation: that of the directory, where there was one; null where it is not known",
                            optional=True,
                        ),
                        _BROKER_KEY,
                        _CONTROLLER_EPOCH,
                        Key("delete", KeyKind.BOOLEAN, "true"),
                        _PARTITIONS,
                        Key("error", KeyKind.TEXT, "Kafka's error name"),
                    ),
                ),
            ),
        ),
        EventRecordType.ZNODE_WRITE: Schema(
            "ZooKeeper answered a write: one line for all groups of operations that were asked for together.",
            (
                Form(
                    "controller",
                    _CONTROLLER,
                    (
                        Key("groups", KeyKind.COUNT, "atomic groups of operations"),
                        Key("operations", KeyKind.COUNTS, "kind of operation to how many"),
                        Key("first_path", KeyKind.TEXT, "path of the first operation"),
                        Key(
                            "outcomes", KeyKind.COUNTS, "`done`, `failed: …`, `unknown` or `controller moved` to groups"
                        ),
                        Key("fenced", KeyKind.BOOLEAN, "whether it was tied to our controller epoch"),
                        Key("took_ms", KeyKind.NUMBER, "until the last answer"),
                    ),
                ),
            ),
        ),
        EventRecordType.DELETION_PHASE: Schema(
            "The deletion of a topic reached a phase.",
            (
                Form(
                    "controller",
                    _TOPIC,
                    (
                        Key(
                            "phase",
                            KeyKind.TEXT,
                            "`held`, `let go`, `queued`, `started`, `tombstoned`, `acknowledged`, `removed`, `done`; "
                            "`vanished`: others removed the topic's znode; the last phase",
                        ),
                        Key("took_ms", KeyKind.NUMBER, "since the phase that it is measured from"),
                        Key("topic_id", KeyKind.TEXT_OR_NULL, "the incarnation, where topics have ids"),
                        _PARTITION_COUNT,
                        Key("replicas", KeyKind.COUNT, "how many replicas"),
                        Key("held_by", KeyKind.TEXT, "why a marked topic is held back", optional=True),
                        Key(
                            "marked_at_ms",
                            KeyKind.COUNT,
                            "with `held` and `queued`: when the marker was made, in ms since 1970; where ZooKeeper "
                            "does not tell, when the controller first saw it",
                            optional=True,
                        ),
                        Key(
                            "owed_by",
                            KeyKind.TEXT,
                            "brokers that have not answered the tombstone, as `3,4`: their caches may show the topic",
                            optional=True,
                        ),
                        Key("debts_of", KeyKind.TEXT, "brokers that owe replicas of it, as `3,4`", optional=True),
                    ),
                ),
            ),
        ),
        EventRecordType.DEBT: DEBT_SCHEMA,
        EventRecordType.REASSIGNMENT: Schema(
            "The reassignment of a partition began or ended.",
            (
                Form(
                    "controller",
                    r"partition/.+",
                    (
                        Key("what", KeyKind.TEXT, "`started`, `cancelled`, `done` or `ended by deletion`"),
                        Key("target", KeyKind.TEXT, "the replicas that it is to have, or has, as `1,2,3`"),
                        Key("adding", KeyKind.TEXT, "the replicas that come", optional=True),
                        Key("removing", KeyKind.TEXT, "the replicas that go", optional=True),
                    ),
                ),
            ),
        ),
        EventRecordType.SET_ASIDE: Schema(
            "Something cannot be understood or belongs to another incarnation: it is left alone and shown.",
            (
                Form(
                    "controller",
                    r"(topic|broker)/.+",
                    (
                        Key("topic_id", KeyKind.TEXT_OR_NULL, "of a topic: the last id that was known", optional=True),
                        Key("path", KeyKind.TEXT, "path of the znode"),
                        _REASON,
                    ),
                ),
                Form(
                    "agent",
                    _TOPIC,
                    (
                        Key(
                            "topic_id", KeyKind.TEXT_OR_NULL, "the directory's; null where it says none", optional=True
                        ),
                        _BROKER_KEY,
                        _LOG_DIR,
                        Key("partition", KeyKind.COUNT, "number of the partition"),
                        Key("directory", KeyKind.TEXT, "name of the directory now"),
                        _SIZE,
                        _REASON,
                    ),
                ),
            ),
        ),
        EventRecordType.BROKER: Schema(
            "A broker came, went or changed; an agent registered, loaded or lost a log directory, "
            "or proposed ISR members.",
            (
                Form(
                    "controller",
                    _BROKER,
                    (
                        Key(
                            "what",
                            KeyKind.TEXT,
                            "`started`, `failed`, `modified`, `shutting down`, `relieved` (of its leaders), "
                            "`log directory failed`, `producer ids`, `owes tombstones`, `tombstones answered`; "
                            "`kept a ghost`: its metadata cache has a topic or "
                            "an incarnation that ZooKeeper has not; `dropped a ghost`: not any more",
                        ),
                        _BROKER_EPOCH._replace(optional=True),
                        Key("topics", KeyKind.COUNT, "how many topics the tombstones are of", optional=True),
                        Key("topic", KeyKind.TEXT, "name of the ghost", optional=True),
                        _TOPIC_ID,
                        _PARTITIONS._replace(optional=True),
                        _REASON._replace(optional=True),
                    ),
                ),
                Form("agent", _BROKER, (Key("happened", KeyKind.TEXT, "what happened"),)),
            ),
        ),
        EventRecordType.BYTES_FREED: Schema(
            "Renamed directories of one topic were removed from disk, or could not be.",
            (
                Form(
                    "agent",
                    _BROKER,
                    (
                        _LOG_DIR,
                        Key(
                            "topic", KeyKind.TEXT, "the topic, as far as the directories' names tell: a long one is cut"
                        ),
                        Key(
                            "topic_id",
                            KeyKind.TEXT_OR_NULL,
                            "the directories'; null where they say none",
                            optional=True,
                        ),
                        _PARTITIONS,
                        Key("directories", KeyKind.COUNT, "how many directories"),
                        Key("size_bytes", KeyKind.COUNT, "bytes that were freed"),
                        Key("files", KeyKind.COUNT, "files that were removed"),
                        Key("error", KeyKind.TEXT_OR_NULL, "why the directories are still there"),
                    ),
                ),
            ),
        ),
        EventRecordType.GAP: Schema(
            "Event records are missing here: the journal could not be written.",
            (
                Form(
                    "journal",
                    r"(controller|broker)/\d+",
                    (
                        Key("count", KeyKind.COUNT, "how many"),
                        Key("first", KeyKind.TIME, "when the first one happened"),
                        Key("last", KeyKind.TIME, "when the last one happened"),
                        _REASON,
                    ),
                ),
            ),
        ),
    }
)


def schema_problems(record: EventRecord) -> tuple[str, ...]:
    """Return why the event record has none of its type's forms, judged by the closest form; empty if it has one."""
    found = [tuple(problems_with(form, record)) for form in SCHEMAS[record.type].forms]
    return min(found, key=lambda problems: len(problems))
