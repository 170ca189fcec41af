"""What a run has exercised of work in slices and of requests in parts: from journals and ZooKeeper's transactions.

    counted                              seen as
    ---------------------------------    ---------------------------------------------------------------------------
    takeovers in slices                  after `elected` a broker gets two LeaderAndIsr before anything is written
    creations in slices                  parents of partitions are created in two writes of one event
    removals in two slices at once       two writes of a term that delete states overlap in time
    topics removed in several multis     a transaction deletes the topic, and an earlier one its states
    requests in parts                    a broker answers a part before the last: the event PartAnswered

A controller that is killed loses its journal's last lines, so all are lower bounds. Nothing here decides about residue,
so Lethe's own reader of journals may be used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, JsonValue, decode_lines
from tests.chaos.history import TOPICS
from tests.chaos.txn_log import Deleted, Transaction

TAKEOVERS: Final = "takeover in slices"
CREATIONS: Final = "creation in slices"
REMOVALS: Final = "removal in two slices at once"
SPREAD: Final = "topic removed in several multis"
PARTS: Final = "request in parts"
EXERCISES: Final = (TAKEOVERS, CREATIONS, REMOVALS, SPREAD, PARTS)

_PARENT: Final = re.compile(r"/brokers/topics/[^/]+/partitions")
_STATE: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/\d+/state")


def in_journals(directories: Iterable[Path]) -> Counter[str]:
    """Count in the journals of these controllers. A line that cannot be read is passed over."""
    found: Counter[str] = Counter()
    for directory in directories:
        reader = _Journal(found)
        for file in sorted(directory.glob("*.jsonl")):
            for entry in decode_lines(file.read_bytes().split(b"\n")):
                if isinstance(entry, JournalEntry):
                    reader.read(entry.record, entry.time_ms)
    return found


def spread_removals(transactions: Iterable[Transaction]) -> int:
    """Count topics of which an earlier transaction than the topic's own has deleted the states."""
    begun: set[str] = set()
    count = 0
    for transaction in transactions:
        gone = [each.path for each in transaction.changes if isinstance(each, Deleted)]
        states = {match[1] for match in map(_STATE.fullmatch, gone) if match is not None}
        for path in gone:
            name = path.removeprefix(TOPICS)
            if path.startswith(TOPICS) and "/" not in name:
                count += name in begun and name not in states
                begun.discard(name)
                states.discard(name)
        begun |= states
    return count


@dataclass(slots=True)
class _Journal:
    """Reads the lines of one controller in order."""

    found: Counter[str]
    announced: Counter[str] | None = None
    """LeaderAndIsr by broker since the election; None: nothing is being announced."""
    parents: int = 0
    """Writes of partitions' parents in the event in progress."""
    removed_until_ms: float = -1.0
    """When the last removal ended."""

    def read(self, record: EventRecord, time_ms: int) -> None:
        data = record.data
        match record.type:
            case EventRecordType.ELECTION:
                self._announcing_ends()
                self.announced = Counter() if data.get("what") == "elected" else None
            case EventRecordType.REQUEST:
                if self.announced is not None and data.get("api") == "LEADER_AND_ISR":
                    self.announced[record.subject] += 1
            case EventRecordType.TRANSITION:
                self._announcing_ends()
            case EventRecordType.ZNODE_WRITE:
                self._announcing_ends()
                self._written(data["first_path"], data["operations"], data["took_ms"], time_ms)
            case EventRecordType.EVENT if "event" in data:
                self.found[PARTS] += data["event"] == "PartAnswered"
                self.found[CREATIONS] += self.parents > 1
                self.parents = 0

    def _announcing_ends(self) -> None:
        """Elections and reassignments follow, which have a transition or a write first."""
        if self.announced:
            self.found[TAKEOVERS] += max(self.announced.values()) > 1
            self.announced = None

    def _written(self, path: JsonValue, operations: JsonValue, took_ms: JsonValue, ended_ms: int) -> None:
        assert isinstance(path, str)
        assert isinstance(operations, dict)
        assert isinstance(took_ms, int | float)
        self.parents += "Create" in operations and _PARENT.fullmatch(path) is not None
        if operations.keys() == {"Delete"} and _STATE.fullmatch(path):
            self.found[REMOVALS] += ended_ms - took_ms < self.removed_until_ms
            self.removed_until_ms = ended_ms
