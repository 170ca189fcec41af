"""Sends each event record to the journal, the metrics, the board and the log.

The journal gets every event record whole; metrics and board count it; the log gets a line, at the level in `LEVELS`.
Frequent types (requests, transitions, expected answers, deletion phases) are at level DEBUG. `blockers` logs what
deletions wait for.

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
from lethe.protocol.journal import EventRecord, EventRecordType, JsonValue

logger = logging.getLogger(__name__)

LEVELS: Final[Mapping[EventRecordType, int]] = {
    EventRecordType.ELECTION: logging.INFO,
    EventRecordType.EVENT: logging.DEBUG,
    EventRecordType.TRANSITION: logging.DEBUG,
    EventRecordType.REFUSAL: logging.WARNING,
    EventRecordType.REQUEST: logging.DEBUG,
    EventRecordType.CLIENT_REQUEST: logging.INFO,
    EventRecordType.ACK: logging.DEBUG,
    EventRecordType.ZNODE_WRITE: logging.DEBUG,
    EventRecordType.DELETION_PHASE: logging.DEBUG,
    EventRecordType.DEBT: logging.INFO,
    EventRecordType.REASSIGNMENT: logging.DEBUG,
    EventRecordType.SET_ASIDE: logging.WARNING,
    EventRecordType.BROKER: logging.INFO,
    EventRecordType.BYTES_FREED: logging.INFO,
    EventRecordType.GAP: logging.WARNING,
}
"""Log level by type."""

_BURST: Final = 20
_BURST_S: Final = 60.0


class RecordJournal(Protocol):
    def record(self, record: EventRecord) -> None: ...


class RecordCounter(Protocol):
    def note_record(self, record: EventRecord) -> None: ...


class Recorder:
    """Records every event record of the controller."""

    def __init__(self, journal: RecordJournal | None, *counters: RecordCounter) -> None:
        self._journal = journal
        self._counters = counters
        self._bursts: dict[str, tuple[float, int]] = {}
        """Kind of refusal to (start of its minute, refusals since then)."""

    def record(self, record: EventRecord) -> None:
        """Journal, count and perhaps log the event record. No content of an event record makes it raise."""
        if self._journal is not None:
            self._journal.record(record)
        for counter in self._counters:
            counter.note_record(record)
        level = LEVELS[record.type]
        if logger.isEnabledFor(level) and self._is_worth_a_line(record):
            values = {name: _flat(value) for name, value in record.data.items()}
            logger.log(level, "%s of %s", record.type.value, record.subject, extra=fields(**values))

    def _is_worth_a_line(self, record: EventRecord) -> bool:
        if record.type is not EventRecordType.REFUSAL:
            return True
        kind = f"{record.data.get('what')}: {record.data.get('why')}"
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
