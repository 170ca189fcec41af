"""The three control requests that a controller sends to brokers, and their responses, independent of version.

A request's body is built once and shared by its receivers. Only the broker epoch differs between them, so it is part of
the envelope (`Addressed`) and not of these values.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.protocol.kafka.partition_errors import PartitionErrors, TopicErrors, by_topic
from lethe.protocol.vocabulary import (
    LEADER_DURING_DELETE,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    RecoveryState,
    TopicId,
)


class ApiKey(enum.IntEnum):
    """The APIs that Lethe speaks."""

    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67


class Node(NamedTuple):
    """A broker's inter-broker address; LeaderAndIsr lists the live leaders."""

    id: int
    host: str
    port: int


# --- LeaderAndIsr -------------------------------------------------------------------------------------------------


class LeaderAndIsrPartition(NamedTuple):
    partition: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    is_new: bool = False
    recovery_state: int = RecoveryState.RECOVERED


class LeaderAndIsrTopic(NamedTuple):
    topic: str
    topic_id: TopicId | None
    partitions: tuple[LeaderAndIsrPartition, ...]


@dataclass(frozen=True, slots=True)
class LeaderAndIsrRequest:
    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    topics: tuple[LeaderAndIsrTopic, ...]
    live_leaders: tuple[Node, ...]

    def answered(self, error: int) -> tuple[TopicErrors, ...]:
        """Return this error for every partition, as topics of a response."""
        return tuple(
            TopicErrors(name, topic_id, PartitionErrors.uniform((row.partition for row in partitions), error))
            for name, topic_id, partitions in self.topics
        )


class TopicIdError(NamedTuple):
    """One row of a response. `topic` is set up to version 4, `topic_id` from version 5 on; the other is None."""

    topic: str | None
    topic_id: TopicId | None
    partition: int
    error: int


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponse:
    error: int
    topics: tuple[TopicErrors, ...]

    @classmethod
    def of_rows(cls, error: int, rows: Iterable[TopicIdError]) -> LeaderAndIsrResponse:
        return cls(error, by_topic(rows))

    @property
    def rows(self) -> tuple[TopicIdError, ...]:
        """The topics row by row, for readers of few."""
        return tuple(TopicIdError(name, each_id, *row) for name, each_id, errors in self.topics for row in errors.rows)


# --- UpdateMetadata -----------------------------------------------------------------------------------------------


class UpdateMetadataPartition(NamedTuple):
    partition: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


class UpdateMetadataTopic(NamedTuple):
    topic: str
    topic_id: TopicId | None
    partitions: tuple[UpdateMetadataPartition, ...]

    @property
    def is_tombstone(self) -> bool:
        """Whether it makes metadata caches drop partitions of the topic, which is being deleted."""
        return any(row.leader == LEADER_DURING_DELETE for row in self.partitions)


@dataclass(frozen=True, slots=True)
class UpdateMetadataRequest:
    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    topics: tuple[UpdateMetadataTopic, ...]
    live_brokers: tuple[Broker, ...]
    """Broker epochs are not encoded: each one is NO_EPOCH in a decoded request."""


@dataclass(frozen=True, slots=True)
class UpdateMetadataResponse:
    error: int


# --- StopReplica --------------------------------------------------------------------------------------------------


class StopReplicaPartition(NamedTuple):
    partition: int
    leader_epoch: int
    """NO_LEADER_EPOCH in versions below 3, which do not carry it."""
    delete: bool


class StopReplicaTopic(NamedTuple):
    topic: str
    partitions: tuple[StopReplicaPartition, ...]


@dataclass(frozen=True, slots=True)
class StopReplicaRequest:
    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    topics: tuple[StopReplicaTopic, ...]
    """Below version 3 all partitions of one request share one delete flag."""

    def answered(self, error: int) -> tuple[TopicErrors, ...]:
        """Return this error for every partition, as topics of a response."""
        return tuple(
            TopicErrors(name, None, PartitionErrors.uniform((row.partition for row in partitions), error))
            for name, partitions in self.topics
        )


class TopicError(NamedTuple):
    topic: str
    partition: int
    error: int


@dataclass(frozen=True, slots=True)
class StopReplicaResponse:
    error: int
    topics: tuple[TopicErrors, ...]
    """Empty if `error` is a stale epoch. Without topic ids."""

    @classmethod
    def of_rows(cls, error: int, rows: Iterable[TopicError]) -> StopReplicaResponse:
        return cls(error, by_topic((topic, None, partition, code) for topic, partition, code in rows))

    @property
    def rows(self) -> tuple[TopicError, ...]:
        """The topics row by row, for readers of few."""
        named = ((topic.topic, topic.errors) for topic in self.topics)
        return tuple(TopicError(name, *row) for name, errors in named if name is not None for row in errors.rows)


# --- the envelope -------------------------------------------------------------------------------------------------

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse


class Addressed(NamedTuple):
    """A control request and the epoch of the receiving broker."""

    request: ControlRequest
    broker_epoch: BrokerEpoch


NO_CONTROLLER_EPOCH: Final = ControllerEpoch(-1)
"""Lower than every epoch that a broker can have seen."""


def probe_request(controller: BrokerId, epoch: ControllerEpoch = NO_CONTROLLER_EPOCH) -> StopReplicaRequest:
    """Return a request that names no topic, and shows whether a broker accepts requests of this controller.

    A broker first checks the permission ClusterAction, then refuses an epoch below the one that it has seen with
    STALE_CONTROLLER_EPOCH. It remembers an epoch that it accepts.
    """
    return StopReplicaRequest(controller, epoch, ())


def api_of(request: ControlRequest) -> ApiKey:
    """Return the API that carries the request."""
    match request:
        case LeaderAndIsrRequest():
            return ApiKey.LEADER_AND_ISR
        case UpdateMetadataRequest():
            return ApiKey.UPDATE_METADATA
        case StopReplicaRequest():
            return ApiKey.STOP_REPLICA


def uniform_response(request: ControlRequest, error: int) -> ControlResponse:
    """Return the response with this error at the top and for each partition; UpdateMetadata has it at the top only."""
    match request:
        case LeaderAndIsrRequest():
            return LeaderAndIsrResponse(error, request.answered(error))
        case StopReplicaRequest():
            return StopReplicaResponse(error, request.answered(error))
        case UpdateMetadataRequest():
            return UpdateMetadataResponse(error)
