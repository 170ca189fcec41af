"""The one table of responses to exceptions in a controller.

Expected outcomes are values and never raise. An exception is a fault: an input that no rule covers, or a broken
dependency. After a fault the memory may be wrong, so the controller resigns, gives its session up, waits (longer after
each fault in a row) and loads everything again if it is elected. Kafka's controller logs the exception and continues.

    SessionLost -> AWAIT_SESSION_LOST    MemoryError -> STOP    LookupError -> RESIGN
"""

from __future__ import annotations

import enum
from typing import Final

from lethe.adapters.zookeeper.interface import SessionLost


class FaultResponse(enum.Enum):
    AWAIT_SESSION_LOST = "the session is over; its SessionLost event follows"
    RESIGN = "resign, renew the session, stand again later"
    STOP = "log, and end the process: its supervisor starts another"


FAULTS: Final[tuple[tuple[type[Exception], FaultResponse], ...]] = (
    (SessionLost, FaultResponse.AWAIT_SESSION_LOST),
    (MemoryError, FaultResponse.STOP),
    (Exception, FaultResponse.RESIGN),
)
"""The first row whose type matches decides. Cancellation and interrupts are no `Exception` and propagate."""


class FaultWhileResigning(Exception):
    """Resigning failed too. The process ends, which closes the session."""


def response_to(error: Exception) -> FaultResponse:
    """Return the response to the exception."""
    return next(verdict for kind, verdict in FAULTS if isinstance(error, kind))
