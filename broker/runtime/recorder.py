"""Record the agent's facts: all in the journal, as counts in the metrics, and the notable ones in the log.

Facts per request, acknowledgement or directory are logged at level DEBUG; refusals and quarantined directories are
warnings. A thousand refusals of one kind in a minute give twenty lines and a count.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final, Protocol

from lethe.adapters.logs import fields
from lethe.protocol.counting import counted
from lethe.protocol.journal import Fact, FactType

logger = logging.getLogger(__name__)

_LEVELS: Final[Mapping[FactType, int]] = {
    FactType.REFUSAL: logging.WARNING,
    FactType.SET_ASIDE: logging.WARNING,
    FactType.BROKER: logging.INFO,
}
_BURST: Final = 20
_BURST_S: Final = 60.0


class FactSink(Protocol):
    """A journal."""

    def record(self, fact: Fact) -> None: ...


class FactCounter(Protocol):
    def note_fact(self, fact: Fact) -> None: ...


class Recorder:
    """Records every fact of the agent; raises for no content of a fact."""

    def __init__(self, journal: FactSink | None, counts: FactCounter) -> None:
        self._journal = journal
        self._counts = counts
        self._began_s = 0.0
        self._lines = 0

    def record(self, fact: Fact) -> None:
        if self._journal is not None:
            self._journal.record(fact)
        self._counts.note_fact(fact)
        level = _LEVELS.get(fact.type, logging.DEBUG)
        if fact.type is FactType.BYTES_FREED and fact.data.get("error") is not None:
            level = logging.WARNING
        if fact.type is FactType.BROKER and fact.data.get("error") is not None:
            # A failed log directory stays failed until a restart, so it is logged as more than information.
            level = logging.ERROR
        if not logger.isEnabledFor(level) or (fact.type is FactType.REFUSAL and not self._is_worth_a_line()):
            return
        values = {name: value if isinstance(value, int | float) else str(value) for name, value in fact.data.items()}
        logger.log(level, "%s of %s", fact.type.value, fact.subject, extra=fields(**values))

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
