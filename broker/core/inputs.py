"""Inputs: what can happen to an agent. Past tense, immutable."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from lethe.protocol.kafka.control import Addressed
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, ControllerEpoch, TopicId, TopicPartition

# --- the disk as found --------------------------------------------------------------------------------------------


class FoundReplica(NamedTuple):
    topic_partition: TopicPartition
    topic_id: TopicId | None
    """None where there is no `partition.metadata`."""
    id_readable: bool
    """False if `partition.metadata` exists and cannot be read: the incarnation is unknown."""
    size_bytes: int
    files: int
    """Directory entries other than `partition.metadata`; 0 means that nothing was ever stored here."""
    segment_bytes: int = 0
    """Of the `.log` files."""


class FoundDirectory(NamedTuple):
    name: str
    size_bytes: int
    files: int
    topic_id: TopicId | None = None
    """The id in its `partition.metadata`, for a directory that waits for its removal."""


class FoundLogDir(NamedTuple):
    log_dir: str
    error: str | None
    """Why the directory cannot be used; its lists are empty then."""
    replicas: tuple[FoundReplica, ...] = ()
    deleted: tuple[FoundDirectory, ...] = ()
    strays: tuple[FoundDirectory, ...] = ()
    unknown: tuple[FoundDirectory, ...] = ()


@dataclass(frozen=True, slots=True)
class InventoryLoaded:
    """The log directories were read, in the order of the configuration. The first input of every run."""

    log_dirs: tuple[FoundLogDir, ...]


# --- requests and registration ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """`/brokers/ids/N` is ours; its czxid is the broker epoch that requests must name from now on."""

    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True)
class ControlReceived:
    """A control request arrived. `token` names it in the Reply and is used once."""

    token: int
    addressed: Addressed


# --- results of effects -------------------------------------------------------------------------------------------


class DiskOutcome(NamedTuple):
    """How one disk operation ended."""

    error: str | None = None
    log_dir_failed: bool = False
    """The error says that the whole log directory cannot be used any more."""
    size_bytes: int = 0
    """What CreateReplica, FillReplica or AssignTopicId put into the directory."""
    files: int = 0
    """The same, `partition.metadata` not counted."""
    segment_bytes: int = 0
    """The same, of `.log` files alone."""


@dataclass(frozen=True, slots=True)
class DiskPerformed:
    """Result of PerformDisk."""

    outcomes: tuple[DiskOutcome, ...]


class TopicAbsence(enum.Enum):
    """Why ZooKeeper names no id for a topic."""

    NO_ID = "the topic has no id"
    NO_TOPIC = "there is no such topic"


class TopicIdUnavailable(NamedTuple):
    """ZooKeeper could not be asked, or what it has cannot be read."""

    reason: str


TopicIdAnswer = TopicId | TopicAbsence | TopicIdUnavailable


@dataclass(frozen=True, slots=True)
class TopicIdsReceived:
    """Result of AskTopicIds."""

    answers: tuple[TopicIdAnswer, ...]


class FoundDebt(NamedTuple):
    """A deletion that this broker owes, with what else ZooKeeper has under the topic's name."""

    topic: str
    created_zxid: int
    """Of the topic's znode; with the topic it names the debt."""
    topic_id: TopicId | None
    partitions: tuple[int, ...]
    since_ms: int
    size_bytes: int | None
    """As the debt says."""
    living: TopicIdAnswer
    """The topic that has that name now, read after the debt."""
    may_be_in_trash: bool


@dataclass(frozen=True, slots=True)
class DebtsRead:
    """What this broker owes was read, at the start, before its registration."""

    debts: tuple[FoundDebt, ...]


class ControllerEpochUnavailable(NamedTuple):
    """ZooKeeper could not be asked, or has no controller epoch that can be read."""

    reason: str


ControllerEpochAnswer = ControllerEpoch | ControllerEpochUnavailable


@dataclass(frozen=True, slots=True)
class ControllerEpochReceived:
    """Result of AskControllerEpoch."""

    answer: ControllerEpochAnswer
    holder: BrokerId | None = None
    """Whose epoch it is, by `/controller`; None if that is not known."""


class RemovalOutcome(NamedTuple):
    """How the removal of one directory ended. A missing directory counts as removed, with 0 bytes."""

    error: str | None
    size_bytes: int = 0
    """Bytes freed, also where the removal failed half way."""
    files: int = 0
    log_dir_failed: bool = False


@dataclass(frozen=True, slots=True)
class DirectoriesRemoved:
    """Result of RemoveDirectories."""

    outcomes: tuple[RemovalOutcome, ...]


class IsrVerdict(enum.Enum):
    """How the proposal of one partition's ISR ended; what follows is in `broker.core.isr`."""

    ACCEPTED = "accepted"
    PUT_BACK = "put back"
    UNANSWERED = "unanswered"
    GIVEN_UP = "given up"


class IsrOutcome(NamedTuple):
    verdict: IsrVerdict
    isr: tuple[int, ...] = ()
    """The committed ISR, if accepted."""
    partition_epoch: int = -1
    reason: str = ""
    """Why it was not accepted, as text to show."""


@dataclass(frozen=True, slots=True)
class IsrProposed:
    """Result of ProposeIsr."""

    outcomes: tuple[IsrOutcome, ...]


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time of the last SetTimer has come."""


@dataclass(frozen=True, slots=True)
class LogDirFailed:
    """A log directory was found unusable outside of any operation."""

    log_dir: str
    error: str


Input = (
    InventoryLoaded
    | BrokerRegistered
    | ControlReceived
    | DiskPerformed
    | TopicIdsReceived
    | DebtsRead
    | ControllerEpochReceived
    | DirectoriesRemoved
    | IsrProposed
    | TimerFired
    | LogDirFailed
)
