"""Outcomes of writes to ZooKeeper by commands, as text, and when to retry them.

A write is conditional on what was read. After a conflicting write the command reads and writes again, at most
`MAX_ATTEMPTS` times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lethe.admin.refusal import Exit, Refusal
from lethe.protocol.zookeeper.operations import MultiDone, MultiFailed, MultiOutcome, MultiUnknown, ZkError, error_words

MAX_ATTEMPTS: Final = 10
"""Limit on attempts after conflicts."""
CONFLICTS: Final = (ZkError.BAD_VERSION, ZkError.NODE_EXISTS, ZkError.NO_NODE)
"""ZooKeeper's errors after a conflicting write."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one write. `problem` is None where it is done, now or (`was_done`) before; with both, a part of it is
    done. `is_unknown`: the reply was lost, so it may be done."""

    name: str
    problem: str | None = None
    is_unknown: bool = False
    was_done: bool = False


def exit_of(outcomes: Iterable[Outcome], *, interrupted: bool = False) -> Exit:
    """Return OK where all is done, else INTERRUPTED where the user has ended the command, else UNREACHABLE where it is
    unknown of one, else NO."""
    failed = [outcome for outcome in outcomes if outcome.problem is not None]
    if failed and interrupted:
        return Exit.INTERRUPTED
    if any(outcome.is_unknown for outcome in failed):
        return Exit.UNREACHABLE
    return Exit.NO if failed else Exit.OK


def demand_done(outcome: Outcome) -> None:
    """Raise Refusal where it is not done, or where that is unknown."""
    if outcome.problem is not None:
        raise Refusal(outcome.problem, exit_of([outcome]))


def is_conflict(outcome: MultiOutcome) -> bool:
    """Return True where another attempt to read and write makes sense."""
    return isinstance(outcome, MultiFailed) and outcome.error in CONFLICTS


def given_up(name: str, what: str) -> Outcome:
    """Return the outcome after `MAX_ATTEMPTS`. `what` is a noun, such as "topic orders"."""
    return Outcome(name, f"{what} was changed by others again and again")


def outcome_of(name: str, answer: MultiOutcome, *, act: str, done: str, was_done: bool = False) -> Outcome:
    """Return the outcome of a write. `act` says what was to be done ("mark topic orders for deletion"), `done` what was
    done ("topic orders was marked for deletion")."""
    match answer:
        case MultiDone():
            return Outcome(name, was_done=was_done)
        case MultiFailed(error=error):
            return Outcome(name, f"ZooKeeper refused to {act}: {error_words(error)}")
        case MultiUnknown(reason=reason):
            return Outcome(name, f"whether {done} is unknown: {reason}", is_unknown=True)
