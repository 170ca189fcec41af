"""Schema of a kept survey: `lethe survey --out` writes it, the pipeline reads it.

A kept survey is a directory named by its id: one JSON object in `survey.json`, and one JSON object per line in each
other file. Every object has every column of its file, null if there is no value. Each row has the survey's id and time,
so that it can be read alone. Readers ignore unknown columns; columns are never renamed within one version. The
pipeline's tables use the same column names.
"""

from __future__ import annotations

import enum
import re
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from lethe.protocol.journal import JsonValue, time_from_text, time_to_text

VERSION: Final = 1
"""Version of the files' form; a reader refuses a higher one."""

_NO_PART_OF_A_NAME: Final = re.compile(r"[^A-Za-z0-9.]+")
_HOST_MAX: Final = 64
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


class ColumnKind(enum.Enum):
    """The type of a value; every value may be null."""

    TEXT = "text"
    NUMBER = "whole number of 32 bits"
    LONG = "whole number of 64 bits"
    TRUTH = "boolean"
    INSTANT = "RFC 3339 time in UTC with milliseconds"
    NUMBERS = "list of whole numbers of 32 bits"
    TEXTS = "list of texts"
    PROBLEMS = "list of objects with the texts `where` and `what`"
    COUNTS = "object of whole numbers"


class SurveyColumn(NamedTuple):
    name: str
    kind: ColumnKind
    meaning: str


