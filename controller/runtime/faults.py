"""What an exception means to a controller. One table, and nobody else decides.

Expected outcomes are values and never get here. What does get here is a fault: a rule met something that it does not
cover, or something that it works with broke. After a fault the memory cannot be trusted, and a controller that goes on
with wrong memory is worse than none: it resigns, gives its session up, waits (longer after each fault in a row) and
loads everything anew if it is elected again. Kafka's controller logs such an exception and goes on with what it has.
"""

from __future__ import annotations

import enum
from typing import Final

from lethe.adapters.zookeeper.interface import SessionLost


class Verdict(enum.Enum):
    AWAIT_SESSION_LOST = "the session is over; the event that says so follows"
    RESIGN = "resign, renew the session, stand again later"
    STOP = "end the process, loudly: whoever supervises it starts another"


FAULTS: Final[tuple[tuple[type[Exception], Verdict], ...]] = (
    (SessionLost, Verdict.AWAIT_SESSION_LOST),
    (MemoryError, Verdict.STOP),
    (Exception, Verdict.RESIGN),
)
"""The first row whose type fits decides. Cancellation and interrupts are no `Exception`: they pass through."""


class FaultWhileResigning(Exception):
    """Not even resigning worked; the process ends, which closes the session."""


def verdict_on(error: Exception) -> Verdict:
    """What is to be done about the exception."""
    return next(verdict for kind, verdict in FAULTS if isinstance(error, kind))
