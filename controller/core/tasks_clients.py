"""Tasks and continuations for requests of clients that only a controller answers: see `tasks`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lethe.controller.core.tasks_reassignment import Target
from lethe.controller.core.tasks_topic_requests import (
    TopicRequestReadContinuation,
    TopicRequestTask,
    TopicRequestWriteContinuation,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import TopicPartition


class RefusedPartition(NamedTuple):
    """A row of a client's request that changes nothing, with Kafka's error and the message for the client."""

    error: ErrorCode
    message: str | None


class AlteredRows(NamedTuple):
    """The partitions of an AlterPartitionReassignments request; each one is in one of the two."""

    targets: tuple[Target, ...]
    refused: Mapping[TopicPartition, RefusedPartition]


# --- tasks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AlterReassignments:
    """Start, replace or cancel reassignments, as the AlterPartitionReassignments request with this key says."""

    key: int


@dataclass(frozen=True, slots=True)
class AnswerAlterReassignments:
    """Answer that request: for its targets, with what the topics' znodes have now."""

    key: int
    rows: AlteredRows


@dataclass(frozen=True, slots=True)
class ListReassignments:
    """Answer the ListPartitionReassignments request with this key."""

    key: int


@dataclass(frozen=True, slots=True)
class ElectAsRequested:
    """Elect the leaders of the ElectLeaders request with this key."""

    key: int


@dataclass(frozen=True, slots=True)
class AwaitElected:
    """The elections of that request were tried: answer it, or wait until the brokers show the leaders.

    `rows`: None where an election was needed."""

    key: int
    rows: Mapping[TopicPartition, RefusedPartition | None]


ClientTask = (
    AlterReassignments
    | AnswerAlterReassignments
    | ListReassignments
    | ElectAsRequested
    | AwaitElected
    | TopicRequestTask
)


# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SupersededRead:
    """After reading `/admin/reassign_partitions`, for entries that these rows of a client's request replace."""

    key: int
    rows: AlteredRows


@dataclass(frozen=True, slots=True)
class SupersededRemoved:
    key: int
    rows: AlteredRows


ClientReadContinuation = SupersededRead | TopicRequestReadContinuation
ClientWriteContinuation = SupersededRemoved | TopicRequestWriteContinuation
