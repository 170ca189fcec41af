"""What the result of the one outstanding read, write or probe is for, as values: see `agenda`.

Reads and writes have continuations of their own, so that a read cannot be issued with the continuation of a write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.controller.core.agenda_deletion import DeletionReadContinuation, DeletionWriteContinuation
from lethe.controller.core.agenda_partitions import (
    ElectLeaders,
    PartitionReadContinuation,
    Partitions,
    PartitionWriteContinuation,
    ShrinkIsr,
)
from lethe.controller.core.agenda_power import BrokersProbed, PowerReadContinuation, PowerWriteContinuation
from lethe.controller.core.agenda_reassignment import (
    AnnounceReassignments,
    LeadTargets,
    ReassignmentReadContinuation,
    ReassignmentWriteContinuation,
)
from lethe.controller.core.agenda_requests import RequestReadContinuation, RequestWriteContinuation
from lethe.controller.core.agenda_residence import ResidenceReadContinuation, ResidenceWriteContinuation
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


ReadContinuation = (
    ElectionLookedUp
    | NotificationsListed
    | StatesRead
    | ReplicasAnnounced
    | BrokersListed
    | BrokersRead
    | BrokerRead
    | TopicsListed
    | TopicsRead
    | ModifiedTopicsRead
    | StatesReread
    | PartitionReadContinuation
    | ReassignmentReadContinuation
    | DeletionReadContinuation
    | RequestReadContinuation
    | ResidenceReadContinuation
    | PowerReadContinuation
)
WriteContinuation = (
    EpochNodeCreated
    | ElectionWritten
    | ControllerTaken
    | GivenUp
    | TopicIdsWritten
    | TopicsRestored
    | PartitionWriteContinuation
    | ReassignmentWriteContinuation
    | DeletionWriteContinuation
    | RequestWriteContinuation
    | ResidenceWriteContinuation
    | PowerWriteContinuation
)


class AwaitedRead(NamedTuple):
    """The `ReadZnodes` that is outstanding, and what its result is for."""

    effect_id: int
    then: ReadContinuation


class AwaitedWrite(NamedTuple):
    """The `WriteZnodes` that is outstanding, and what its result is for."""

    effect_id: int
    then: WriteContinuation


class AwaitedProbes(NamedTuple):
    """The `ProbeBrokers` that is outstanding, and what its result is for."""

    effect_id: int
    then: BrokersProbed


Awaited = AwaitedRead | AwaitedWrite | AwaitedProbes