class SurveyFile(NamedTuple):
    """One file of a kept survey."""

    name: str
    meaning: str
    columns: tuple[SurveyColumn, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


_SURVEY: Final = (
    SurveyColumn(
        "survey_id", ColumnKind.TEXT, "the survey that saw it: when it began and where, as `20260102T030405.678Z-host`"
    ),
    SurveyColumn("taken_at", ColumnKind.INSTANT, "when that survey began"),
)

MANIFEST: Final = SurveyFile(
    "survey.json",
    "The survey as a whole, and what could not be seen. A directory without it is no kept survey.",
    (
        SurveyColumn("version", ColumnKind.NUMBER, f"of the files' form: {VERSION}"),
        *_SURVEY,
        SurveyColumn("took_ms", ColumnKind.LONG, "how long it took"),
        SurveyColumn("cluster_id", ColumnKind.TEXT, "the cluster's id, where it has one"),
        SurveyColumn(
            "complete", ColumnKind.TRUTH, "everything was seen, disks of `source` `broker` as far as those tell"
        ),
        SurveyColumn(
            "in_motion",
            ColumnKind.TEXTS,
            "topics that came, went, were marked or changed meanwhile; nothing is said of them",
        ),
        SurveyColumn("problems", ColumnKind.PROBLEMS, "what could not be seen, and why"),
        SurveyColumn("rows", ColumnKind.COUNTS, "how many rows each other file has, by its name"),
        SurveyColumn(
            "checksums",
            ColumnKind.COUNTS,
            "of each other file, by its name: the CRC-32 of all its lines, added up; not in what older versions kept",
        ),
    ),
)
ZNODES: Final = SurveyFile(
    "znodes.jsonl",
    "ZooKeeper's tree: one row for each topic, partition, deletion marker, topic configuration, partition that a "
    "reassignment names, registered broker; and one for the controller.",
    (
        *_SURVEY,
        SurveyColumn(
            "kind", ColumnKind.TEXT, "`topic`, `partition`, `marker`, `config`, `reassignment`, `broker`, `controller`"
        ),
        SurveyColumn("path", ColumnKind.TEXT, "of the znode"),
        SurveyColumn("topic", ColumnKind.TEXT, "topic"),
        SurveyColumn("topic_id", ColumnKind.TEXT, "of a topic and its partitions: its id, as Kafka writes it"),
        SurveyColumn("partition", ColumnKind.NUMBER, "partition"),
        SurveyColumn(
            "replicas", ColumnKind.NUMBERS, "of a partition: its assignment; of a reassignment: what is wanted"
        ),
        SurveyColumn("adding", ColumnKind.NUMBERS, "replicas that a reassignment adds"),
        SurveyColumn("removing", ColumnKind.NUMBERS, "replicas that a reassignment removes"),
        SurveyColumn("leader", ColumnKind.NUMBER, "of the state znode"),
        SurveyColumn("leader_epoch", ColumnKind.NUMBER, "of the state znode"),
        SurveyColumn("isr", ColumnKind.NUMBERS, "of the state znode"),
        SurveyColumn(
            "has_znode",
            ColumnKind.TRUTH,
            "of a topic: it has a znode `/partitions`; of a partition: it is a child of that, null where there is none",
        ),
        SurveyColumn("has_state_znode", ColumnKind.TRUTH, "of a partition: its state znode exists, readable or not"),
        SurveyColumn("is_readable", ColumnKind.TRUTH, "of a topic: its assignment can be understood"),
        SurveyColumn("broker", ColumnKind.NUMBER, "of a broker, of the controller"),
        SurveyColumn("broker_epoch", ColumnKind.LONG, "czxid of the registration"),
        SurveyColumn("controller_epoch", ColumnKind.NUMBER, "of `/controller_epoch`"),
        SurveyColumn("created_at", ColumnKind.INSTANT, "ctime of a topic's znode and of a marker"),
    ),
)
METADATA: Final = SurveyFile(
    "metadata.jsonl",
    "The metadata caches, as brokers tell clients of them: one row for each broker that was asked, one for each topic "
    "in its cache.",
    (
        *_SURVEY,
        SurveyColumn("kind", ColumnKind.TEXT, "`broker` or `topic`"),
        SurveyColumn("broker", ColumnKind.NUMBER, "who was asked"),
        SurveyColumn("answered", ColumnKind.TRUTH, "of a broker: its cache was read"),
        SurveyColumn("told_log_dirs", ColumnKind.TRUTH, "of a broker: its log directories were read"),
        SurveyColumn(
            "failure",
            ColumnKind.TEXT,
            "of a broker: `unasked`, `unreachable`, `silent`, `refused` or `error`; null where both were read",
        ),
        SurveyColumn("controller", ColumnKind.NUMBER, "of a broker: controller id that it reports; -1: none"),
        SurveyColumn("topic", ColumnKind.TEXT, "topic"),
        SurveyColumn("topic_id", ColumnKind.TEXT, "as the cache has it"),
        SurveyColumn("partitions", ColumnKind.NUMBERS, "as the cache has them"),
    ),
)
LOCAL: Final = "local"
"""`source` of a log directory that the survey read itself."""
DIRECTORIES: Final = SurveyFile(
    "directories.jsonl",
    "The disks: one row for each log directory, one for each directory in it.",
    (
        *_SURVEY,
        SurveyColumn("broker", ColumnKind.NUMBER, "whose disk"),
        SurveyColumn("log_dir", ColumnKind.TEXT, "path of the log directory"),
        SurveyColumn(
            "source",
            ColumnKind.TEXT,
            f"`{LOCAL}`: read from the file system; `broker`: as its broker reports, without ids, files, times, "
            "quarantined and pending directories",
        ),
        SurveyColumn(
            "kind",
            ColumnKind.TEXT,
            "`log-dir`: the log directory itself; what lies in it: `replica`, `future`, `deleted`, `stray`, `unknown`",
        ),
        SurveyColumn("directory", ColumnKind.TEXT, "its name"),
        SurveyColumn("topic", ColumnKind.TEXT, "of a long name as far as the directory's name tells"),
        SurveyColumn("partition", ColumnKind.NUMBER, "partition"),
        SurveyColumn("topic_id", ColumnKind.TEXT, "what `partition.metadata` says"),
        SurveyColumn("size_bytes", ColumnKind.LONG, "of all files"),
        SurveyColumn(
            "segment_bytes",
            ColumnKind.LONG,
            "of the segments (`*.log`) alone, which are empty where nothing was written",
        ),
        SurveyColumn("files", ColumnKind.LONG, "how many files"),
        SurveyColumn("newest_write", ColumnKind.INSTANT, "newest modification of the directory or of any file in it"),
        SurveyColumn("newest_segment_write", ColumnKind.INSTANT, "newest modification of a segment"),
        SurveyColumn(
            "is_owed",
            ColumnKind.TRUTH,
            "of a directory: a debt of its broker in `/lethe/debts` covers it; null in what older versions kept",
        ),
        SurveyColumn(
            "is_kept",
            ColumnKind.TRUTH,
            "of a directory: it is, or may be, of a topic in the trash; null in what older versions kept, without them",
        ),
        SurveyColumn("has_failed", ColumnKind.TRUTH, "of a log-dir: its broker can no longer use it"),
        SurveyColumn("problem", ColumnKind.TEXT, "why it could not be seen, or not whole"),
    ),
)
LEFTOVERS: Final = SurveyFile(
    "leftovers.jsonl",
    "What `lethe survey` finds in the other files: one row for each finding. Older versions kept no such file.",
    (
        *_SURVEY,
        SurveyColumn("place", ColumnKind.TEXT, "`zookeeper`, `cache`, `disk`"),
        SurveyColumn("standing", ColumnKind.TEXT, "`left_over`, `set_aside`, `missing`, `incomplete`, `pending`"),
        SurveyColumn("reason", ColumnKind.TEXT, "code of the reason; docs/surveys.md has them all"),
        SurveyColumn("what", ColumnKind.TEXT, "a znode path, a topic in a cache, the path of a directory"),
        SurveyColumn("topic", ColumnKind.TEXT, "topic"),
        SurveyColumn("broker", ColumnKind.NUMBER, "broker"),
        SurveyColumn("partition", ColumnKind.NUMBER, "partition"),
        SurveyColumn("size_bytes", ColumnKind.LONG, "on disk"),
        SurveyColumn("detail", ColumnKind.TEXT, "details of this finding"),
    ),
)
ROW_FILES: Final = (ZNODES, METADATA, DIRECTORIES, LEFTOVERS)
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    ZNODES.name: ("topic", "partition", "marker", "config", "reassignment", "broker", "controller"),
    METADATA.name: ("broker", "topic"),
    DIRECTORIES.name: ("log-dir", "replica", "future", "deleted", "stray", "unknown"),
}
"""Values of `kind` by file. A new kind needs a new VERSION, because a reader refuses rows of unknown kinds."""
FILES: Final = (MANIFEST, *ROW_FILES)


