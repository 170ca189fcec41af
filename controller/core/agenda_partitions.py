"""What is left to do about partitions and replicas, and what the results are for, as values: see `agenda`."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.controller.core.election import Strategy
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.vocabulary import LeaderAndIsr, PartitionReplica, TopicPartition

Replicas = tuple[PartitionReplica, ...]
Partitions = tuple[TopicPartition, ...]


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
    from outside the ISR; None: not read yet. `fresh`: what memory knows has been read just now.
    """

    partitions: Partitions
    unclean_topics: tuple[str, ...] | None = None
    strategy: Strategy = Strategy.OFFLINE
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class MoveReplicas:
    replicas: Replicas
    target: ReplicaState


@dataclass(frozen=True, slots=True)
class ShrinkIsr:
    """Take replicas that went offline out of their partitions' ISR."""

    replicas: Replicas


PartitionTask = MovePartitions | BringOnline | InitializeLeadership | ElectLeaders | MoveReplicas | ShrinkIsr


# --- what results are for ---------------------------------------------------------------------------------------------


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


PartitionReadContinuation = UncleanConfigsRead
PartitionWriteContinuation = LeadershipPathsCreated | LeadershipInitialized | LeadersElected | IsrShrunk
