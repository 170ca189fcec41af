"""What an exception means to a controller. One table, and nobody else decides.

Expected outcomes are values and never get here. What does get here is a fault: a rule met something that it does not
cover, or something that it works with broke. After a fault the memory cannot be trusted, and a controller that goes on
with wrong memory is worse than none: it resigns, gives its session up, waits (longer after each fault in a row) and
loads everything anew if it is elected again. Kafka's controller logs such an exception and goes on with what it has.
"""

from __future__ import annotations

import enum

from adapters.zookeeper.interface import SessionLost
from controller.core.context import Context
from controller.core.effects import Effect
from controller.core.tenure import step_back
from controller.core.turn import Turn


class Verdict(enum.Enum):
    AWAIT_SESSION_LOST = "the session is over; the event that says so follows"
    RESIGN = "resign, renew the session, stand again later"
    STOP = "end the process, loudly: whoever supervises it starts another"


FAULTS: tuple[tuple[type[Exception], Verdict], ...] = (
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


def resign_afresh(old: Context, reason: str, now_ms: int) -> tuple[Context, list[Effect]]:
    """A memory that knows nothing but that it is backing off, and what has to be done for that.

    Taken over from the old memory, which is not to be trusted, is only what cannot hurt: the tenure (so that its end is
    recorded), how many faults there were in a row, and the counters of ids, so that no late answer is mistaken.
    """
    fresh = Context(old.config)
    fresh.role = old.role
    fresh.session_id = old.session_id
    fresh.epoch = old.epoch
    fresh.elected_at_ms = old.elected_at_ms
    fresh.faults_in_a_row = old.faults_in_a_row
    fresh.last_effect_id = old.last_effect_id
    fresh.last_request_id = old.last_request_id
    turn = Turn(fresh, now_ms)
    step_back(turn, reason)
    return fresh, turn.effects