def survey_id(taken_at_ms: int, host: str = "") -> str:
    """Return the name of a survey by its start and machine: `20260102T030405.678Z-host`.

    Two machines never give two surveys the same name. Names sort by time.
    """
    moment = time_to_text(taken_at_ms).replace("-", "").replace(":", "")
    where = _NO_PART_OF_A_NAME.sub("-", host)[:_HOST_MAX].strip("-.")
    return f"{moment}-{where}" if where else moment


def checksum(line: bytes) -> int:
    """Return what a line, without its newline, adds to its file's checksum."""
    return zlib.crc32(line)


def row_problems(file: SurveyFile, row: Mapping[str, JsonValue]) -> list[str]:
    """Return where the object violates this file's form; empty if it conforms."""
    names = file.column_names
    problems = [f"{name!r} is no column of {file.name}" for name in row if name not in names]
    for column in file.columns:
        if column.name not in row:
            problems.append(f"{column.name!r} is missing")
        elif (value := row[column.name]) is not None and not _fits(column.kind, value):
            problems.append(f"{column.name!r} is {value!r}, not {column.kind.value}")
    return problems


def _fits(kind: ColumnKind, value: JsonValue) -> bool:
    match kind:
        case ColumnKind.TEXT:
            return isinstance(value, str)
        case ColumnKind.NUMBER:
            return _is_whole(value, _INT_MAX)
        case ColumnKind.LONG:
            return _is_whole(value, _LONG_MAX)
        case ColumnKind.TRUTH:
            return isinstance(value, bool)
        case ColumnKind.INSTANT:
            return isinstance(value, str) and _is_instant(value)
        case ColumnKind.NUMBERS:
            return isinstance(value, list) and all(_is_whole(each, _INT_MAX) for each in value)
        case ColumnKind.TEXTS:
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case ColumnKind.PROBLEMS:
            return isinstance(value, list) and all(
                isinstance(each, dict)
                and each.keys() == {"where", "what"}
                and all(isinstance(text, str) for text in each.values())
                for each in value
            )
        case ColumnKind.COUNTS:
            return isinstance(value, dict) and all(_is_whole(each, _LONG_MAX) for each in value.values())


def _is_whole(value: JsonValue, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -limit - 1 <= value <= limit


def _is_instant(text: str) -> bool:
    try:
        return time_to_text(time_from_text(text)) == text
    except (ValueError, OverflowError):
        return False
