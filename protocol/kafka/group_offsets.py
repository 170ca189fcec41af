"""OffsetFetch and OffsetCommit: the committed offsets of one consumer group, as its coordinator stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

NO_GENERATION: Final = -1
"""Generation of a commit by a client that is no member: the coordinator accepts it only if the group has no members."""


HAS_MEMBERS: Final = "it has members"
"""Why a group takes no offsets from others."""


class CommittedOffset(NamedTuple):
    """What a group has committed for one partition. `leader_epoch` is -1 if it is unknown."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


GroupOffsets = Mapping[str, Mapping[int, CommittedOffset]]
"""The committed offsets of one topic, by group and partition."""


class FetchTopic(NamedTuple):
    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OffsetFetchRequest:
    group: str
    topics: tuple[FetchTopic, ...] | None = None
    """None: everything that the group has committed."""
    require_stable: bool = False


class FetchedOffset(NamedTuple):
    """`offset` is -1 if the group has committed none."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    error: int = 0


class FetchedTopic(NamedTuple):
    topic: str
    partitions: tuple[FetchedOffset, ...]


@dataclass(frozen=True, slots=True)
class OffsetFetchResponse:
    topics: tuple[FetchedTopic, ...] = ()
    error: int = 0
    throttle_time_ms: int = 0


class OffsetToCommit(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class TopicToCommit(NamedTuple):
    topic: str
    partitions: tuple[OffsetToCommit, ...]


@dataclass(frozen=True, slots=True)
class OffsetCommitRequest:
    group: str
    topics: tuple[TopicToCommit, ...]
    generation: int = NO_GENERATION
    member: str = ""
    instance: str | None = None


class CommittedPartition(NamedTuple):
    partition: int
    error: int


class CommittedTopic(NamedTuple):
    topic: str
    partitions: tuple[CommittedPartition, ...]


@dataclass(frozen=True, slots=True)
class OffsetCommitResponse:
    topics: tuple[CommittedTopic, ...] = ()
    throttle_time_ms: int = 0


def coordinator_partition(group: str, partitions: int) -> int:
    """Return the partition of `__consumer_offsets`, which has this many, whose leader coordinates the group.

    It is Kafka's `abs(group.hashCode) % partitions`, over UTF-16 units, where the lowest number's absolute value is 0.
    """
    value = 0
    encoded = group.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        value = (31 * value + int.from_bytes(encoded[at : at + 2])) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
