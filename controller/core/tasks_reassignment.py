"""Tasks and continuations for reassignments: see `tasks`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.controller.core.tasks_partitions import Partitions, Replicas
from lethe.protocol.vocabulary import LeaderAndIsr, TopicPartition


class Target(NamedTuple):
    """The requested replicas of a partition, preferred first."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReadReassignments:
    """Read `/admin/reassign_partitions`. `looked_for`: the topics in its version of this zxid have been read again."""

    looked_for: int = -1


@dataclass(frozen=True, slots=True)
class TrimReassignments:
    """Remove finished and void reassignments from `/admin/reassign_partitions`."""


@dataclass(frozen=True, slots=True)
class StartReassignments:
    """Write these targets into the topics' znodes and start. A target equal to the origin cancels.

    `evicts`: nobody asked for the targets; they move replicas off a controller. `may_wait`: a target that would lose
    records with the present ISR is held until it does not; False: it is dropped, and its client is answered."""

    targets: tuple[Target, ...]
    evicts: bool = False
    may_wait: bool = True


@dataclass(frozen=True, slots=True)
class ProgressReassignments:
    """Complete reassignments whose targets are in sync: of these partitions, or all (None).

    `announce`: announce the others to their replicas again (at the start, after a failover, when a broker returns)."""

    partitions: Partitions | None = None
    announce: bool = False


@dataclass(frozen=True, slots=True)
class AnnounceReassignments:
    """Raise the leader epochs of these partitions, and send LeaderAndIsr to origin and added replicas; to all replicas
    of those whose reassignment has ended. Topics that are queued for deletion are left out."""

    partitions: Partitions
    ended_only: bool = False
    """Leave out those that are being reassigned again."""


@dataclass(frozen=True, slots=True)
class LeadTargets:
    """The target replicas are in sync: make one of them leader, then remove the others."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class RetireReplicas:
    """Stop and delete these replicas, which are no longer assigned, without waiting for the answers."""

    replicas: Replicas


@dataclass(frozen=True, slots=True)
class FinishReassignments:
    """Write into the topics' znodes that these reassignments are complete."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class EndReassignments:
    """End the reassignments of topics marked for deletion: replicas of origin and target are all to be deleted."""

    topics: tuple[str, ...]
    loading: bool = False


ReassignmentTask = (
    ReadReassignments
    | TrimReassignments
    | StartReassignments
    | ProgressReassignments
    | AnnounceReassignments
    | LeadTargets
    | RetireReplicas
    | FinishReassignments
    | EndReassignments
)


# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReassignmentsRead:
    """`trimming`: read only to remove finished entries. `looked_for`: see `ReadReassignments`."""

    trimming: bool
    looked_for: int = -1


@dataclass(frozen=True, slots=True)
class ReassignmentsTrimmed:
    pass


@dataclass(frozen=True, slots=True)
class ReassignmentsStarted:
    """One outcome for each topic; `targets` are those of each topic."""

    topics: tuple[str, ...]
    targets: tuple[tuple[Target, ...], ...]
    evicts: bool = False
    may_wait: bool = True


@dataclass(frozen=True, slots=True)
class ReassignmentsAnnounced:
    partitions: Partitions
    leader_and_isr: tuple[LeaderAndIsr, ...]


@dataclass(frozen=True, slots=True)
class TargetsLed:
    partitions: Partitions
    leader_and_isr: tuple[LeaderAndIsr, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentsFinished:
    """One outcome for each topic; `partitions` are those of each topic."""

    topics: tuple[str, ...]
    partitions: tuple[Partitions, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentsEnded:
    topics: tuple[str, ...]
    loading: bool


ReassignmentReadContinuation = ReassignmentsRead
ReassignmentWriteContinuation = (
    ReassignmentsTrimmed
    | ReassignmentsStarted
    | ReassignmentsAnnounced
    | TargetsLed
    | ReassignmentsFinished
    | ReassignmentsEnded
)
