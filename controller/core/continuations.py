"""What the result of the one outstanding read or write is for, as values: see `agenda`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from controller.core.agenda import (
    AnnounceReassignments,
    ElectLeaders,
    LeadTargets,
    Partitions,
    Replicas,
    ShrinkIsr,
    Target,
    TopicTree,
)
from controller.core.agenda_requests import Notification
from controller.core.election import Strategy
from protocol.kafka.errors import ErrorCode
from protocol.vocabulary import BrokerId, ControllerEpoch, LeaderAndIsr, TopicId
from protocol.zookeeper.operations import Operation

# --- tenure -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ElectionLookedUp:
    """After reading `/controller`, `/controller_epoch` and `/migration`."""


@dataclass(frozen=True, slots=True)
class EpochNodeCreated:
    """After creating `/controller_epoch`."""


@dataclass(frozen=True, slots=True)
class ElectionWritten:
    """After the multi that creates `/controller` and raises the epoch."""

    new_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True)
class GivenUp:
    reason: str


# --- loading ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotificationsListed:
    pass


@dataclass(frozen=True, slots=True)
class NotificationsDeleted:
    pass


@dataclass(frozen=True, slots=True)
class StatesRead:
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ConfigurationRead:
    loading: bool


# --- notifications ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotificationsFound:
    kind: Notification


@dataclass(frozen=True, slots=True)
class NotificationsRead:
    kind: Notification
    paths: tuple[str, ...]


# --- preferred leaders --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreferredElectionsRead:
    pass


@dataclass(frozen=True, slots=True)
class PreferredElectionsRemoved:
    pass


# --- brokers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokersListed:
    loading: bool


@dataclass(frozen=True, slots=True)
class BrokersRead:
    loading: bool
    ids: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class BrokerRead:
    broker: BrokerId


# --- topics -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicsListed:
    loading: bool


@dataclass(frozen=True, slots=True)
class TopicsRead:
    topics: tuple[str, ...]
    loading: bool


@dataclass(frozen=True, slots=True)
class TopicIdsWritten:
    topics: tuple[str, ...]
    ids: tuple[TopicId, ...]
    loading: bool


@dataclass(frozen=True, slots=True)
class ModifiedTopicsRead:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicsRestored:
    """After writing into topics' znodes again what must be in them."""

    topics: tuple[str, ...]


# --- partitions and replicas --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeadershipPathsCreated:
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class LeadershipInitialized:
    """`state_only`: the partition's own znode was there already, so that only the state below it was written."""

    partitions: Partitions
    leadership: tuple[LeaderAndIsr, ...]
    state_only: bool


@dataclass(frozen=True, slots=True)
class LeadersElected:
    partitions: Partitions
    leadership: tuple[LeaderAndIsr, ...]
    unclean: tuple[bool, ...]
    strategy: Strategy


@dataclass(frozen=True, slots=True)
class UncleanConfigsRead:
    """After reading the topic configurations that decide whether an unclean election is allowed."""

    partitions: Partitions
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IsrShrunk:
    """`unchanged`: replicas for which nothing had to be written and which go offline with the others."""

    partitions: Partitions
    leadership: tuple[LeaderAndIsr, ...]
    replicas: tuple[Replicas, ...]
    unchanged: Replicas


@dataclass(frozen=True, slots=True)
class StatesReread:
    """After a version that was not the expected one: take in what is there, then do the task again."""

    partitions: Partitions
    again: ElectLeaders | ShrinkIsr | AnnounceReassignments | LeadTargets


# --- requests of brokers ------------------------------------------------------------------------------------------


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


# --- reassignment -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReassignmentsRead:
    """`trimming`: only to take out what is done."""

    trimming: bool


@dataclass(frozen=True, slots=True)
class ReassignmentsTrimmed:
    pass


@dataclass(frozen=True, slots=True)
class ReassignmentsStarted:
    """One outcome for each topic; `targets` are those of each topic."""

    topics: tuple[str, ...]
    targets: tuple[tuple[Target, ...], ...]


@dataclass(frozen=True, slots=True)
class ReassignmentsAnnounced:
    partitions: Partitions
    leadership: tuple[LeaderAndIsr, ...]


@dataclass(frozen=True, slots=True)
class TargetsLed:
    partitions: Partitions
    leadership: tuple[LeaderAndIsr, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentsFinished:
    """One outcome for each topic; `partitions` are those of each topic."""

    topics: tuple[str, ...]
    partitions: tuple[Partitions, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentsEnded:
    topics: tuple[str, ...]
    loading: bool


# --- deletion -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeletionsListed:
    loading: bool


@dataclass(frozen=True, slots=True)
class PauseRead:
    loading: bool


@dataclass(frozen=True, slots=True)
class MarkersRead:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnreadableRead:
    topics: tuple[str, ...]


class UnreadableTopic(NamedTuple):
    """A topic of which only its partitions are known, and which znode it was that could not be understood."""

    name: str
    partitions: tuple[int, ...]
    version: int
    created_zxid: int


@dataclass(frozen=True, slots=True)
class UnreadableStatesRead:
    topics: tuple[UnreadableTopic, ...]


@dataclass(frozen=True, slots=True)
class MarkersRemoved:
    topics: tuple[str, ...]
    with_config: bool = False


@dataclass(frozen=True, slots=True)
class TopicsRemoved:
    """`parts` counts the groups of each topic, in order; `searched`: they were derived from the tree as it was found,
    not from memory."""

    topics: tuple[str, ...]
    parts: tuple[int, ...]
    last: tuple[tuple[Operation, ...], ...]
    """What is to follow for the topics too large for one multi: their own znode, configuration and marker."""
    searched: bool = False


@dataclass(frozen=True, slots=True)
class TopicTreesSearched:
    trees: tuple[TopicTree, ...]


Continuation = (
    ElectionLookedUp
    | EpochNodeCreated
    | ElectionWritten
    | GivenUp
    | NotificationsListed
    | NotificationsDeleted
    | StatesRead
    | ConfigurationRead
    | NotificationsFound
    | NotificationsRead
    | PreferredElectionsRead
    | PreferredElectionsRemoved
    | BrokersListed
    | BrokersRead
    | BrokerRead
    | TopicsListed
    | TopicsRead
    | TopicIdsWritten
    | ModifiedTopicsRead
    | TopicsRestored
    | LeadershipPathsCreated
    | LeadershipInitialized
    | LeadersElected
    | UncleanConfigsRead
    | IsrShrunk
    | StatesReread
    | IsrsAltered
    | StatesRefreshed
    | ReassignmentsRead
    | ReassignmentsTrimmed
    | ReassignmentsStarted
    | ReassignmentsAnnounced
    | TargetsLed
    | ReassignmentsFinished
    | ReassignmentsEnded
    | DeletionsListed
    | PauseRead
    | MarkersRead
    | UnreadableRead
    | UnreadableStatesRead
    | MarkersRemoved
    | TopicsRemoved
    | TopicTreesSearched
)
