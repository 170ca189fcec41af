"""What is left to do in the course of one event, as values.

A task is run when its turn comes, and may put further tasks in front of the agenda, as a call would. Where it has to
ask ZooKeeper, it leaves a `continuations` value that says what the result is for. Because all of it is data, a
controller can be copied or killed between any two steps, and a step can be explained by printing what it waits for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from controller.core.agenda_requests import RequestTask
from controller.core.election import Strategy
from controller.core.transitions import PartitionState, ReplicaState
from protocol.vocabulary import Broker, BrokerId, PartitionReplica, TopicPartition

Replicas = tuple[PartitionReplica, ...]
Partitions = tuple[TopicPartition, ...]

# --- tenure -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stand:
    """Look who is controller; be elected where nobody is, resign where it is no longer us."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Delete our `/controller` so that another controller takes over."""

    reason: str


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
    """Brokers are gone, or were replaced by a new incarnation which is started next."""

    brokers: tuple[BrokerId, ...]


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


# --- partitions and replicas --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MovePartitions:
    """To New, Offline or NonExistent: nothing but the state changes."""

    partitions: Partitions
    target: PartitionState


@dataclass(frozen=True, slots=True)
class BringOnline:
    """Give New and Offline partitions a leader: these, or all where None is given. Queued topics are left out."""

    partitions: Partitions | None = None


@dataclass(frozen=True, slots=True)
class InitializeLeadership:
    """Write the first state of New partitions."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Elect from what memory knows, by the strategy, and write; what memory did not know is read again.

    Partitions without leadership and those of queued topics are left out. Who has a leader afterwards is seen in the
    context. `unclean_topics`, with the offline strategy only: their configuration has been read and allows a leader
    from outside the ISR; None: not read yet.
    """

    partitions: Partitions
    unclean_topics: tuple[str, ...] | None = None
    strategy: Strategy = Strategy.OFFLINE


@dataclass(frozen=True, slots=True)
class MoveReplicas:
    replicas: Replicas
    target: ReplicaState


@dataclass(frozen=True, slots=True)
class ShrinkIsr:
    """Take replicas that went offline out of their partitions' ISR."""

    replicas: Replicas


# --- reassignment -------------------------------------------------------------------------------------------------


class Target(NamedTuple):
    """The replicas that somebody wants for a partition, preferred first."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReadReassignments:
    """Read what `/admin/reassign_partitions` asks for."""


@dataclass(frozen=True, slots=True)
class TrimReassignments:
    """Take out of `/admin/reassign_partitions` what is done or moot."""


@dataclass(frozen=True, slots=True)
class StartReassignments:
    """Write these targets into the topics' znodes and set out; the origin as target cancels."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class ProgressReassignments:
    """Complete what can be completed of these partitions' reassignments, of all where None is given.

    `announce`: tell the replicas of the others again who is being added (at the start, after a failover, and when a
    broker has come back)."""

    partitions: Partitions | None = None
    announce: bool = False


@dataclass(frozen=True, slots=True)
class AnnounceReassignments:
    """Raise the leader epochs of these partitions, and tell origin and added replicas."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class LeadTargets:
    """The target replicas are in sync: have one of them lead, then take the others out of service."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class RetireReplicas:
    """Stop and delete these replicas, which are in no assignment any more; nobody waits for the answers."""

    replicas: Replicas


@dataclass(frozen=True, slots=True)
class FinishReassignments:
    """Write into the topics' znodes that these partitions have arrived."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class EndReassignments:
    """Topics marked for deletion are not moved any further: every replica, of origin and target, is to be deleted."""

    topics: tuple[str, ...]
    loading: bool = False


# --- deletion -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListDeletions:
    """Read which topics are marked."""

    loading: bool = False


@dataclass(frozen=True, slots=True)
class ReadPause:
    """Read whether deletions are paused."""

    loading: bool = False


@dataclass(frozen=True, slots=True)
class QueueDeletions:
    """These topics are marked: queue those that may go now, hold the others, and go on with those that are queued
    (except while `loading`)."""

    topics: tuple[str, ...]
    loading: bool = False


@dataclass(frozen=True, slots=True)
class ReadMarkers:
    """Read whether the markers of these unreadable topics order their deletion all the same."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadUnreadable:
    """Find out what there is of these topics, whose own znodes say nothing, and queue them."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettleUnknownMarkers:
    """The topics have been read again after these markers were: a topic that is still unknown is not there.

    `with_config`: its configuration goes too, as when a controller died between the topic and its configuration.
    """

    topics: tuple[str, ...]
    with_config: bool


@dataclass(frozen=True, slots=True)
class ResumeDeletions:
    """Do for these queued topics what can be done now; `unblock`: what held them back may have changed."""

    topics: tuple[str, ...]
    unblock: bool = False


@dataclass(frozen=True, slots=True)
class FailReplicaDeletions:
    """These replicas of queued topics cannot be deleted now."""

    replicas: Replicas


@dataclass(frozen=True, slots=True)
class RemoveTopics:
    """Every replica has acknowledged and every cache was told: the znodes go, as memory believes them to be."""

    topics: tuple[str, ...]


class TopicTree(NamedTuple):
    """Which znodes of a topic have been found so far, parents first, and which are to be looked at next."""

    topic: str
    found: tuple[str, ...]
    level: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchTopicTrees:
    """Find out which znodes these topics really have, level by level for all together, and remove those."""

    trees: tuple[TopicTree, ...]


Task = (
    Stand
    | GiveUp
    | ListNotifications
    | ReadStates
    | TakeOver
    | StartPartitions
    | BecomeActive
    | RequestTask
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
    | MovePartitions
    | BringOnline
    | InitializeLeadership
    | ElectLeaders
    | MoveReplicas
    | ShrinkIsr
    | ReadReassignments
    | TrimReassignments
    | StartReassignments
    | ProgressReassignments
    | AnnounceReassignments
    | LeadTargets
    | RetireReplicas
    | FinishReassignments
    | EndReassignments
    | ListDeletions
    | ReadPause
    | QueueDeletions
    | ReadMarkers
    | ReadUnreadable
    | SettleUnknownMarkers
    | ResumeDeletions
    | FailReplicaDeletions
    | RemoveTopics
    | SearchTopicTrees
)
