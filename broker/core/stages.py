"""Stages: what a control request waits for while the disk or ZooKeeper works for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.broker.core.effects import DiskOperation, FillReplica, RenameForDeletion
from lethe.broker.core.identity import OpenVerdict, StopVerdict
from lethe.broker.core.inputs import FoundDebt
from lethe.protocol.kafka.control import LeaderAndIsrPartition, LeaderAndIsrRequest, StopReplicaRequest
from lethe.protocol.vocabulary import BrokerEpoch, TopicId, TopicPartition


@dataclass(frozen=True, slots=True)
class FillStage:
    """Followers that have caught up are being filled."""

    operations: tuple[FillReplica, ...]


class Opening(NamedTuple):
    """A partition to be opened."""

    row: int
    topic_partition: TopicPartition
    topic_id: TopicId | None
    partition: LeaderAndIsrPartition
    verdict: OpenVerdict


@dataclass(frozen=True, slots=True)
class LeaderAndIsrStage:
    """A request that waits for its round on disk."""

    token: int
    request: LeaderAndIsrRequest
    errors: tuple[int, ...]
    """One per partition of the request, in its order; that of an opening is not final."""
    openings: tuple[Opening, ...]
    operations: tuple[DiskOperation, ...]
    """The round in flight."""
    performed_for: tuple[int, ...]
    """For each operation the index of its opening; a replica that leads is made and filled by two operations."""
    setting_aside: bool


@dataclass(frozen=True, slots=True)
class DebtStage:
    """Directories that this broker owes are being renamed."""

    debts: tuple[FoundDebt, ...]
    payable: tuple[FoundDebt, ...]
    operations: tuple[RenameForDeletion, ...]


class Deletion(NamedTuple):
    """A directory to be renamed, for deletion or quarantine. A partition may have several."""

    topic_partition: TopicPartition
    log_dir: str
    verdict: StopVerdict


@dataclass(frozen=True, slots=True)
class StopReplicaStage:
    """A request that waits: for topic ids while `asked` is not empty, else for its operations on disk."""

    token: int
    request: StopReplicaRequest
    broker_epoch: BrokerEpoch
    """The one that the request names."""
    errors: dict[TopicPartition, int]
    """Not changed after the stage is made. That of a deletion is not final."""
    deletions: tuple[Deletion, ...]
    asked: tuple[str, ...] = ()
    operations: tuple[DiskOperation, ...] = ()
    """One for each deletion."""
