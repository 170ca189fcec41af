"""What is measured: workloads, their phases, and target ratios."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lethe.admin.topic_plans import TopicPlan
from lethe.protocol.vocabulary import TopicId

BROKERS: Final = (1, 2, 3)
KEPT_TRANSACTIONS: Final = 500
"""ZooKeeper keeps so many transactions in memory (`zookeeper.commitLogCount`, by default)."""
REPLICATION_FACTOR: Final = 3


class Phase(StrEnum):
    """What is timed."""

    CREATION = "creation"
    """From the first write of a topic's znode until every broker has received all partitions."""
    FAILOVER = "failover"
    """From the election, by the time in `/controller`, until every broker has received all partitions."""
    FAILURE = "broker failure"
    """From the end of a killed broker's session until every other broker has received its partitions."""
    DELETION = "deletion"
    """From the first write of a deletion marker until the last topic and the last marker are removed."""


class AgentMode(StrEnum):
    """What agents do with a control request."""

    NONE = "acknowledging"
    """They only answer it."""
    REAL = "directories"
    """They create, rename and remove directories with files."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Topics of one size, and the phases to time."""

    topics: int
    partitions_per_topic: int
    disk: AgentMode
    phases: tuple[Phase, ...]
    brokers: int = len(BROKERS)

    @property
    def name(self) -> str:
        """`1,000×4×3 directories`, `2,000×50×3 on 50 brokers`."""
        size = f"{self.topics:,}×{self.partitions_per_topic}×{REPLICATION_FACTOR}"
        if self.brokers != len(BROKERS):
            size += f" on {self.brokers} brokers"
        return size if self.disk is AgentMode.NONE else f"{size} {self.disk}"

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_per_topic

    def plans(self, prefix: str) -> Iterator[TopicPlan]:
        """Return its topics. Brokers have about the same number of replicas, and lead a third of them."""
        for number in range(self.topics):
            rows = (self._replicas(number + partition) for partition in range(self.partitions_per_topic))
            yield TopicPlan(f"{prefix}-{number:05d}", TopicId(uuid.uuid4()), tuple(rows))

    def replicas_by_broker(self) -> Counter[int]:
        """Return how many replicas each broker has."""
        shifts = (number + p for number in range(self.topics) for p in range(self.partitions_per_topic))
        return Counter(broker for shift in shifts for broker in self._replicas(shift))

    def _replicas(self, shift: int) -> tuple[int, ...]:
        return tuple((shift + n) % self.brokers + 1 for n in range(REPLICATION_FACTOR))


WARM_UP: Final = Workload(200, 10, AgentMode.NONE, (Phase.CREATION, Phase.FAILOVER, Phase.DELETION))
SMALL: Final = Workload(1_000, 4, AgentMode.NONE, (Phase.CREATION, Phase.FAILOVER, Phase.DELETION))
DIRECTORIES: Final = Workload(1_000, 4, AgentMode.REAL, (Phase.CREATION, Phase.DELETION))
LARGE: Final = Workload(2_000, 50, AgentMode.NONE, (Phase.CREATION, Phase.FAILOVER, Phase.DELETION))
WORKLOADS: Final = {"directories": DIRECTORIES, "small": SMALL, "large": LARGE}

_ALL_PHASES: Final = (Phase.CREATION, Phase.FAILOVER, Phase.FAILURE, Phase.DELETION)
MANY_BROKERS: Final = {
    "fifty": Workload(2_000, 50, AgentMode.NONE, _ALL_PHASES, brokers=50),
    "fifty-directories": Workload(200, 50, AgentMode.REAL, _ALL_PHASES, brokers=50),
}
"""Run where they are named, and with Lethe's controller alone: Kafka's was not measured with them."""

QUICK_WARM_UP: Final = Workload(20, 2, AgentMode.NONE, WARM_UP.phases)
QUICK: Final = {
    "small": Workload(40, 4, AgentMode.NONE, SMALL.phases),
    "directories": Workload(20, 4, AgentMode.REAL, DIRECTORIES.phases),
    "brokers": Workload(10, 6, AgentMode.NONE, _ALL_PHASES, brokers=6),
}
"""A smoke test: everything once, in sizes whose results mean nothing."""


def verdict(is_reached: bool | None) -> str:
    """Return the verdict on a wanted value in words; None: it was not measured."""
    if is_reached is None:
        return "not measured"
    return "reached" if is_reached else "**missed**"


@dataclass(frozen=True, slots=True)
class Target:
    """What a phase should reach: Lethe's time, and Kafka's time divided by it."""

    workload: Workload
    phase: Phase
    seconds: float
    ratio: float | None = None

    def judged(self, seconds: float | None, ratio: float | None) -> str:
        """Return each wanted value with its verdict for this time and this ratio: `≤ 5 s missed, ≥ 30× reached`."""
        said = [f"≤ {self.seconds:g} s {verdict(None if seconds is None else seconds <= self.seconds)}"]
        if self.ratio is not None:
            said.append(f"≥ {self.ratio:g}× {verdict(None if ratio is None else ratio >= self.ratio)}")
        return ", ".join(said)


TARGETS: Final = (
    Target(SMALL, Phase.DELETION, 0.45),
    Target(LARGE, Phase.CREATION, 6.0),
    Target(LARGE, Phase.FAILOVER, 1.5, 5.0),
    Target(LARGE, Phase.DELETION, 5.0, 30.0),
)
"""Set on a machine where Kafka's controller took 13.4 s for the small deletion, 38.5, 8.9 and 217 s for the large
phases."""
WANTED_ROUNDS: Final = 5
"""Of each workload and controller."""
TARGET_PEAK_MB: Final = 200
"""Of Lethe's controller, over all phases of the large workload."""
TARGET_EXTRA_HEAP_MB: Final = 40
"""ZooKeeper's heap stays below this after each phase of the large workload, less its heap after Kafka's same phase."""
TARGET_P99_MS: Final = 500
"""A bystander's p99 stays below this while 100,000 partitions are deleted."""


def wanted_heap(extra_mb: float | None) -> str:
    """Return the wanted extra heap with its verdict."""
    return f"< {TARGET_EXTRA_HEAP_MB} MB {verdict(None if extra_mb is None else extra_mb < TARGET_EXTRA_HEAP_MB)}"


def wanted_p99(p99_ms: float | None) -> str:
    """Return the wanted p99 with its verdict."""
    return f"p99 < {TARGET_P99_MS} ms {verdict(None if p99_ms is None else p99_ms < TARGET_P99_MS)}"
