"""Continuations, as values: they select the code that handles an outstanding read, write or probe (`results`).

Reads and writes have separate types, so that a read cannot be issued with the continuation of a write.

    step.read([GetChildren("/brokers/ids")], BrokersListed(loading=False))    result: `brokers.on_brokers_listed`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.controller.core.partition_sets import PartitionColumns
from lethe.controller.core.tasks_advertising import AdvertisingReadContinuation, AdvertisingWriteContinuation
from lethe.controller.core.tasks_clients import ClientReadContinuation, ClientWriteContinuation
from lethe.controller.core.tasks_debts import DebtReadContinuation, DebtWriteContinuation
from lethe.controller.core.tasks_deletion import DeletionReadContinuation, DeletionWriteContinuation
from lethe.controller.core.tasks_partitions import (
    ElectLeaders,
    PartitionReadContinuation,
    Partitions,
    PartitionWriteContinuation,
    ShrinkIsr,
)
from lethe.controller.core.tasks_power import BrokersProbed, PowerReadContinuation, PowerWriteContinuation
from lethe.controller.core.tasks_reassignment import (
    AnnounceReassignments,
    LeadTargets,
    ReassignmentReadContinuation,
    ReassignmentWriteContinuation,
)
from lethe.controller.core.tasks_requests import RequestReadContinuation, RequestWriteContinuation
from lethe.controller.core.tasks_trash import TrashReadContinuation, TrashWriteContinuation
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch, TopicId

# --- term -------------------------------------------------------------------------------------------------------


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
    before_zxid: int | None = None
    """The zxid of the write of `/controller_epoch` before it; None: control was taken."""


@dataclass(frozen=True, slots=True)
class ControllerTaken:
    """After the multi that replaces another controller's `/controller`; the epoch is not raised yet."""

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
    """After reading the states of these partitions; then these topics are announced."""

    partitions: PartitionColumns
    announced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicasAnnounced:
    """After every replica was announced to its broker. The read only ends the step; its result is not used."""


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
    """After restoring required data in topics' znodes."""

    topics: tuple[str, ...]


# --- partitions and replicas --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StatesReread:
    """After reading states that had an unexpected version: store them, then repeat the task."""

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
    | DebtReadContinuation
    | RequestReadContinuation
    | ClientReadContinuation
    | AdvertisingReadContinuation
    | PowerReadContinuation
    | TrashReadContinuation
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
    | DebtWriteContinuation
    | RequestWriteContinuation
    | ClientWriteContinuation
    | AdvertisingWriteContinuation
    | PowerWriteContinuation
    | TrashWriteContinuation
)


class AwaitedRead(NamedTuple):
    """An outstanding `ReadZnodes` and its continuation."""

    effect_id: int
    then: ReadContinuation


class AwaitedWrite(NamedTuple):
    """An outstanding `WriteZnodes` and its continuation."""

    effect_id: int
    then: WriteContinuation


class AwaitedProbes(NamedTuple):
    """The outstanding `ProbeBrokers` and its continuation."""

    effect_id: int
    then: BrokersProbed


Awaited = AwaitedRead | AwaitedWrite | AwaitedProbes
