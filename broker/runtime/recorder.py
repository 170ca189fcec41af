"""Record the agent's event records: all in the journal, as counts in the metrics, and the notable ones in the log.

Event records per request, acknowledgement or directory are logged at level DEBUG; refusals and quarantined directories
are warnings. A thousand refusals of one kind in a minute give twenty lines and a count.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final, Protocol

from lethe.adapters.logs import fields
from lethe.protocol.counting import counted
from lethe.protocol.journal import EventRecord, EventRecordType

logger = logging.getLogger(__name__)

_LEVELS: Final[Mapping[EventRecordType, int]] = {
    EventRecordType.REFUSAL: logging.WARNING,
    EventRecordType.SET_ASIDE: logging.WARNING,
    EventRecordType.BROKER: logging.INFO,
    EventRecordType.DEBT: logging.INFO,
}
_BURST: Final = 20
_BURST_S: Final = 60.0


class RecordSink(Protocol):
    """A journal."""

    def record(self, record: EventRecord) -> None: ...


class RecordCounter(Protocol):
    def note_record(self, record: EventRecord) -> None: ...


class Recorder:
    """Records every event record of the agent; raises for no content of an event record."""

    def __init__(self, journal: RecordSink | None, counts: RecordCounter) -> None:
        self._journal = journal
        self._counts = counts
        self._began_s = 0.0
        self._lines = 0

    def record(self, record: EventRecord) -> None:
        if self._journal is not None:
            self._journal.record(record)
        self._counts.note_record(record)
        level = _LEVELS.get(record.type, logging.DEBUG)
        if record.type is EventRecordType.BYTES_FREED and record.data.get("error") is not None:
            level = logging.WARNING
        if record.type is EventRecordType.BROKER and record.data.get("error") is not None:
            # A failed log directory stays failed until a restart, so it is logged as more than information.
            level = logging.ERROR
        if not logger.isEnabledFor(level) or (record.type is EventRecordType.REFUSAL and not self._is_worth_a_line()):
            return
        values = {name: value if isinstance(value, int | float) else str(value) for name, value in record.data.items()}
        logger.log(level, "%s of %s", record.type.value, record.subject, extra=fields(**values))

    def _is_worth_a_line(self) -> bool:
        now_s = time.monotonic()
        if now_s - self._began_s >= _BURST_S:
            if self._lines > _BURST:
                logger.warning(
                    "%s in the minute before; the journal has them", counted(self._lines - _BURST, "more refusal")
                )
            self._began_s, self._lines = now_s, 0
        self._lines += 1
        return self._lines <= _BURST
