"""Tasks: the work that is left to do for one event, as values on a stack.

A task may put further tasks in front of the task stack, like a call. A task that reads or writes ZooKeeper sets a
`continuations` value: the code that gets the result. All of it is data, so a controller can be copied or killed
between any two steps.

    task stack                       what happens
    -------------------------------  ------------------------------------------------------------------------
    ListBrokers                      reads `/brokers/ids`; the step ends with the continuation BrokersListed
    BrokersStarted, BrokersFailed    added by the code that handles the registrations read next

Tasks of the cluster as a whole are here. `tasks_partitions`, `tasks_reassignment`, `tasks_deletion`,
`tasks_requests`, `tasks_advertising`, `tasks_power` and `tasks_trash` have the tasks and continuations of their
subjects.
"""

from __future__ import annotations

from dataclasses import dataclass

from lethe.controller.core.tasks_advertising import AdvertisingTask
from lethe.controller.core.tasks_clients import ClientTask
from lethe.controller.core.tasks_debts import DebtTask
from lethe.controller.core.tasks_deletion import DeletionTask
from lethe.controller.core.tasks_partitions import PartitionTask, Replicas
from lethe.controller.core.tasks_power import PowerTask
from lethe.controller.core.tasks_reassignment import ReassignmentTask
from lethe.controller.core.tasks_requests import RequestTask
from lethe.controller.core.tasks_trash import TrashTask
from lethe.protocol.vocabulary import Broker, BrokerId

# --- term -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StandForElection:
    """Read `/controller`: stand for election if it is free, resign if another controller holds it."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Delete this controller's `/controller`, so that another controller takes over."""

    reason: str


@dataclass(frozen=True, slots=True)
class ResignIfSettled:
    """Give control up if that was requested and brokers have answered the pending tombstones."""


# --- loading ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListNotifications:
    """List the notifications from before the election, to delete them unread: all state is read next."""


@dataclass(frozen=True, slots=True)
class ReadStates:
    """Read the state znodes of these topics' partitions that have no leadership in memory."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Brokers, topics and markers are read: announce the brokers, then the topics."""


@dataclass(frozen=True, slots=True)
class AnnounceTopics:
    """Read the states of these topics, and announce their replicas to the brokers. A slice: see `slices`."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServeAnnounced:
    """Start the state machines of these topics, which were announced in mid-term with the states that they had."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartReplicas:
    """All replicas are announced: take those on brokers that are not registered offline."""


@dataclass(frozen=True, slots=True)
class StartPartitions:
    """Start the partitions' state machine, then resume deletions."""


@dataclass(frozen=True, slots=True)
class BecomeActive:
    """The takeover is done."""


# --- brokers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListBrokers:
    """Read the registered brokers. `loading`: memory had no brokers before."""

    loading: bool = False


@dataclass(frozen=True, slots=True)
class ReadBroker:
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class BrokersFailed:
    """Brokers are gone. `returned`: they are back as a new incarnation, for which BrokersStarted follows."""

    brokers: tuple[BrokerId, ...]
    returned: bool = False


@dataclass(frozen=True, slots=True)
class BrokersStarted:
    """Brokers have registered, for the first time or under a new epoch."""

    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class TakeReplicasOffline:
    """These replicas are lost: their broker is gone, or their log directory has failed."""

    replicas: Replicas


@dataclass(frozen=True, slots=True)
class AnnounceBrokersUnlessElected:
    """Send brokers the list of live brokers, unless an election since then has done so."""

    elections_before: int


# --- topics -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListTopics:
    loading: bool = False


@dataclass(frozen=True, slots=True)
class ReadTopics:
    """Read these topics' znodes into memory."""

    topics: tuple[str, ...]
    loading: bool = False


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Bring into service topics that have just been read into memory."""

    topics: tuple[str, ...]
    may_have_states: bool = False
    """They were quarantined, so they may have been in service before: their states are read first."""


@dataclass(frozen=True, slots=True)
class ReadModifiedTopics:
    """Read again the znodes of known topics that have changed."""

    topics: tuple[str, ...]


# --- all ----------------------------------------------------------------------------------------------------------


Task = (
    StandForElection
    | GiveUp
    | ResignIfSettled
    | ListNotifications
    | ReadStates
    | TakeOver
    | AnnounceTopics
    | ServeAnnounced
    | StartReplicas
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
    | DebtTask
    | RequestTask
    | ClientTask
    | AdvertisingTask
    | PowerTask
    | TrashTask
)
