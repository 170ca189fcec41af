"""What is measured: workloads, their phases, and what is wanted of each."""

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
    """From the first write of a topic's znode until every broker has been told of all partitions."""
    FAILOVER = "failover"
    """From the election, by the time in `/controller`, until every broker has been told of all partitions."""
    DELETION = "deletion"
    """From the first write of a deletion marker until the last topic and the last marker are gone."""


class Disk(StrEnum):
    """What the agents do with a control request."""

    NONE = "acknowledging"
    """They answer it, and that is all."""
    REAL = "directories"
    """They make, rename and remove directories with files."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Topics of one size, and what is timed with them."""

    topics: int
    partitions_per_topic: int
    disk: Disk
    phases: tuple[Phase, ...]

    @property
    def name(self) -> str:
        """`1,000×4×3 directories`."""
        size = f"{self.topics:,}×{self.partitions_per_topic}×{REPLICATION_FACTOR}"
        return size if self.disk is Disk.NONE else f"{size} {self.disk}"

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_per_topic

    def plans(self, prefix: str) -> Iterator[TopicPlan]:
        """Its topics; each broker has a replica of every partition, and leads a third of them."""
        for number in range(self.topics):
            rows = (self._replicas(number + partition) for partition in range(self.partitions_per_topic))
            yield TopicPlan(f"{prefix}-{number:05d}", TopicId(uuid.uuid4()), tuple(rows))

    @staticmethod
    def _replicas(shift: int) -> tuple[int, ...]:
        first = shift % len(BROKERS)
        return BROKERS[first:] + BROKERS[:first]


WARM_UP: Final = Workload(200, 10, Disk.NONE, (Phase.CREATION, Phase.FAILOVER, Phase.DELETION))
SMALL: Final = Workload(1_000, 4, Disk.NONE, (Phase.CREATION, Phase.FAILOVER, Phase.DELETION))
DIRECTORIES: Final = Workload(1_000, 4, Disk.REAL, (Phase.CREATION, Phase.DELETION))
LARGE: Final = Workload(2_000, 50, Disk.NONE, (Phase.CREATION, Phase.FAILOVER, Phase.DELETION))
WORKLOADS: Final = {"directories": DIRECTORIES, "small": SMALL, "large": LARGE}

QUICK_WARM_UP: Final = Workload(20, 2, Disk.NONE, WARM_UP.phases)
QUICK: Final = {
    "small": Workload(40, 4, Disk.NONE, SMALL.phases),
    "directories": Workload(20, 4, Disk.REAL, DIRECTORIES.phases),
}
"""A smoke run: everything once, sizes at which no figure means anything."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A ratio, Kafka's time by ours, that a phase should reach."""

    workload: Workload
    phase: Phase
    ratio: float


WANTED: Final = (
    Wanted(SMALL, Phase.DELETION, 14.0),
    Wanted(LARGE, Phase.DELETION, 25.0),
    Wanted(LARGE, Phase.CREATION, 3.0),
    Wanted(LARGE, Phase.FAILOVER, 6.0),
)
WANTED_PEAK_MB: Final = 400
"""Of our controller, over all phases of the large workload."""
