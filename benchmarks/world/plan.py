"""The sizes of clusters that are measured: along each axis one number grows and the others stay."""

from __future__ import annotations

from typing import Final, NamedTuple


class Size(NamedTuple):
    topics: int
    partitions_per_topic: int
    brokers: int

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_per_topic


class Axis(NamedTuple):
    name: str
    sizes: tuple[Size, ...]


TRACED_UP_TO: Final = 100_000
"""Partitions of the largest size whose allocations are traced: tracing takes as much memory again, and many times the
time."""
AXES: Final = (
    Axis("brokers", tuple(Size(2_000, 50, brokers) for brokers in (3, 30, 100, 300, 1_000))),
    Axis("topics", tuple(Size(topics, 5, 100) for topics in (2_000, 6_000, 20_000))),
    Axis("partitions of a topic", tuple(Size(100, count, 100) for count in (100, 300, 1_000))),
    Axis("partitions", tuple(Size(topics, 50, 100) for topics in (200, 600, 2_000, 6_000, 20_000))),
    Axis("all of it", (Size(20_000, 50, 1_000),)),
)
QUICK: Final = (
    Axis("brokers", (Size(20, 10, 3), Size(20, 10, 10))),
    Axis("topics", (Size(20, 5, 10), Size(60, 5, 10))),
)


class Target(NamedTuple):
    """What a size should reach: a field of a phase or of the row, and the most that it may be."""

    size: Size
    what: str
    phase: str | None
    field: str
    most: float
    unit: str


_HUNDRED_THOUSAND: Final = tuple(Size(2_000, 50, brokers) for brokers in (3, 1_000))
TARGETS: Final = (
    Target(_HUNDRED_THOUSAND[1], "core time of the deletion", "deletion", "core_s", 8.0, "s"),
    Target(_HUNDRED_THOUSAND[0], "core time of the deletion", "deletion", "core_s", 1.5, "s"),
    Target(_HUNDRED_THOUSAND[0], "memory held by a partition, traced", None, "traced_held_bytes", 350.0, "bytes"),
)
"""The wanted values. Core times were set for an idle core."""
