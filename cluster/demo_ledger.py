"""Totals from the daemons' journals, updated while the demo runs.

Controllers write when a topic reaches a phase of its deletion, agents when they acknowledge and when bytes are freed.
The ledger adds up entries; the follower reads lines that were appended to the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from lethe.protocol.counting import counted
from lethe.protocol.journal import Entry, Fact, FactType, JsonValue, Unreadable, decode_lines, partitions_in

_WANTED: Final = tuple(
    f'"lethe.{kind}"'.encode()
    for kind in (
        FactType.DELETION_PHASE,
        FactType.ACK,
        FactType.BYTES_FREED,
        FactType.ELECTION,
        FactType.BROKER,
        FactType.REFUSAL,
        FactType.GAP,
    )
)


class Happening(NamedTuple):
    """A change of the set of brokers or of the active controller."""

    time_ms: int
    text: str


@dataclass(slots=True)
class Ledger:
    """Totals of the journals."""

    phases: dict[str, dict[str, int]] = field(default_factory=dict)
    """Time of each topic's phase, by phase and topic; the last one if two controllers recorded it."""
    acknowledged: Counter[int] = field(default_factory=Counter)
    """Number of replicas whose deletion each broker acknowledged without an error; each replica counts once."""
    freed_bytes: Counter[int] = field(default_factory=Counter)
    freed_files: Counter[int] = field(default_factory=Counter)
    freed_directories: Counter[int] = field(default_factory=Counter)
    last_freed_ms: dict[int, int] = field(default_factory=dict)
    happenings: list[Happening] = field(default_factory=list)
    acks_of: str = "broker"
    """Whose records count: agents record their acknowledgements; for real brokers, controllers record the answers."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Refusals and failures, by kind."""
    queued_under: dict[str, list[str]] = field(default_factory=dict)
    """Controllers that queued a topic's deletion, in order."""
    lost_facts: int = 0
    """Number of facts that could not be written, according to the journals."""
    _seen: set[tuple[int, str, int]] = field(default_factory=set)
    unreadable_lines: int = 0
    """Such as the last line of a killed process."""

    def note(self, entry: Entry | Unreadable) -> None:
        """Add one entry."""
        if isinstance(entry, Unreadable):
            self.unreadable_lines += 1
            return
        fact = entry.fact
        match fact.type:
            case FactType.DELETION_PHASE:
                self._phase(entry)
            case FactType.ACK if "broker" in fact.data and f"/{self.acks_of}/" in entry.source:
                if "NONE" in (fact.data.get("error"), fact.data.get("result")):
                    self._acknowledged(fact)
            case FactType.BYTES_FREED:
                self._freed(entry)
            case FactType.ELECTION | FactType.BROKER:
                self._happened(entry)
            case FactType.REFUSAL:
                self.refusals[_refusal(fact)] += 1
            case FactType.GAP:
                self.lost_facts += _number(fact, "count")
            case _:
                return

    def _phase(self, entry: Entry) -> None:
        topic, phase = entry.fact.subject.removeprefix("topic/"), _text(entry.fact, "phase")
        self.phases.setdefault(phase, {})[topic] = entry.time_ms
        if phase == "queued":
            self.queued_under.setdefault(topic, []).append(entry.source.rpartition("/")[2])

    def _acknowledged(self, fact: Fact) -> None:
        broker = _number(fact, "broker")
        for partition in partitions_in(_text(fact, "partitions")):
            replica = (broker, fact.subject, partition)
            if replica not in self._seen:
                self._seen.add(replica)
                self.acknowledged[broker] += 1

    def _freed(self, entry: Entry) -> None:
        broker = int(entry.fact.subject.removeprefix("broker/"))
        self.freed_bytes[broker] += _number(entry.fact, "size_bytes")
        self.freed_files[broker] += _number(entry.fact, "files")
        if entry.fact.data.get("error") is None:
            self.freed_directories[broker] += _number(entry.fact, "directories")
        self.last_freed_ms[broker] = entry.time_ms

    def _happened(self, entry: Entry) -> None:
        fact = entry.fact
        if "/controller/" not in entry.source:
            return
        who = "controller " + entry.source.rpartition("/")[2]
        what = fact.data.get("what")
        if fact.type is FactType.BROKER:
            text = f"{who} sees that {fact.subject.replace('/', ' ')} has {what}"
        elif what == "active":
            text = f"{who} is active, with {counted(_number(fact, 'deletions'), 'deletion')} to go on with"
        else:
            text = f"{who} is {what}" if what == "elected" else f"{who} has {what}: {fact.data.get('reason')}"
        self.happenings.append(Happening(entry.time_ms, text))

    def reached(self, phase: str, topics: Iterable[str]) -> list[int]:
        """Return when these topics reached the phase, without those that have not, in the order of time."""
        times = self.phases.get(phase, {})
        return sorted(times[topic] for topic in topics if topic in times)


def _number(fact: Fact, name: str) -> int:
    value = fact.data.get(name)
    return value if isinstance(value, int) else 0


def _text(fact: Fact, name: str) -> str:
    value: JsonValue = fact.data.get(name)
    return value if isinstance(value, str) else ""


def _refusal(fact: Fact) -> str:
    if "api" in fact.data:
        return f"{fact.data['api']}: {fact.data.get('reason')}"
    return f"{fact.data.get('what')}: {fact.data.get('why')}"


class JournalFollower:
    """Reads new lines of the journals in these directories, which need not exist yet."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._directories = tuple(directories)
        self._read: dict[Path, int] = {}

    def entries(self) -> Iterator[Entry | Unreadable]:
        """Yield new entries of the ledger's types, file by file; an incomplete line is left for the next call."""
        for directory in self._directories:
            for path in sorted(directory.glob("*.jsonl")):
                yield from self._new_in(path)

    def _new_in(self, path: Path) -> Iterator[Entry | Unreadable]:
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
        yield from decode_lines(line for line in lines if any(kind in line for kind in _WANTED))
