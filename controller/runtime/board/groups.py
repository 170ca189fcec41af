"""Topics of one column that wait for the same cause and broker, as one row: "333 topics ← broker 3". Pure.

rows     orders: BROKER_TO_RETURN, 4   audit: BROKER_TO_RETURN, 4   clicks: BROKER_TO_RETURN, 4   billing: none
groups   started BROKER_TO_RETURN 4: 3 topics
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lethe.controller.runtime.board.document import Row
from lethe.controller.runtime.board.state import Phase
from lethe.protocol.cause_groups import SET_ASIDE
from lethe.protocol.causes import CauseKind, named, sentence
from lethe.protocol.journal import JsonValue

MIN_TOPICS: Final = 3
"""Topics of smaller groups are shown one by one."""


def words(
    kind: CauseKind, topic: str, *, broker: int | None, path: str | None = None, detail: str | None = None
) -> str:
    """Return the cause's sentence. Of the held topics, those that were set aside are out of service, so their
    sentences say so."""
    why = sentence(kind, topic, broker=broker, path=path, detail=detail)
    return f"out of service, {why}" if kind in SET_ASIDE else why


@dataclass(slots=True)
class _Group:
    """The topics that wait for one cause. `since_ms` is the earliest start."""

    cause: str
    broker: int | None
    waits: bool
    since_ms: int
    topics: int = 0
    replicas: int = 0

    def row(self, phase: Phase, at_least: bool) -> Row:
        kind = named(self.cause)
        return {
            "phase": phase.value,
            "cause": self.cause,
            "broker": self.broker,
            "note": None if kind is None else words(kind, "", broker=self.broker),
            "waits": self.waits,
            "topics": self.topics,
            "replicas": self.replicas,
            "since_ms": self.since_ms,
            "at_least": at_least,
        }


class Groups:
    """The groups of one column. Add the rows of its topics in order."""

    def __init__(self, phase: Phase) -> None:
        self._phase = phase
        self._groups: dict[str, _Group] = {}

    def add(self, row: Row) -> tuple[str | None, int]:
        """Add a row with `cause`, `note`, `broker`, `waits`, `since_ms` and `replicas`. Return the key of its group and
        the group's size so far; (None, 0) for a topic without `note`."""
        cause, broker = row.get("cause"), row.get("broker")
        if not isinstance(cause, str) or row.get("note") is None:
            return None, 0
        key = f"{self._phase.value} {cause} {broker}"
        since_ms = _number(row["since_ms"])
        group = self._groups.get(key)
        if group is None:
            number = broker if isinstance(broker, int) else None
            group = self._groups[key] = _Group(cause, number, bool(row["waits"]), since_ms)
        group.topics += 1
        group.replicas += _number(row["replicas"])
        group.since_ms = min(group.since_ms, since_ms)
        return key, group.topics

    def rows(self, *, at_least: bool) -> dict[str, Row]:
        """Return the groups of at least `MIN_TOPICS`, by key. `at_least`: the column has topics that were not added."""
        return {
            key: group.row(self._phase, at_least) for key, group in self._groups.items() if group.topics >= MIN_TOPICS
        }


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0
