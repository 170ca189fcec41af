"""What the result of the one outstanding read or write is for, as values: see `agenda`."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.controller.core.agenda_deletion import DeletionContinuation
from lethe.controller.core.agenda_partitions import ElectLeaders, PartitionContinuation, Partitions, ShrinkIsr
from lethe.controller.core.agenda_power import PowerContinuation
from lethe.controller.core.agenda_reassignment import AnnounceReassignments, LeadTargets, ReassignmentContinuation
from lethe.controller.core.agenda_requests import RequestContinuation
from lethe.controller.core.agenda_residence import ResidenceContinuation
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch, TopicId

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
class ControllerTaken:
    """After the multi that puts our `/controller` in the place of another's; the epoch is not raised yet."""

    epoch: ControllerEpoch


@dataclass(frozen=True, slots=True)
class GivenUp:
    reason: str


# --- loading ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotificationsListed:
    pass


@dataclass(frozen=True, slots=True)
class StatesRead:
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ReplicasAnnounced:
    """After every replica was announced to its broker. What is read does not matter: the step was to end there."""


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
class StatesReread:
    """After a version that was not the expected one: take in what is there, then do the task again."""

    partitions: Partitions
    again: ElectLeaders | ShrinkIsr | AnnounceReassignments | LeadTargets


Continuation = (
    ElectionLookedUp
    | EpochNodeCreated
    | ElectionWritten
    | ControllerTaken
    | GivenUp
    | NotificationsListed
    | StatesRead
    | ReplicasAnnounced
    | BrokersListed
    | BrokersRead
    | BrokerRead
    | TopicsListed
    | TopicsRead
    | TopicIdsWritten
    | ModifiedTopicsRead
    | TopicsRestored
    | StatesReread
    | PartitionContinuation
    | ReassignmentContinuation
    | DeletionContinuation
    | RequestContinuation
    | ResidenceContinuation
    | PowerContinuation
)
