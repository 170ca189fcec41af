"""The controller's memory of marked topics, and of topics that are queued for deletion."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.control import UpdateMetadataTopic
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, PartitionReplica
from lethe.protocol.zookeeper.znodes import DeletionOrders


@dataclass(frozen=True, slots=True)
class DeletionProblem:
    """Why the last attempt to delete a replica, or a topic's znodes, failed."""

    what: str
    """Kafka's or ZooKeeper's error name, or a text of our own without such an error."""
    since_ms: int
    attempts: int
    last_ms: int
    """When it was last seen."""

    @classmethod
    def met(cls, before: DeletionProblem | None, what: str, now_ms: int) -> DeletionProblem:
        """Return the problem as seen now; `before`: the stored problem of the same thing, if any."""
        return cls(what, before.since_ms if before else now_ms, before.attempts + 1 if before else 1, now_ms)


class Tombstone(NamedTuple):
    """UpdateMetadata with leader -2 that was sent to this broker incarnation."""

    broker_epoch: BrokerEpoch
    request_id: int


@dataclass(slots=True)
class TombstoneRound:
    """The tombstones of topics that brokers were sent in the same requests; `tombstones` writes it."""

    topics: dict[str, None]
    owing: dict[BrokerId, Tombstone] = field(default_factory=dict)
    """The tombstone of each broker whose metadata cache may still show the topics."""
    answered: dict[BrokerId, Tombstone] = field(default_factory=dict)
    """The tombstone of each broker that has answered it without an error."""


class OwedTombstone(NamedTuple):
    """A tombstone that one broker has not confirmed, of a topic without znodes."""

    since_ms: int
    """When the znodes were removed."""
    request_id: int
    """The latest request with the tombstone; answered with an error, or not answered."""
    row: UpdateMetadataTopic
    """The tombstone, to be sent again after an error. The brokers' entries share this object."""
    in_trash: bool = False
    """The topic was in the trash at the takeover, and the new controller has sent the tombstone once more."""


@dataclass(slots=True)
class OwingBroker:
    """A broker that owes answers to tombstones; `owed` writes it."""

    topics: dict[str, OwedTombstone] = field(default_factory=dict)
    """By topic name, oldest first; never empty between two steps."""
    in_trash: int = 0
    """How many of them are of topics in the trash: the limit is for the others."""
    problem: DeletionProblem | None = None
    """The latest error that the broker answered, if any."""
    retry_at_ms: int | None = None
    """When the tombstones are sent again after that error."""

    @property
    def since_ms(self) -> int:
        """Return when the broker's oldest debt began."""
        return next(iter(self.topics.values())).since_ms


@dataclass(slots=True)
class LogDirsQuery:
    """A DescribeLogDirs that was sent, and the fence behind it: see `evidence`."""

    request_id: int
    fence_id: int
    is_healthy: bool = False
    """It was answered, and every log directory works."""


class UnprovenStop(NamedTuple):
    """A StopReplica that was answered with NONE, and whose proof by log directories is outstanding."""

    request_id: int
    replicas: tuple[PartitionReplica, ...]


@dataclass(slots=True)
class LogDirEvidence:
    """Evidence about the log directories of one broker incarnation."""

    must_announce: bool = False
    """The log directories did not all prove to work: replicas to be deleted are announced by LeaderAndIsr."""
    looks: list[LogDirsQuery] = field(default_factory=list)
    """Looks whose fence is not answered yet, oldest first."""
    unproven: list[UnprovenStop] = field(default_factory=list)


@dataclass(slots=True)
class Removals:
    """Topics whose znodes are removed next or now: see `removal`."""

    waiting: dict[str, None] = field(default_factory=dict)
    """Topics whose removal is not written yet, oldest first."""
    under_way: dict[str, None] = field(default_factory=dict)
    """Topics in outstanding writes. Their znodes may exist, be gone, or be those of topics that were made again."""
    modified: dict[str, None] = field(default_factory=dict)
    """Topics under way whose znode was modified; it is not watched any more."""
    missing: dict[str, None] = field(default_factory=dict)
    """Topics under way that the last list of topics did not have; no watch reports their end any more."""
    look_again: bool = False
    """Topics and markers are to be listed once an outcome is there, or a pause is over: see `relisting`."""
    listed_at_ms: int | None = None
    """When topics or markers were listed last."""
    ended_since: bool = False
    """A removal's outcome has come since then."""
    reassignments_kept: bool = False
    """A reassignment is requested of a topic under way: the requests are read again once an outcome is there."""
    alterations: list[int] = field(default_factory=list)
    """Keys of AlterPartitionReassignments requests that wait for an outcome, because they would change that list."""
    then_resign: str | None = None
    """Why control is given up after the outstanding writes; None: it is not."""

    def end(self, name: str) -> None:
        """Its removal has ended, or another topic has its name: what happened meanwhile does not matter any more."""
        self.modified.pop(name, None)
        self.missing.pop(name, None)


METADATA_CACHE: Final = -1
"""Partition number that stands for a broker's metadata cache in a deletion's problems."""


NOT_WAITED_FOR: Final = (ReplicaState.DELETION_SUCCESSFUL, ReplicaState.DELETION_OWED)
"""States of a queued topic's replicas that its deletion does not wait for."""
NO_ORDERS: Final = DeletionOrders()

