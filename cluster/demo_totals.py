"""Totals from the daemons' journals, updated while the demo runs.

Controllers write when a topic reaches a phase of its deletion, agents when they acknowledge and when bytes are freed.
The totals adds up entries; the follower reads lines that were appended to the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from lethe.protocol.counting import counted
from lethe.protocol.journal import (
    EventRecord,
    EventRecordType,
    JournalEntry,
    JsonValue,
    UnreadableLine,
    decode_lines,
    partitions_in,
)

_RECORD_TYPES: Final = tuple(
    f'"lethe.{kind}"'.encode()
    for kind in (
        EventRecordType.DELETION_PHASE,
        EventRecordType.ACK,
        EventRecordType.BYTES_FREED,
        EventRecordType.ELECTION,
        EventRecordType.BROKER,
        EventRecordType.REFUSAL,
        EventRecordType.GAP,
    )
)


class ClusterChange(NamedTuple):
    """A change of the set of brokers or of the active controller."""

    time_ms: int
    text: str


@dataclass(slots=True)
class JournalTotals:
    """Totals of the journals."""

    phases: dict[str, dict[str, int]] = field(default_factory=dict)
    """Time of each topic's phase, by phase and topic; the last one if two controllers recorded it."""
    acknowledged: Counter[int] = field(default_factory=Counter)
    """Number of replicas whose deletion each broker acknowledged without an error; each replica counts once."""
    freed_bytes: Counter[int] = field(default_factory=Counter)
    freed_files: Counter[int] = field(default_factory=Counter)
    freed_directories: Counter[int] = field(default_factory=Counter)
    last_freed_ms: dict[int, int] = field(default_factory=dict)
    happenings: list[ClusterChange] = field(default_factory=list)
    acks_of: str = "broker"
    """Whose records count: agents record their acknowledgements; for real brokers, controllers record the answers."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Refusals and failures, by kind."""
    queued_under: dict[str, list[str]] = field(default_factory=dict)
    """Controllers that queued a topic's deletion, in order."""
    lost_records: int = 0
    """Number of event records that could not be written, according to the journals."""
    _seen: set[tuple[int, str, int]] = field(default_factory=set)
    unreadable_lines: int = 0
    """Such as the last line of a killed process."""

    def note(self, entry: JournalEntry | UnreadableLine) -> None:
        """Add one entry."""
        if isinstance(entry, UnreadableLine):
            self.unreadable_lines += 1
            return
        record = entry.record
        match record.type:
            case EventRecordType.DELETION_PHASE:
                self._phase(entry)
            case EventRecordType.ACK if "broker" in record.data and f"/{self.acks_of}/" in entry.source:
                if "NONE" in (record.data.get("error"), record.data.get("result")):
                    self._acknowledged(record)
            case EventRecordType.BYTES_FREED:
                self._freed(entry)
            case EventRecordType.ELECTION | EventRecordType.BROKER:
                self._happened(entry)
            case EventRecordType.REFUSAL:
                self.refusals[_refusal(record)] += 1
            case EventRecordType.GAP:
                self.lost_records += _number(record, "count")
            case _:
                return

    def _phase(self, entry: JournalEntry) -> None:
        topic, phase = entry.record.subject.removeprefix("topic/"), _text(entry.record, "phase")
        self.phases.setdefault(phase, {})[topic] = entry.time_ms
        if phase == "queued":
            self.queued_under.setdefault(topic, []).append(entry.source.rpartition("/")[2])

    def _acknowledged(self, record: EventRecord) -> None:
        broker = _number(record, "broker")
        for partition in partitions_in(_text(record, "partitions")):
            replica = (broker, record.subject, partition)
            if replica not in self._seen:
                self._seen.add(replica)
                self.acknowledged[broker] += 1

    def _freed(self, entry: JournalEntry) -> None:
        broker = int(entry.record.subject.removeprefix("broker/"))
        self.freed_bytes[broker] += _number(entry.record, "size_bytes")
        self.freed_files[broker] += _number(entry.record, "files")
        if entry.record.data.get("error") is None:
            self.freed_directories[broker] += _number(entry.record, "directories")
        self.last_freed_ms[broker] = entry.time_ms

    def _happened(self, entry: JournalEntry) -> None:
        record = entry.record
        if "/controller/" not in entry.source:
            return
        who = "controller " + entry.source.rpartition("/")[2]
        what = record.data.get("what")
        if record.type is EventRecordType.BROKER:
            text = f"{who} sees that {record.subject.replace('/', ' ')} has {what}"
        elif what == "active":
            text = f"{who} is active, with {counted(_number(record, 'deletions'), 'deletion')} to go on with"
        else:
            text = f"{who} is {what}" if what == "elected" else f"{who} has {what}: {record.data.get('reason')}"
        self.happenings.append(ClusterChange(entry.time_ms, text))

    def reached(self, phase: str, topics: Iterable[str]) -> list[int]:
        """Return when these topics reached the phase, without those that have not, in the order of time."""
        times = self.phases.get(phase, {})
        return sorted(times[topic] for topic in topics if topic in times)


def _number(record: EventRecord, name: str) -> int:
    value = record.data.get(name)
    return value if isinstance(value, int) else 0


def _text(record: EventRecord, name: str) -> str:
    value: JsonValue = record.data.get(name)
    return value if isinstance(value, str) else ""


def _refusal(record: EventRecord) -> str:
    if "api" in record.data:
        return f"{record.data['api']}: {record.data.get('reason')}"
    return f"{record.data.get('what')}: {record.data.get('why')}"


class JournalFollower:
    """Reads new lines of the journals in these directories, which need not exist yet."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._directories = tuple(directories)
        self._read: dict[Path, int] = {}

    def entries(self) -> Iterator[JournalEntry | UnreadableLine]:
        """Yield new entries of the counted types, file by file; an incomplete line is left for the next call."""
        for directory in self._directories:
            for path in sorted(directory.glob("*.jsonl")):
                yield from self._new_in(path)

    def _new_in(self, path: Path) -> Iterator[JournalEntry | UnreadableLine]:
        start = self._read.get(path, 0)
        try:
            if path.stat().st_size == start:
                return
            with path.open("rb") as file:
                file.seek(start)
                data = file.read()
        except FileNotFoundError:
            return
        end = data.rfind(b"\n") + 1
        self._read[path] = start + end
        lines = data[:end].splitlines()
        yield from decode_lines(line for line in lines if any(kind in line for kind in _RECORD_TYPES))
