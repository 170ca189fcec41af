"""Writes of tools to ZooKeeper: what became of them, in words, and when they are worth another attempt.

What a tool writes depends on what it has read. Where somebody else wrote at the same time it reads again and writes
again, but not without end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lethe.protocol.zookeeper.operations import MultiDone, MultiFailed, MultiOutcome, MultiUnknown, ZkError

MAX_ATTEMPTS: Final = 10
"""How often something is written again because somebody else wrote it at the same time."""
CONFLICTS: Final = (ZkError.BAD_VERSION, ZkError.NODE_EXISTS, ZkError.NO_NODE)
"""What ZooKeeper answers where somebody else wrote at the same time."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one thing; `problem` is None where it is done, now or (`was_done`) already before.
    `is_unknown`: the reply was lost, so it may have been done."""

    name: str
    problem: str | None = None
    is_unknown: bool = False
    was_done: bool = False


def is_conflict(outcome: MultiOutcome) -> bool:
    """True where the same is worth reading and writing again."""
    return isinstance(outcome, MultiFailed) and outcome.error in CONFLICTS


def given_up(name: str, what: str) -> Outcome:
    """After `MAX_ATTEMPTS`: `what` is a noun, as "topic orders"."""
    return Outcome(name, f"{what} was changed by others again and again")


def outcome_of(name: str, answer: MultiOutcome, *, act: str, done: str, was_done: bool = False) -> Outcome:
    """What became of a write. `act` is what ZooKeeper was asked to do ("mark topic orders for deletion"), `done` the
    same as a fact ("topic orders was marked for deletion")."""
    match answer:
        case MultiDone():
            return Outcome(name, was_done=was_done)
        case MultiFailed(error=error):
            return Outcome(name, f"ZooKeeper refused to {act}: {error.name}")
        case MultiUnknown(reason=reason):
            return Outcome(name, f"whether {done} is unknown: {reason}", is_unknown=True)
