"""What is left to do in the course of one event, as values.

A task is run when its turn comes, and may put further tasks in front of the agenda, as a call would. Where it has to
ask ZooKeeper, it leaves a `continuations` value that says what the result is for. Because all of it is data, a
controller can be copied or killed between any two steps, and a step can be explained by printing what it waits for.

What concerns the cluster as a whole is here; `agenda_partitions`, `agenda_reassignment`, `agenda_deletion` and
`agenda_requests` have the tasks of their subjects, each with the continuations that belong to them.
"""

from __future__ import annotations

from dataclasses import dataclass

from lethe.controller.core.agenda_deletion import DeletionTask
from lethe.controller.core.agenda_partitions import PartitionTask, Replicas
from lethe.controller.core.agenda_power import PowerTask
from lethe.controller.core.agenda_reassignment import ReassignmentTask
from lethe.controller.core.agenda_requests import RequestTask
from lethe.controller.core.agenda_residence import ResidenceTask
from lethe.protocol.vocabulary import Broker, BrokerId

# --- tenure -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stand:
    """Look who is controller; be elected where nobody is, resign where it is no longer us."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Delete our `/controller` so that another controller takes over."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaveIfSettled:
    """Control is to be given up: do it where brokers have answered all that was waited for."""


# --- loading ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListNotifications:
    """Notifications written before our election are moot: all state is about to be read."""


@dataclass(frozen=True, slots=True)
class ReadStates:
    """Read the state znodes of all partitions that have no leadership in memory."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Everything is read: announce the brokers and start the replicas' state machine."""


@dataclass(frozen=True, slots=True)
class StartPartitions:
    """Start the partitions' state machine, then resume deletions."""


@dataclass(frozen=True, slots=True)
class BecomeActive:
    """The takeover is done; other events may come."""


# --- brokers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListBrokers:
    """Read who is registered; `loading` means that nobody was known before."""

    loading: bool = False


@dataclass(frozen=True, slots=True)
class ReadBroker:
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class BrokersFailed:
    """Brokers are gone, or were replaced by a new incarnation which is started next (`returned`)."""

    brokers: tuple[BrokerId, ...]
    returned: bool = False


@dataclass(frozen=True, slots=True)
class BrokersStarted:
    """Brokers have come, or come back under a new epoch."""

    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class TakeReplicasOffline:
    """These replicas can no longer be used, by broker or by log directory."""

    replicas: Replicas


@dataclass(frozen=True, slots=True)
class AnnounceBrokersUnlessElected:
    """Brokers must learn that one is gone, even where no leader was elected since."""

    elections_before: int


# --- topics -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListTopics:
    loading: bool = False


@dataclass(frozen=True, slots=True)
class ReadTopics:
    """Read these topics' znodes and take them in."""

    topics: tuple[str, ...]
    loading: bool = False


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Bring topics that have just been taken in into service."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadModifiedTopics:
    """Read the znodes of topics that we know and that somebody has written."""

    topics: tuple[str, ...]


# --- deletion -----------------------------------------------------------------------------------------------------


Task = (
    Stand
    | GiveUp
    | LeaveIfSettled
    | ListNotifications
    | ReadStates
    | TakeOver
    | StartPartitions
    | BecomeActive
    | ListBrokers
    | ReadBroker
    | BrokersFailed
    | BrokersStarted
    | TakeReplicasOffline
    | AnnounceBrokersUnlessElected
    | ListTopics
    | ReadTopics
    | CreateTopics
    | ReadModifiedTopics
    | PartitionTask
    | ReassignmentTask
    | DeletionTask
    | RequestTask
    | ResidenceTask
    | PowerTask
)
