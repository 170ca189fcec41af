"""What is measured: workloads, their phases, and target ratios."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lethe.admin.topic_plans import TopicPlan
from lethe.protocol.vocabulary import TopicId

BROKERS: Final = (1, 2, 3)
REPLICATION_FACTOR: Final = 3


class Phase(StrEnum):
    """What is timed."""

    CREATION = "creation"
    """From the first write of a topic's znode until every broker has received all partitions."""
    FAILOVER = "failover"
    """From the election, by the time in `/controller`, until every broker has received all partitions."""
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

    @property
    def name(self) -> str:
        """`1,000×4×3 directories`."""
        size = f"{self.topics:,}×{self.partitions_per_topic}×{REPLICATION_FACTOR}"
        return size if self.disk is AgentMode.NONE else f"{size} {self.disk}"

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_per_topic

    def plans(self, prefix: str) -> Iterator[TopicPlan]:
        """Return its topics. Each broker has a replica of every partition and leads a third of them."""
        for number in range(self.topics):
            rows = (self._replicas(number + partition) for partition in range(self.partitions_per_topic))
            yield TopicPlan(f"{prefix}-{number:05d}", TopicId(uuid.uuid4()), tuple(rows))

    @staticmethod
    def _replicas(shift: int) -> tuple[int, ...]:
        first = shift % len(BROKERS)
        return BROKERS[first:] + BROKERS[:first]


WARM_UP: Final = Workload(200, 10, AgentMode.NONE, (Phase.CREATION, Phase.FAILOVER, Phase.DELETION))
SMALL: Final = Workload(1_000, 4, AgentMode.NONE, (Phase.CREATION, Phase.FAILOVER, Phase.DELETION))
DIRECTORIES: Final = Workload(1_000, 4, AgentMode.REAL, (Phase.CREATION, Phase.DELETION))
LARGE: Final = Workload(2_000, 50, AgentMode.NONE, (Phase.CREATION, Phase.FAILOVER, Phase.DELETION))
WORKLOADS: Final = {"directories": DIRECTORIES, "small": SMALL, "large": LARGE}

QUICK_WARM_UP: Final = Workload(20, 2, AgentMode.NONE, WARM_UP.phases)
QUICK: Final = {
    "small": Workload(40, 4, AgentMode.NONE, SMALL.phases),
    "directories": Workload(20, 4, AgentMode.REAL, DIRECTORIES.phases),
}
"""A smoke test: everything once, in sizes whose results mean nothing."""


@dataclass(frozen=True, slots=True)
class TargetRatio:
    """Target for a phase: Kafka's time divided by Lethe's."""

    workload: Workload
    phase: Phase
    ratio: float


TARGET_RATIOS: Final = (
    TargetRatio(SMALL, Phase.DELETION, 14.0),
    TargetRatio(LARGE, Phase.DELETION, 25.0),
    TargetRatio(LARGE, Phase.CREATION, 3.0),
    TargetRatio(LARGE, Phase.FAILOVER, 6.0),
)
TARGET_PEAK_MB: Final = 400
"""Of Lethe's controller, over all phases of the large workload."""