REFUSED: Final = (
    CauseKind.DISABLED,
    CauseKind.PROTECTED,
    CauseKind.OTHER_INCARNATION,
    CauseKind.MARKER_WITHOUT_TOPIC,
)
"""Causes that last until the marker is removed, and are recorded as refusals."""
DELETING: Final = "deleting the topic"
"""The refused action in such an event record."""
KEEPING: Final = "keeping the topic"
"""The refused action in the event record of a topic whose znode another process removed."""
PAUSED: Final = "deletions are paused"
RESUMED: Final = "deletions go on"
"""What happened, in the event records of a pause. Old journals contain these texts: never change one."""
DISABLED: Final = "delete.topic.enable is false"
PROTECTED: Final = "the topic is protected"
OTHER_INCARNATION: Final = "its marker names an earlier topic of this name"
NO_SUCH_TOPIC: Final = "there is no such topic; its marker is removed"
REFUSAL_REASONS: Final = MappingProxyType(
    {
        DISABLED: "DISABLED",
        PROTECTED: "PROTECTED",
        OTHER_INCARNATION: CauseKind.OTHER_INCARNATION.name,
        NO_SUCH_TOPIC: "NO_TOPIC",
    }
)
"""Why a marker was removed without deleting a topic, as event records say it, and the label of the metric."""
LET_GO: Final = "let go"
"""Last phase of a held topic whose marker was removed."""
VANISHED: Final = "vanished"
"""Last phase of a deletion or hold whose topic was removed from ZooKeeper by others."""


class HeldTopic(NamedTuple):
    """A marked topic that is held: unchanged, and in service if it was."""

    since_ms: int
    """When this controller first saw the marker."""
    held_by: CauseKind
    """A cause with a `held_code`."""
    last_error: str | None = None


class DeletionPause(NamedTuple):
    """A pause: no topic is newly queued, and nothing is sent or removed for queued topics."""

    since_ms: int
    reason: str
    held_by: CauseKind
    """RESUMPTION: a user paused them. CONFIGURATION: it is unknown whether topics may be deleted."""
    path: str
    """The znode that orders the pause, or that could not be read."""


PAUSES: Final = (CauseKind.RESUMPTION, CauseKind.CONFIGURATION)
"""Causes of a pause."""


class RefusedMark(NamedTuple):
    """A marker that the controller removed while the topic stayed, or without a topic."""

    at_ms: int
    why: str
    cause: CauseKind = CauseKind.REFUSED
    detail: str | None = None
    """The pattern that protects the topic."""


class DeletionStage(enum.Enum):
    """Progress of a queued topic's deletion."""

    QUEUED = "queued"
    """No request was sent for it yet."""
    DELETING = "deleting"
    """Out of service; brokers were sent the deletion of its replicas."""
    WAITING = "waiting"
    """Ineligible: no request is sent for it until the cause changes or a timer fires."""
    REMOVING = "removing"
    """Every replica is deleted; waits for answers to the tombstone, or removes the znodes."""


class RetriedAction(enum.Enum):
    """The part of a deletion that failed and is retried."""

    REPLICA = "replica"
    TOMBSTONE = "tombstone"
    ZNODES = "znodes"


@dataclass(slots=True)
class Deletion:
    """A topic queued for deletion. Only `mutation` writes the fields that `stage` and `by_state` depend on."""

    queued_at_ms: int
    marked_at_ms: int
    """When the marker was created, by ZooKeeper's clock, never in the future; else when it was first seen."""
    started_at_ms: int | None = None
    """When its partitions were first taken out of service."""
    asked_at_ms: int | None = None
    """When StopReplica was last sent."""
    attempts: int = 0
    """Number of rounds of StopReplica with delete."""
    ineligible: bool = False
    """No new round starts until the cause of the wait has changed."""
    round_is_due: bool = False
    """A cause has changed while answers were outstanding: a new round starts after them, even if another cause has made
    the topic ineligible since."""
    retry_at_ms: int | None = None
    """When the next retry is due; None: it waits for a change."""
    orders: DeletionOrders = NO_ORDERS
    """What the marker's data ordered when it was last read."""
    orders_watched: bool = False
    """The marker's data is watched: the topic has waited for an absent broker."""
    orders_missed: bool = False
    """The watched marker was gone when it was last read: one that is created anew is to be read."""
    by_state: dict[ReplicaState, int] = field(default_factory=dict)
    """Number of replicas in each state; kept by `mutation`."""
    problems: dict[tuple[int, int], DeletionProblem] = field(default_factory=dict)
    """The latest problem by (partition or METADATA_CACHE, broker)."""
    tombstones: TombstoneRound | None = None
    """Who has answered the tombstone; None: it was not sent."""
    tombstoned_at_ms: int | None = None
    acknowledged_at_ms: int | None = None
    znode_problem: DeletionProblem | None = None

    @property
    def stage(self) -> DeletionStage:
        if self.ineligible:
            return DeletionStage.WAITING
        if self.acknowledged_at_ms is not None:
            return DeletionStage.REMOVING
        return DeletionStage.QUEUED if self.started_at_ms is None else DeletionStage.DELETING

    @property
    def in_progress(self) -> bool:
        """A replica's deletion was sent and is not answered."""
        return self.by_state.get(ReplicaState.DELETION_STARTED, 0) > 0

    @property
    def all_acknowledged(self) -> bool:
        """Every replica is DeletionSuccessful or DeletionOwed, or there is none."""
        return all(state in NOT_WAITED_FOR for state in self.by_state)

    @property
    def owing_tombstone(self) -> Mapping[BrokerId, Tombstone]:
        """The tombstone of each broker whose metadata cache may still show the topic."""
        return {} if self.tombstones is None else self.tombstones.owing
