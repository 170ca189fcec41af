"""The faults of a run, drawn from its seed: what is done to whom, when, and for how long.

Kinds of faults are drawn like cards from a deck that has each as often as its weight. A deck lasts about five minutes,
so a run of `EVERY_KIND_MINUTES` has each kind.

The schedule names roles (the active controller, ZooKeeper's leader); who has them is found when the moment comes. So a
seed replays the schedule, and not the interleaving of the processes.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class Target(enum.Enum):
    """Whom a fault hits."""

    ACTIVE = "the active controller"
    CONTROLLER = "a controller"
    CONTROLLERS = "all controllers"
    AGENT = "an agent"
    KAFKA = "a Kafka broker"
    ZOOKEEPER_LEADER = "ZooKeeper's leader"
    ZOOKEEPER = "a ZooKeeper server"
    ACTIVE_TO_ZOOKEEPER = "the active controller's way to ZooKeeper"
    BROKER_TO_ZOOKEEPER = "a broker's way to ZooKeeper"
    TO_BROKER = "the way to a broker"
    TO_CONTROLLER = "the way to a controller"
    DISK = "an agent's small disk"


class Harm(enum.Enum):
    """What is done."""

    KILL = "SIGKILL"
    PAUSE = "SIGSTOP"
    CUT = "cut"
    REFUSE = "refuse"
    STALL = "stall"
    DELAY = "delay"
    FILL = "fill"


DURATION_S: Final[Mapping[Harm, tuple[float, float]]] = {
    Harm.KILL: (0.2, 10.0),
    # Shorter and longer than a session timeout.
    Harm.PAUSE: (0.5, 14.0),
    Harm.CUT: (0.0, 0.0),
    Harm.REFUSE: (1.0, 10.0),
    Harm.STALL: (1.0, 12.0),
    Harm.DELAY: (5.0, 15.0),
    Harm.FILL: (4.0, 12.0),
}
DELAY_S: Final = (0.02, 0.3)
_WAYS: Final = (Harm.CUT, Harm.REFUSE, Harm.STALL, Harm.DELAY)
WEIGHTS: Final[Mapping[tuple[Target, Harm], int]] = {
    (Target.ACTIVE, Harm.KILL): 8,
    (Target.ACTIVE, Harm.PAUSE): 6,
    (Target.CONTROLLER, Harm.KILL): 3,
    (Target.CONTROLLER, Harm.PAUSE): 2,
    (Target.CONTROLLERS, Harm.KILL): 1,
    (Target.AGENT, Harm.KILL): 9,
    (Target.AGENT, Harm.PAUSE): 7,
    (Target.KAFKA, Harm.KILL): 3,
    (Target.KAFKA, Harm.PAUSE): 4,
    (Target.ZOOKEEPER, Harm.KILL): 3,
    (Target.ZOOKEEPER, Harm.PAUSE): 3,
    (Target.ZOOKEEPER_LEADER, Harm.KILL): 3,
    (Target.ZOOKEEPER_LEADER, Harm.PAUSE): 2,
    **{(Target.ACTIVE_TO_ZOOKEEPER, harm): 2 for harm in _WAYS},
    **{(Target.BROKER_TO_ZOOKEEPER, harm): 2 for harm in _WAYS},
    **{(Target.TO_BROKER, harm): 3 for harm in _WAYS},
    **{(Target.TO_CONTROLLER, harm): 1 for harm in _WAYS},
    (Target.DISK, Harm.FILL): 4,
}
GAP_S: Final = (0.5, 6.0)
"""Between two faults."""
EVERY_KIND_MINUTES: Final = 6.0


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault. `choice` picks among the candidates of the moment, modulo their number."""

    at_s: float
    target: Target
    harm: Harm
    choice: int
    duration_s: float
    delay_s: float = 0.0

    @property
    def label(self) -> str:
        return label(self.target, self.harm)


def label(target: Target, harm: Harm) -> str:
    """Name a kind of fault."""
    return f"{harm.value} {target.value}"


def draw(seed: int, seconds: float) -> list[PlannedFault]:
    """Return the schedule of this seed; a longer run begins like a shorter one."""
    source = random.Random(f"chaos {seed}")
    deck: list[tuple[Target, Harm]] = []
    planned: list[PlannedFault] = []
    at_s = 0.0
    while True:
        at_s += source.uniform(*GAP_S)
        if not deck:
            deck = [kind for kind, weight in WEIGHTS.items() for _ in range(weight)]
            source.shuffle(deck)
        (target, harm), choice = deck.pop(), source.randrange(1_000_000)
        duration_s, delay_s = source.uniform(*DURATION_S[harm]), source.uniform(*DELAY_S)
        if at_s >= seconds:
            return planned
        planned.append(
            PlannedFault(
                round(at_s, 2),
                target,
                harm,
                choice,
                round(duration_s, 2),
                round(delay_s, 3) if harm is Harm.DELAY else 0.0,
            )
        )
