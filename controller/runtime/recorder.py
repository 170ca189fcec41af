"""Sends each fact to the journal, the metrics, the board and the log.

The journal gets every fact whole; metrics and board count it; the log gets a line, at the level in `LEVELS`. Frequent
types (requests, transitions, expected answers, deletion phases) are at level DEBUG. `blockers` logs what deletions wait
for.

Refusals are warnings, and a half-down cluster causes thousands of the same. The log has the first 20 of one kind per
minute; the next line of that kind after the minute is preceded by the number of the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final, Protocol

from lethe.adapters.logs import FieldValue, fields
from lethe.protocol.counting import counted
from lethe.protocol.journal import Fact, FactType, JsonValue

logger = logging.getLogger(__name__)

LEVELS: Final[Mapping[FactType, int]] = {
    FactType.ELECTION: logging.INFO,
    FactType.EVENT: logging.DEBUG,
    FactType.TRANSITION: logging.DEBUG,
    FactType.REFUSAL: logging.WARNING,
    FactType.REQUEST: logging.DEBUG,
    FactType.ACK: logging.DEBUG,
    FactType.ZNODE_WRITE: logging.DEBUG,
    FactType.DELETION_PHASE: logging.DEBUG,
    FactType.REASSIGNMENT: logging.DEBUG,
    FactType.SET_ASIDE: logging.WARNING,
    FactType.BROKER: logging.INFO,
    FactType.BYTES_FREED: logging.INFO,
    FactType.GAP: logging.WARNING,
}
"""Log level by type."""

_BURST: Final = 20
_BURST_S: Final = 60.0


class FactJournal(Protocol):
    def record(self, fact: Fact) -> None: ...


class FactCounter(Protocol):
    def note_fact(self, fact: Fact) -> None: ...


class Recorder:
    """Records every fact of the controller."""

    def __init__(self, journal: FactJournal | None, *counters: FactCounter) -> None:
        self._journal = journal
        self._counters = counters
        self._bursts: dict[str, tuple[float, int]] = {}
        """Kind of refusal to (start of its minute, refusals since then)."""

    def record(self, fact: Fact) -> None:
        """Journal, count and perhaps log the fact. No content of a fact makes it raise."""
        if self._journal is not None:
            self._journal.record(fact)
        for counter in self._counters:
            counter.note_fact(fact)
        level = LEVELS[fact.type]
        if logger.isEnabledFor(level) and self._is_worth_a_line(fact):
            values = {name: _flat(value) for name, value in fact.data.items()}
            logger.log(level, "%s of %s", fact.type.value, fact.subject, extra=fields(**values))

    def _is_worth_a_line(self, fact: Fact) -> bool:
        if fact.type is not FactType.REFUSAL:
            return True
        kind = f"{fact.data.get('what')}: {fact.data.get('why')}"
        now_s = time.monotonic()
        began_s, count = self._bursts.get(kind, (now_s, 0))
        if now_s - began_s >= _BURST_S:
            if count > _BURST:
                logger.warning("%s of this kind: %s", counted(count - _BURST, "more refusal"), kind)
            began_s, count = now_s, 0
        if len(self._bursts) > 1000:
            self._bursts.clear()
        self._bursts[kind] = (began_s, count + 1)
        return count < _BURST


def _flat(value: JsonValue) -> FieldValue:
    return str(value) if isinstance(value, list | dict) else value
