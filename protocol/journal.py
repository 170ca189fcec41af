"""The journal's unit: one event record of what a controller or a broker agent decided, did or observed.

Cores produce event records. Runtimes add identity and time and write them as CloudEvents lines; metrics and logs are
fed from the same values. The pipeline reads the lines back.

A line is one CloudEvents 1.0 object in JSON, UTF-8, ended by a newline. Writing is strict. Reading is tolerant: it
ignores unknown attributes and keeps unknown data. A line that cannot be used is returned as an `UnreadableLine` with
the reason, because the last line of a killed process is often cut off. `protocol.journal_schema` describes the data of
each type.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

import orjson

from lethe.protocol.vocabulary import BrokerId

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

SPEC_VERSION: Final = "1.0"
TYPE_PREFIX: Final = "lethe."
DEFAULT_TOPIC: Final = "__lethe_journal"
"""Default Kafka topic of the journal."""
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_SHOWN_BYTES: Final = 80


class EventRecordType(enum.StrEnum):
    """What happened; the CloudEvents type is `lethe.<value>`."""

    ELECTION = "election"
    EVENT = "event"
    TRANSITION = "transition"
    REFUSAL = "refusal"
    REQUEST = "request"
    CLIENT_REQUEST = "client-request"
    ACK = "ack"
    ZNODE_WRITE = "znode-write"
    DELETION_PHASE = "deletion-phase"
    DEBT = "debt"
    REASSIGNMENT = "reassignment"
    SET_ASIDE = "set-aside"
    BROKER = "broker"
    BYTES_FREED = "bytes-freed"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event record. `subject` is the object that it is about: `topic/orders`, `broker/3`, `controller/1001`."""

    type: EventRecordType
    subject: str
    data: Mapping[str, JsonValue] = field(default_factory=dict)


class JournalEntry(NamedTuple):
    """An event record as it is stored in the journal."""

    id: str
    """Unique together with `source`."""
    source: str
    """The writer, as a URI reference: `/lethe/controller/1001`."""
    time_ms: int
    """Milliseconds since 1970-01-01 UTC."""
    record: EventRecord


class LineFlaw(enum.Enum):
    """Why a line cannot be used."""

    CUT_OFF = "cut off"
    """The line is incomplete: its writer was stopped, or the disk was full."""
    NOT_JSON = "not JSON"
    NOT_AN_EVENT = "not a CloudEvent of this journal"
    UNKNOWN_TYPE = "unknown type"
    """Perhaps written by a later version."""


class UnreadableLine(NamedTuple):
    """A line that cannot be used, and why."""

    flaw: LineFlaw
    detail: str


class UnencodableRecord(ValueError):
    """The event record's data is not JSON; the message names the event record."""


# --- time ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)  # Event records come in bursts, with equal times.
def time_to_text(time_ms: int) -> str:
    """Format a time as RFC 3339 in UTC with milliseconds: `2026-01-02T03:04:05.678Z`."""
    return (_EPOCH + time_ms * _MILLISECOND).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def time_from_text(text: str) -> int:
    """Return the milliseconds of an RFC 3339 time. Raises ValueError for other text, and for a time without a zone."""
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"time {text!r} has no time zone")
    return (moment - _EPOCH) // _MILLISECOND


# --- lines --------------------------------------------------------------------------------------------------------


def encode(entry: JournalEntry) -> bytes:
    """Return the entry as one line with its newline. Raises UnencodableRecord."""
    record = entry.record
    if not (entry.id and entry.source and record.subject):
        raise UnencodableRecord(f"a {record.type} record needs an id, a source and a subject: {entry!r}")
    document = {
        "specversion": SPEC_VERSION,
        "id": entry.id,
        "source": entry.source,
        "type": TYPE_PREFIX + record.type,
        "subject": record.subject,
        "time": time_to_text(entry.time_ms),
        "datacontenttype": "application/json",
        "data": record.data if isinstance(record.data, dict) else dict(record.data),
    }
    try:
        return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError as error:
        raise UnencodableRecord(f"{record.type} record about {record.subject!r} is not JSON: {error}") from error


