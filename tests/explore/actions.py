"""What can happen in the small world, as values; `words` tells them."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Kind(enum.Enum):
    OPERATE = "the operator writes"
    SERVE = "ZooKeeper serves a controller's first request"
    WATCH = "a controller takes the event of a watch"
    WRITTEN = "a controller takes the outcome of a write in the background"
    TIMER = "a timer of a controller fires"
    ANSWER = "a controller takes a broker's answer"
    ANSWER_LOST = "a broker's answer gets lost"
    DELIVER = "a request arrives at a broker"
    STRAY = "a request arrives whose channel is closed"
    CONNECT = "a controller opens a session"
    LEARN = "a controller learns that its session has ended"
    START = "a controller's process starts"
    SESSION_ENDS = "the session of a dead controller ends"
    CRASH = "a controller's process dies"
    EXPIRE = "the session of a living controller ends"
    LEAVE = "a broker's process dies"
    BROKER_SESSION_ENDS = "the session of a dead broker ends"
    RETURN = "a broker returns with its disk"


class Action(NamedTuple):
    """`who`: the controller or broker, by its place; `what` and `which`: the broker or timer, and which stray."""

    kind: Kind
    who: int
    what: int = -1
    which: int = -1


class Scene(NamedTuple):
    """What kind of world it is."""

    owe: bool = False
    """Deletions do not wait for absent brokers (`lethe.deletion.offline.replicas=owe`)."""
    gone: bool = False
    """Broker 2, once dead, never returns."""
    undelete: bool = False
    """The operator pauses deletions, requests the marked topic back, resumes deletions: each once, at any moment."""
    kafka: bool = False
    """Controller 1001 does what Kafka's does about debts: it sees none, pays none, and waits for absent brokers."""
    trash: bool = False
    """Topic A is marked with a grace period, and may be requested back at any moment, once."""
    purge: bool = False
    """The same, but its deletion from the trash is requested, or that of another incarnation, which is not there."""
    again: bool = False
    """Topic A, which came back, is marked again: at once where it was for the trash before, or the reverse."""
    away: bool = False
    """The search begins after broker 2 has died and topic A was marked. With `owe`, A's znodes are gone by then."""

    @property
    def has_trash(self) -> bool:
        """Whether a marker may order a grace period."""
        return self.trash or self.purge or self.again


class Bounds(NamedTuple):
    """How often each fault may happen. What mends a fault is not bounded, so no state is stuck by a bound."""

    crashes: int = 1
    """Controllers whose process dies."""
    expiries: int = 0
    """Controllers that live on without their session."""
    absences: int = 1
    """Deaths of broker 2."""
    losses: int = 0
    """Answers that get lost although their broker lives on; those of a broker that dies may always get lost."""
    haste: int = 0
    """Timers that fire while something else is left to do for their controller; without that they may always fire."""
