"""Requests of clients that elect leaders and move partitions, and their responses, independent of version.

Only the controller answers them: see `admin`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import TopicPartition

# --- ElectLeaders -------------------------------------------------------------------------------------------------


class ElectionKind(enum.IntEnum):
    """Which replica is to lead."""

    PREFERRED = 0
    """The first one of the assignment, if it is in the ISR."""
    UNCLEAN = 1
    """Where no member of the ISR is live, the first live replica: what it lacks is lost."""


class TopicPartitions(NamedTuple):
    """Partitions of a topic, by number."""

    topic: str
    partitions: tuple[int, ...]


def named_partitions(topics: Iterable[TopicPartitions]) -> dict[TopicPartition, None]:
    """Return the partitions that these name, each once, in their order."""
    return dict.fromkeys(TopicPartition(topic, number) for topic, numbers in topics for number in numbers)


@dataclass(frozen=True, slots=True)
class ElectLeadersRequest:
    topics: tuple[TopicPartitions, ...] | None
    """None: all partitions."""
    timeout_ms: int
    kind: int = ElectionKind.PREFERRED
    """An ElectionKind, or another number that the client sent. Encoded from version 1 on."""


class PartitionOutcome(NamedTuple):
    """The result for one partition."""

    partition: int
    error: int
    message: str | None = None


class TopicOutcome(NamedTuple):
    topic: str
    partitions: tuple[PartitionOutcome, ...]


def topic_outcomes(rows: Iterable[tuple[TopicPartition, int, str | None]]) -> tuple[TopicOutcome, ...]:
    """Return the results, each with its error and message, topic by topic."""
    topics: dict[str, list[PartitionOutcome]] = {}
    for (topic, partition), error, message in rows:
        topics.setdefault(topic, []).append(PartitionOutcome(partition, error, message))
    return tuple(TopicOutcome(name, tuple(mine)) for name, mine in topics.items())


@dataclass(frozen=True, slots=True)
class ElectLeadersResponse:
    topics: tuple[TopicOutcome, ...]
    error: int = 0
    """Encoded from version 1 on."""
    throttle_time_ms: int = 0


# --- AlterPartitionReassignments ----------------------------------------------------------------------------------


class ReassignablePartition(NamedTuple):
    """A partition to move. `replicas`: None ends its reassignment."""

    partition: int
    replicas: tuple[int, ...] | None


class ReassignableTopic(NamedTuple):
    topic: str
    partitions: tuple[ReassignablePartition, ...]


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsRequest:
    topics: tuple[ReassignableTopic, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsResponse:
    topics: tuple[TopicOutcome, ...]
    """May be empty where `error` is that of the whole request."""
    error: int = 0
    message: str | None = None
    throttle_time_ms: int = 0


# --- ListPartitionReassignments -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsRequest:
    topics: tuple[TopicPartitions, ...] | None
    """None: all partitions."""
    timeout_ms: int


class MovingPartition(NamedTuple):
    """A partition in reassignment, with all its present replicas."""

    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class MovingTopic(NamedTuple):
    topic: str
    partitions: tuple[MovingPartition, ...]


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsResponse:
    topics: tuple[MovingTopic, ...]
    error: int = 0
    message: str | None = None
    throttle_time_ms: int = 0


# --- all of them --------------------------------------------------------------------------------------------------

PartitionRequest = ElectLeadersRequest | AlterPartitionReassignmentsRequest | ListPartitionReassignmentsRequest
PartitionResponse = ElectLeadersResponse | AlterPartitionReassignmentsResponse | ListPartitionReassignmentsResponse


def partition_error_response(request: PartitionRequest, error: int, message: str | None = None) -> PartitionResponse:
    """Return the response with this error for the whole request and, as Kafka's, for each partition that it names.

    Kafka's ElectLeaders says NOT_CONTROLLER of the partitions only. Where none are named, the whole request has it."""
    match request:
        case ElectLeadersRequest(topics=to_elect):
            rows = tuple(_uniform(topic, partitions, error, message) for topic, partitions in to_elect or ())
            return ElectLeadersResponse(rows, ErrorCode.NONE if rows and error == ErrorCode.NOT_CONTROLLER else error)
        case AlterPartitionReassignmentsRequest(topics=to_move):
            moves = ((topic, tuple(each.partition for each in partitions)) for topic, partitions in to_move)
            rows = tuple(_uniform(topic, partitions, error, message) for topic, partitions in moves)
            return AlterPartitionReassignmentsResponse(rows, error, message)
        case ListPartitionReassignmentsRequest():
            return ListPartitionReassignmentsResponse((), error, message)


def _uniform(topic: str, partitions: tuple[int, ...], error: int, message: str | None) -> TopicOutcome:
    return TopicOutcome(topic, tuple(PartitionOutcome(partition, error, message) for partition in partitions))


def partition_errors(response: PartitionResponse) -> tuple[int, ...]:
    """Return the error of the whole response, then that of each row."""
    if isinstance(response, ListPartitionReassignmentsResponse):
        return (response.error,)
    return (response.error, *(each.error for topic in response.topics for each in topic.partitions))
