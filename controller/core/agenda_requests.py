"""What is left to do about what brokers and tools ask for or announce, and what the results are for, as values: see
`agenda`."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from lethe.controller.core.agenda_partitions import Partitions
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import ControllerResponse
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, PartitionReplica, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.znodes import ProducerIdBlock

# --- configuration ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadConfiguration:
    """Read what is configured in ZooKeeper for all brokers and for us, and be told of changes."""

    loading: bool = False


# --- notifications ----------------------------------------------------------------------------------------------------


class Notification(enum.Enum):
    """What brokers announce by sequential znodes, by the parent of these znodes."""

    ISR_CHANGE = paths.isr_change_notifications()
    LOG_DIR_EVENT = paths.log_dir_event_notifications()
    CONFIG_CHANGE = paths.config_changes()


@dataclass(frozen=True, slots=True)
class ReadNotifications:
    """Read what has been announced, and be told of more."""

    kind: Notification


@dataclass(frozen=True, slots=True)
class DeleteNotifications:
    """They have been read, and understood or not."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckLogDirs:
    """Have these brokers, which have lost log directories, say which replicas they can still reach."""

    brokers: tuple[BrokerId, ...]


# --- preferred leaders ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadPreferredElections:
    """Read which partitions somebody wants to be led by their preferred replicas, and be told of more."""


@dataclass(frozen=True, slots=True)
class RemovePreferredElections:
    """The request has been tried once, which is all that is promised."""

    version: int


# --- requests of brokers ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControlShutdown:
    """Relieve the broker that asks, under this key, to stop."""

    key: int


@dataclass(frozen=True, slots=True)
class StopFollowers:
    """The leaving broker is to fetch no more for these replicas, before they leave their ISRs."""

    replicas: tuple[PartitionReplica, ...]


@dataclass(frozen=True, slots=True)
class AnswerControlledShutdown:
    """Tell the leaving broker what it still leads."""

    key: int


@dataclass(frozen=True, slots=True)
class AlterPartitions:
    """Write the ISRs that the leader that asks, under this key, wants for its partitions."""

    key: int


@dataclass(frozen=True, slots=True)
class RefreshStates:
    """Somebody else has written these partitions' states: read them again and tell everybody."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    """Claim the next block of producer ids for the broker that asks under this key."""

    key: int


@dataclass(frozen=True, slots=True)
class AnswerAsController:
    """Answer the request under this key, for which nothing was written, once it is certain that we are in charge."""

    key: int
    response: ControllerResponse


@dataclass(frozen=True, slots=True)
class DropStrangers:
    """Write the states of those of these partitions whose ISRs name brokers that are no replicas."""

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
    | DropStrangers
)


# --- what results are for ---------------------------------------------------------------------------------------------


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
    """`verdicts`: what is to be answered where nothing had to be written; None: what the write says."""

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
    """After a write of nothing: the fence has held, or the tenure is over."""

    key: int
    response: ControllerResponse


@dataclass(frozen=True, slots=True)
class StrangersDropped:
    partitions: Partitions
    leadership: tuple[LeaderAndIsr, ...]


@dataclass(frozen=True, slots=True)
class GhostsChecked:
    """After reading the znodes of topics that a broker's metadata cache shows and no controller has loaded so."""

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
    | StrangersDropped
)
