"""Tasks and continuations for requests of clients that only a controller answers: see `tasks`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.controller.core.client_wait_memory import PartitionsLed
from lethe.controller.core.mutation_quota_rules import QuotaLevel
from lethe.controller.core.tasks_reassignment import Target
from lethe.controller.core.tasks_settings import (
    SettingReadContinuation,
    SettingTask,
    SettingWriteContinuation,
)
from lethe.protocol.kafka.admin import CreatedTopic, DeletedTopic, GrowableTopic, GrownTopic
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import TopicId, TopicPartition


class RefusedPartition(NamedTuple):
    """A row of a client's request that changes nothing, with Kafka's error and the message for the client."""

    error: ErrorCode
    message: str | None


NO_PARTITION: Final = RefusedPartition(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")


class AlteredRows(NamedTuple):
    """The partitions of an AlterPartitionReassignments request; each one is in one of the two."""

    targets: tuple[Target, ...]
    refused: Mapping[TopicPartition, RefusedPartition]


class NewTopic(NamedTuple):
    """A topic that has passed all checks, with its row of the answer."""

    row: CreatedTopic
    topic_id: TopicId | None
    assignment: tuple[tuple[int, ...], ...]
    """Replicas by partition."""
    configs: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return self.row.name


# --- tasks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateRequestedTopics:
    """Check the topics of the CreateTopics request with this key, and create them."""

    key: int


@dataclass(frozen=True, slots=True)
class DeleteRequestedTopics:
    """Check the topics of the DeleteTopics request with this key, and mark them for deletion."""

    key: int


@dataclass(frozen=True, slots=True)
class AddRequestedPartitions:
    """Check the topics of the CreatePartitions request with this key, and add partitions to them.

    An attempt after the first one looks at the topics `left`; `rows` and `added` are results of earlier attempts."""

    key: int
    left: tuple[GrowableTopic, ...] | None = None
    rows: tuple[GrownTopic, ...] = ()
    added: tuple[PartitionsLed, ...] = ()
    attempts: int = 1


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


ChargedTask = CreateRequestedTopics | DeleteRequestedTopics | AddRequestedPartitions
"""Tasks of requests to which a client's quota applies."""


@dataclass(frozen=True, slots=True)
class ReadMutationQuota:
    """Read the quota of the client whose request the task is about, then run the task."""

    then: ChargedTask


ClientTask = (
    ReadMutationQuota
    | CreateRequestedTopics
    | DeleteRequestedTopics
    | AddRequestedPartitions
    | AlterReassignments
    | AnswerAlterReassignments
    | ListReassignments
    | ElectAsRequested
    | AwaitElected
    | SettingTask
)


# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MutationQuotaRead:
    """After reading the znodes that may set these rates."""

    then: ChargedTask
    levels: tuple[QuotaLevel, ...]


@dataclass(frozen=True, slots=True)
class NewTopicsLookedUp:
    """After reading the markers and the configuration znodes of these topics.

    `rows` are those of the topics that are refused or created already, `created` the topics among these that are."""

    key: int
    rows: tuple[CreatedTopic, ...]
    topics: tuple[NewTopic, ...]
    created: tuple[NewTopic, ...] = ()
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class NewTopicsWritten:
    """After writing these topics; `before` is what was known before, `rows` those of all other topics."""

    before: NewTopicsLookedUp
    rows: tuple[CreatedTopic, ...]
    topics: tuple[NewTopic, ...]


class MarkedTopic(NamedTuple):
    name: str
    created_zxid: int


@dataclass(frozen=True, slots=True)
class RequestedMarkersWritten:
    """After marking these topics; `rows` are all rows of the answer, theirs without an error."""

    key: int
    rows: tuple[DeletedTopic, ...]
    topics: tuple[MarkedTopic, ...]


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """After writing these topics' znodes, in an attempt of the task."""

    task: AddRequestedPartitions
    rows: tuple[GrownTopic, ...]
    topics: tuple[GrowableTopic, ...]
    led: tuple[PartitionsLed, ...]


@dataclass(frozen=True, slots=True)
class SupersededRead:
    """After reading `/admin/reassign_partitions`, for entries that these rows of a client's request replace, and which
    of their topics exist."""

    key: int
    rows: AlteredRows


@dataclass(frozen=True, slots=True)
class SupersededRemoved:
    key: int
    rows: AlteredRows


ClientReadContinuation = MutationQuotaRead | NewTopicsLookedUp | SupersededRead | SettingReadContinuation
ClientWriteContinuation = (
    NewTopicsWritten | RequestedMarkersWritten | PartitionsAdded | SupersededRemoved | SettingWriteContinuation
)
