"""What the controller remembers of topics that are marked, and of those that are queued for deletion."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.control import UpdateMetadataTopic
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, PartitionReplica


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the deletion of one replica did not succeed when it was last tried."""

    what: str
    """Kafka's error name, or our own words where no error was answered."""
    since_ms: int
    attempts: int
    last_ms: int
    """When it was met last."""

    @classmethod
    def met(cls, before: Problem | None, what: str, now_ms: int) -> Problem:
        """A problem met now, after the one that was remembered for the same thing, if any."""
        return cls(what, before.since_ms if before else now_ms, before.attempts + 1 if before else 1, now_ms)


class Tombstone(NamedTuple):
    """UpdateMetadata with leader -2 went to this broker incarnation, and was answered without an error or not yet."""

    broker_epoch: BrokerEpoch
    request_id: int
    acknowledged: bool


class OwedTombstone(NamedTuple):
    """A topic whose znodes are gone, and whose tombstone one broker has not answered."""

    since_ms: int
    """When the znodes went."""
    request_id: int
    """The request that carried the tombstone last; answered with an error, or not at all."""
    row: UpdateMetadataTopic
    """The tombstone, to be sent again after an error. Brokers share it."""


@dataclass(slots=True)
class Debtor:
    """One broker that owes answers to tombstones; `controller.core.owed` writes it."""

    topics: dict[str, OwedTombstone] = field(default_factory=dict)
    """By topic name, oldest first; never empty between two steps."""
    problem: Problem | None = None
    """The error that the broker answered last, if it answered."""
    retry_at_ms: int | None = None
    """When the tombstones are sent again after that error."""

    @property
    def since_ms(self) -> int:
        """When the broker's oldest debt began."""
        return next(iter(self.topics.values())).since_ms


@dataclass(slots=True)
class Look:
    """DescribeLogDirs that was sent, and the fence behind it: see `evidence`."""

    request_id: int
    fence_id: int
    is_healthy: bool = False
    """It was answered, and every log directory works."""


class Unproven(NamedTuple):
    """NONE was answered to the StopReplica with this id, and no look behind it has been answered yet."""

    request_id: int
    replicas: tuple[PartitionReplica, ...]


@dataclass(slots=True)
class LogDirEvidence:
    """What one broker incarnation says of its log directories."""

    must_announce: bool = False
    """A look did not show that all of them work: replicas to be deleted are announced by LeaderAndIsr."""
    looks: list[Look] = field(default_factory=list)
    """Those whose fence is not answered yet, oldest first."""
    unproven: list[Unproven] = field(default_factory=list)


METADATA_CACHE: Final = -1
"""Stands for the partition where a deletion's problem is with a broker's metadata cache."""


REFUSED: Final = (CauseKind.DISABLED, CauseKind.MARKER_WITHOUT_TOPIC)
"""These last until the marker is removed, and are recorded as refusals."""
DELETING: Final = "deleting the topic"
"""What such a refusal was to be."""
DISABLED: Final = "delete.topic.enable is false"
NO_SUCH_TOPIC: Final = "there is no such topic; its marker is removed"
LET_GO: Final = "let go"
"""The phase in which a topic ends that was held, and is not to be deleted any more."""
VANISHED: Final = "vanished"
"""The phase in which a deletion ends whose topic somebody else has removed from ZooKeeper."""


class Mark(NamedTuple):
    """A topic is marked for deletion and held back: nothing of it is touched. It stays in service, if it was."""

    since_ms: int
    """Since when we know of the marker."""
    held_by: CauseKind
    """One that has a `held_code`."""
    last_error: str | None = None


class Pause(NamedTuple):
    """Nothing new is queued for deletion, and nothing is sent or removed for what is queued."""

    since_ms: int
    reason: str
    held_by: CauseKind
    """RESUMPTION: somebody paused them. CONFIGURATION: nobody can tell whether topics may be deleted."""
    path: str
    """Of the znode that says so, or that should say so."""


PAUSES: Final = (CauseKind.RESUMPTION, CauseKind.CONFIGURATION)
"""What a pause can be held by."""


class RefusedMark(NamedTuple):
    """A marker was removed without its topic."""

    at_ms: int
    why: str


class Stage(enum.Enum):
    """How far the deletion of a queued topic has come."""

    QUEUED = "queued"
    """Nothing has been sent for it yet."""
    DELETING = "deleting"
    """Out of service; brokers have been asked for its replicas."""
    WAITING = "waiting"
    """Something that it needs is not there; nothing is sent for it until that changes or a timer fires."""
    REMOVING = "removing"
    """Every replica is deleted; the tombstone's answers are waited for, or its znodes are being removed."""


class RetryOf(enum.Enum):
    """What of a deletion failed and is repeated."""

    REPLICA = "replica"
    TOMBSTONE = "tombstone"
    ZNODES = "znodes"


@dataclass(slots=True)
class Deletion:
    """One topic queued for deletion. `mutation` alone writes what `stage` and `by_state` depend on."""

    queued_at_ms: int
    marked_at_ms: int
    """When the marker was made, by ZooKeeper's clock and never after now; where that is unknown, when this controller
    first saw it."""
    started_at_ms: int | None = None
    """When its partitions were first taken out of service."""
    asked_at_ms: int | None = None
    """When StopReplica was last sent."""
    attempts: int = 0
    """How often StopReplica(delete) rounds were sent."""
    ineligible: bool = False
    """Nothing is sent for it until something that it waits for has changed."""
    round_is_due: bool = False
    """What it waited for has changed while replicas were outstanding: it is tried again when they have answered, even
    if something else has made it ineligible since."""
    retry_at_ms: int | None = None
    """When it is tried again without anything having changed; None: it waits for a change."""
    by_state: dict[ReplicaState, int] = field(default_factory=dict)
    """How many replicas are in each state; kept by `mutation`."""
    problems: dict[tuple[int, int], Problem] = field(default_factory=dict)
    """(partition or METADATA_CACHE, broker) to what went wrong there last."""
    tombstones: dict[BrokerId, Tombstone] = field(default_factory=dict)
    """What each broker that was here when the tombstone was sent says to it."""
    tombstoned_at_ms: int | None = None
    acknowledged_at_ms: int | None = None
    znode_problem: Problem | None = None

    @property
    def stage(self) -> Stage:
        if self.ineligible:
            return Stage.WAITING
        if self.acknowledged_at_ms is not None:
            return Stage.REMOVING
        return Stage.QUEUED if self.started_at_ms is None else Stage.DELETING

    @property
    def in_progress(self) -> bool:
        """Some replica has been asked to go and has not answered."""
        return self.by_state.get(ReplicaState.DELETION_STARTED, 0) > 0

    @property
    def all_acknowledged(self) -> bool:
        """Every replica is DeletionSuccessful; also true where there is none."""
        return not self.by_state or set(self.by_state) == {ReplicaState.DELETION_SUCCESSFUL}

    @property
    def owing_tombstone(self) -> list[BrokerId]:
        """Brokers whose metadata cache may still show the topic."""
        return [broker for broker, tombstone in self.tombstones.items() if not tombstone.acknowledged]
