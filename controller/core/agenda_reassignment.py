"""What is left to do about reassignments, and what the results are for, as values: see `agenda`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.controller.core.agenda_partitions import Partitions, Replicas
from lethe.protocol.vocabulary import LeaderAndIsr, TopicPartition


class Target(NamedTuple):
    """The replicas that somebody wants for a partition, preferred first."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReadReassignments:
    """Read what `/admin/reassign_partitions` asks for. `looked_for`: what it named when it was last written at this
    zxid has been looked for."""

    looked_for: int = -1


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


# --- what results are for ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReassignmentsRead:
    """`trimming`: only to take out what is done. `looked_for`: see `ReadReassignments`."""

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


ReassignmentReadContinuation = ReassignmentsRead
ReassignmentWriteContinuation = (
    ReassignmentsTrimmed
    | ReassignmentsStarted
    | ReassignmentsAnnounced
    | TargetsLed
    | ReassignmentsFinished
    | ReassignmentsEnded
)
