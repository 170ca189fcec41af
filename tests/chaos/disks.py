"""The log directories as they are, and everything that vanished from them during the run.

A directory is known by its broker, partition and topic id (`partition.metadata`), so two incarnations of a name never
count as one. What vanished is judged at the end, when ZooKeeper's transactions say who was marked when.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos.history import NO_ID, History, decode_topic_id

SCAN_S: Final = 0.5
METADATA: Final = "partition.metadata"
_NAME: Final = re.compile(r"(?P<topic>.+?)-(?P<partition>\d+)(?:\.[0-9a-f]{32}-(?P<state>delete|stray|future))?\Z")
_ID: Final = re.compile(r"^topic_id: (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SeenDirectory:
    """One replica's directory. `state` is empty, delete, stray or future; `segments` are bytes by file name."""

    broker: int
    path: Path
    topic: str
    partition: int
    topic_id: uuid.UUID
    state: str
    segments: Mapping[str, int]

    @property
    def replica(self) -> Replica:
        return Replica(self.broker, self.topic_id, self.partition)


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica of one incarnation on one broker."""

    broker: int
    topic_id: uuid.UUID
    partition: int


@dataclass(frozen=True, slots=True)
class Vanished:
    """A directory or a segment was there when it was last seen, and at this moment it was not, or it was shorter."""

    replica: Replica
    seen_ms: int
    at_ms: int
    what: str


def scan(log_dirs: Mapping[int, Sequence[Path]]) -> list[SeenDirectory]:
    """Return every directory that has the name of a replica. A broker may rename or remove it meanwhile."""
    found = []
    for broker, places in log_dirs.items():
        for path in sorted(path for place in places if place.is_dir() for path in place.iterdir()):
            named = _NAME.match(path.name)
            if named is not None and path.is_dir():
                found.append(_look(broker, path, named))
    return [each for each in found if each is not None]


def _look(broker: int, path: Path, named: re.Match[str]) -> SeenDirectory | None:
    try:
        segments = {file.name: file.stat().st_size for file in path.iterdir() if file.suffix == ".log"}
        text = (path / METADATA).read_text() if (path / METADATA).exists() else ""
        written = _ID.search(text)
        topic_id = decode_topic_id(written[1]) if written else NO_ID
    except (OSError, ValueError):
        # Renamed or removed between two looks. The next scan sees what became of it.
        if not path.is_dir():
            return None
        segments, topic_id = {}, NO_ID
    return SeenDirectory(
        broker, path, named["topic"], int(named["partition"]), topic_id, named["state"] or "", segments
    )


@dataclass(slots=True)
class DiskWatch:
    """Scans again and again. Kafka's segments may shrink (a follower truncates); no living directory may go."""

    log_dirs: Mapping[int, Sequence[Path]]
    growing: frozenset[int]
    """Brokers whose segments never shrink: agents."""
    vanished: list[Vanished] = field(default_factory=list)
    scans: int = 0
    _known: dict[Replica, SeenDirectory] = field(default_factory=dict)
    _known_ms: int = 0
    """When the scan began that has seen them."""

    async def run(self) -> None:
        """Scan until cancelled."""
        while True:
            began_ms = time.time_ns() // 1_000_000
            found = await asyncio.to_thread(scan, self.log_dirs)
            self.compare(found, began_ms, time.time_ns() // 1_000_000)
            await asyncio.sleep(SCAN_S)

    def compare(self, found: Iterable[SeenDirectory], began_ms: int, now_ms: int) -> None:
        """Note what has vanished since the last scan."""
        self.scans += 1
        seen_ms, self._known_ms = self._known_ms, began_ms
        present = {each.replica: each for each in found if not each.state and each.topic_id != NO_ID}
        for replica, before in self._known.items():
            now = present.get(replica)
            if now is None:
                self.vanished.append(Vanished(replica, seen_ms, now_ms, f"{before.path} is gone or renamed"))
            elif replica.broker in self.growing:
                shorter = [name for name, size in before.segments.items() if now.segments.get(name, -1) < size]
                if shorter:
                    what = f"{now.path} lost bytes of {shorter}"
                    self.vanished.append(Vanished(replica, seen_ms, now_ms, what))
        self._known = present


def unlawful(vanished: Iterable[Vanished], history: History) -> list[str]:
    """Return what vanished although its topic lived there."""
    incarnations = history.by_id()
    found = []
    for each in vanished:
        incarnation = incarnations.get(each.replica.topic_id)
        if incarnation is None:
            found.append(f"{each.what}: ZooKeeper never had topic id {each.replica.topic_id}")
        elif not incarnation.may_lack(each.replica.broker, each.replica.partition, each.seen_ms, each.at_ms):
            found.append(f"{each.what} on broker {each.replica.broker}, while topic {incarnation.name} lived there")
    return found
