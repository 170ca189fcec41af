"""Tasks and continuations for requests and notifications of brokers and tools: see `tasks`."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from lethe.controller.core.tasks_partitions import Partitions
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import ControllerResponse
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, PartitionReplica, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.znodes import ProducerIdBlock

# --- configuration ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadConfiguration:
    """Read the configuration in ZooKeeper of all brokers and of this controller, and watch for changes."""

    loading: bool = False


# --- notifications ----------------------------------------------------------------------------------------------------


class Notification(enum.Enum):
    """Kinds of notifications by sequential znodes; the value is the parent of these znodes."""

    ISR_CHANGE = paths.isr_change_notifications()
    LOG_DIR_EVENT = paths.log_dir_event_notifications()
    CONFIG_CHANGE = paths.config_changes()


@dataclass(frozen=True, slots=True)
class ReadNotifications:
    """Read the notifications of this kind, and watch for more."""

    kind: Notification


@dataclass(frozen=True, slots=True)
class DeleteNotifications:
    """Delete notifications that have been read, understood or not."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckLogDirs:
    """Ask these brokers, which have lost log directories, which replicas they can still access."""

    brokers: tuple[BrokerId, ...]


# --- preferred leaders ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadPreferredElections:
    """Read `/admin/preferred_replica_election`, and watch for changes."""


@dataclass(frozen=True, slots=True)
class RemovePreferredElections:
    """Remove the request for preferred leaders after one try: no more is promised."""

    version: int


# --- requests of brokers ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControlShutdown:
    """Move leadership away from the broker whose ControlledShutdown request has this key."""

    key: int


@dataclass(frozen=True, slots=True)
class StopFollowers:
    """Make the leaving broker stop fetching for these replicas, before they leave their ISRs."""

    replicas: tuple[PartitionReplica, ...]


@dataclass(frozen=True, slots=True)
class AnswerControlledShutdown:
    """Answer the leaving broker with the partitions that it still leads."""

    key: int


@dataclass(frozen=True, slots=True)
class AlterPartitions:
    """Write the ISRs that the AlterPartition request with this key proposes."""

    key: int


@dataclass(frozen=True, slots=True)
class RefreshStates:
    """Read these partitions' states again, which others have written, and send them to brokers."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    """Claim the next block of producer ids for the AllocateProducerIds request with this key."""

    key: int


@dataclass(frozen=True, slots=True)
class AnswerAsController:
    """Answer a request that needed no write, after a fenced write has proven that this controller is active."""

    key: int
    response: ControllerResponse


@dataclass(frozen=True, slots=True)
class RemoveForeignIsrMembers:
    """Remove brokers that are not replicas from the ISRs of these partitions."""

    partitions: tuple[TopicPartition, ...]


RequestTask = (
    ReadConfiguration
    | ReadNotifications
    | DeleteNotifications
    | CheckLogDirs
    | ReadPreferredElections
    | RemovePreferredElections
    | ControlShutdown
    | StopFollowers
    | AnswerControlledShutdown
    | AlterPartitions
    | RefreshStates
    | AllocateProducerIds
    | AnswerAsController
    | RemoveForeignIsrMembers
)


# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfigurationRead:
    loading: bool


@dataclass(frozen=True, slots=True)
class NotificationsFound:
    kind: Notification


@dataclass(frozen=True, slots=True)
class NotificationsRead:
    kind: Notification
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotificationsDeleted:
    pass


@dataclass(frozen=True, slots=True)
class PreferredElectionsRead:
    pass


@dataclass(frozen=True, slots=True)
class PreferredElectionsRemoved:
    pass


@dataclass(frozen=True, slots=True)
class IsrsAltered:
    """`verdicts`: the answer for partitions without a write; None: the result of the write."""

    key: int
    partitions: Partitions
    verdicts: tuple[LeaderAndIsr | ErrorCode | None, ...]
    written: tuple[LeaderAndIsr, ...]
    """The states written, for the partitions without a verdict, in their order."""


@dataclass(frozen=True, slots=True)
class StatesRefreshed:
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ProducerIdsRead:
    key: int


@dataclass(frozen=True, slots=True)
class ProducerIdsWritten:
    key: int
    block: ProducerIdBlock


@dataclass(frozen=True, slots=True)
class ControlProven:
    """After a fenced write of one check: if the fence failed, the term is over."""

    key: int
    response: ControllerResponse


@dataclass(frozen=True, slots=True)
class ForeignIsrMembersRemoved:
    partitions: Partitions
    leader_and_isr: tuple[LeaderAndIsr, ...]


@dataclass(frozen=True, slots=True)
class GhostsChecked:
    """After reading the znodes of topics that a broker's metadata cache shows otherwise than memory."""

    broker: BrokerId
    shown: tuple[tuple[str, CachedTopic], ...]
    attempts: int


RequestReadContinuation = (
    ConfigurationRead
    | NotificationsFound
    | NotificationsRead
    | PreferredElectionsRead
    | StatesRefreshed
    | ProducerIdsRead
    | GhostsChecked
)
RequestWriteContinuation = (
    NotificationsDeleted
    | PreferredElectionsRemoved
    | IsrsAltered
    | ProducerIdsWritten
    | ControlProven
    | ForeignIsrMembersRemoved
)
