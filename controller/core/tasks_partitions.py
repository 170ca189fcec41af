"""Tasks and continuations for partitions and replicas: see `tasks`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lethe.controller.core.election import Strategy
from lethe.controller.core.partition_sets import PartitionColumns, ReplicaColumns
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.vocabulary import LeaderAndIsr, PartitionReplica, TopicPartition

Replicas = tuple[PartitionReplica, ...]
Partitions = tuple[TopicPartition, ...]
LeaderStates = Mapping[str, Mapping[int, LeaderAndIsr]]
"""Leadership by topic and partition."""


@dataclass(frozen=True, slots=True)
class MovePartitions:
    """Set the state of partitions to New, Offline or NonExistent, without further effects."""

    partitions: PartitionColumns
    target: PartitionState


@dataclass(frozen=True, slots=True)
class BringOnline:
    """Give New and Offline partitions a leader: these, or all (None). Queued topics are left out."""

    partitions: PartitionColumns | None = None


@dataclass(frozen=True, slots=True)
class InitializeLeaderAndIsr:
    """Write the first state of New partitions. A slice: see `slices`."""

    partitions: PartitionColumns


@dataclass(frozen=True, slots=True)
class CompletePartitions:
    """Write the first state of New partitions whose own znode exists."""

    partitions: PartitionColumns


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Elect leaders from memory by the strategy, and write them. A state that has changed in ZooKeeper is read again.

    Partitions without leadership and those of queued topics are left out. The context shows the result.

    `unclean_topics`, for Strategy.OFFLINE only: topics whose configuration was read and allows a leader from outside
    the ISR; None: not read yet. `fresh`: the states in memory have just been read.
    """

    partitions: PartitionColumns
    unclean_topics: tuple[str, ...] | None = None
    strategy: Strategy = Strategy.OFFLINE
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class MoveReplicas:
    replicas: ReplicaColumns
    target: ReplicaState


@dataclass(frozen=True, slots=True)
class ShrinkIsr:
    """Remove replicas that went offline from the ISRs of their partitions."""

    replicas: ReplicaColumns


PartitionTask = (
    MovePartitions | BringOnline | InitializeLeaderAndIsr | CompletePartitions | ElectLeaders | MoveReplicas | ShrinkIsr
)


# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaderAndIsrPathsCreated:
    partitions: PartitionColumns


@dataclass(frozen=True, slots=True)
class LeaderAndIsrInitialized:
    """`state_only`: the partition's own znode existed, so only the state below it was written."""

    states: LeaderStates
    state_only: bool


@dataclass(frozen=True, slots=True)
class LeadersElected:
    """`unclean`: partitions whose leader is from outside the ISR."""

    states: LeaderStates
    unclean: PartitionColumns
    strategy: Strategy


@dataclass(frozen=True, slots=True)
class UncleanConfigsRead:
    """After reading the topic configurations that decide whether an unclean election is allowed."""

    partitions: PartitionColumns
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IsrShrunk:
    """`replicas`: all that go offline, also those of partitions without a write."""

    states: LeaderStates
    replicas: ReplicaColumns


PartitionReadContinuation = UncleanConfigsRead
PartitionWriteContinuation = LeaderAndIsrPathsCreated | LeaderAndIsrInitialized | LeadersElected | IsrShrunk