def decode(line: bytes) -> JournalEntry | UnreadableLine:
    """Return the entry in a line, with or without its newline; never raises."""
    try:
        document = orjson.loads(line)
    except ValueError as error:
        shown = line[:_SHOWN_BYTES].decode("utf-8", "replace")
        whole = line.rstrip().endswith(b"}")
        flaw = LineFlaw.NOT_JSON if whole or not line.lstrip().startswith(b"{") else LineFlaw.CUT_OFF
        return UnreadableLine(flaw, f"{error} in {shown!r}")
    if not isinstance(document, dict):
        return UnreadableLine(LineFlaw.NOT_AN_EVENT, f"a JSON {type(document).__name__} instead of an object")
    return _entry(document)


def _entry(document: dict[str, JsonValue]) -> JournalEntry | UnreadableLine:
    if document.get("specversion") != SPEC_VERSION:
        return UnreadableLine(
            LineFlaw.NOT_AN_EVENT, f"specversion is {document.get('specversion')!r}, not {SPEC_VERSION!r}"
        )
    texts: list[str] = []
    for name in ("id", "source", "type", "subject", "time"):
        value = document.get(name)
        if not isinstance(value, str) or not value:
            return UnreadableLine(LineFlaw.NOT_AN_EVENT, f"attribute {name!r} is {value!r} instead of a text")
        texts.append(value)
    identity, source, kind, subject, time = texts
    try:
        time_ms = time_from_text(time)
    except ValueError as error:
        return UnreadableLine(LineFlaw.NOT_AN_EVENT, str(error))
    data = document.get("data", {})
    if not isinstance(data, dict):
        return UnreadableLine(LineFlaw.NOT_AN_EVENT, f"data is a JSON {type(data).__name__} instead of an object")
    try:
        record_type = EventRecordType(kind.removeprefix(TYPE_PREFIX))
    except ValueError:
        return UnreadableLine(LineFlaw.UNKNOWN_TYPE, kind)
    return JournalEntry(identity, source, time_ms, EventRecord(record_type, subject, data))


def decode_lines(lines: Iterable[bytes]) -> Iterator[JournalEntry | UnreadableLine]:
    """Decode each line. Empty lines are skipped: a writer adds one after a line that it found cut off."""
    for line in lines:
        if line.strip():
            yield decode(line)


# --- partitions ---------------------------------------------------------------------------------------------------


def partition_ranges(partitions: Iterable[int]) -> str:
    """Return `0-3,7` for 0, 1, 2, 3 and 7: a short form for many partitions of one topic, or many brokers."""
    ordered = sorted(partitions)
    if len(ordered) == 1:
        return str(ordered[0])
    ranges: list[list[int]] = []
    for partition in ordered:
        if ranges and partition == ranges[-1][1] + 1:
            ranges[-1][1] = partition
        elif not ranges or partition != ranges[-1][1]:
            ranges.append([partition, partition])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def replica_ranges(on: Mapping[BrokerId, str]) -> dict[str, JsonValue]:
    """Return `{"1-3": "0-49", "7": "3"}` for each broker's ranges of partitions: brokers with the same ones share an
    entry."""
    brokers: dict[str, list[int]] = {}
    for broker, ranges in on.items():
        brokers.setdefault(ranges, []).append(broker)
    return {partition_ranges(ids): ranges for ranges, ids in brokers.items()}


def partitions_in(ranges: str) -> tuple[int, ...]:
    """Parse the text of `partition_ranges`. Raises ValueError naming the text if it is malformed."""
    return tuple(partition for each in ranges_in(ranges) for partition in each)


def ranges_in(ranges: str) -> list[range]:
    """The same, not expanded: `0-99999999` needs no memory. Raises ValueError naming the text if it is malformed."""
    found: list[range] = []
    for part in ranges.split(",") if ranges else ():
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and (last.isdecimal() if dash else True)):
            raise ValueError(f"{part!r} in {ranges!r} is no range of partitions")
        found.append(range(int(first), int(last if dash else first) + 1))
    return found
