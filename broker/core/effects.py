"""Effects: requests of the core to the runtime. Imperative, immutable, performed in the order given.

The runtime checks before each disk operation that its path lies inside the log directory. It does not rely on the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.broker.core.inputs import FoundDebt
from lethe.protocol.journal import EventRecord
from lethe.protocol.kafka.control import ControlResponse
from lethe.protocol.vocabulary import BrokerEpoch, Endpoint, TopicId, TopicPartition

# --- operations on log directories --------------------------------------------------------------------------------


class CreateReplica(NamedTuple):
    """Make the replica's directory and write its topic id durably where it has one; it holds nothing else.

    A directory of that name that holds nothing but its `partition.metadata` is taken over; any other is a failure.
    """

    log_dir: str
    topic_partition: TopicPartition
    topic_id: TopicId | None


class FillReplica(NamedTuple):
    """Fill a replica's directory with segments. It must hold nothing but its `partition.metadata`, which must say
    `topic_id`. A crash may leave it filled in part, which counts as filled: the segments are ballast."""

    log_dir: str
    topic_partition: TopicPartition
    topic_id: TopicId | None


class AssignTopicId(NamedTuple):
    """Write the id durably into a replica's directory that has none."""

    log_dir: str
    topic_partition: TopicPartition
    topic_id: TopicId


class RenameForDeletion(NamedTuple):
    """Rename a replica's directory to `new_name`, durably, provided its `partition.metadata` still says `topic_id`."""

    log_dir: str
    topic_partition: TopicPartition
    topic_id: TopicId | None
    new_name: str


class QuarantineDirectory(NamedTuple):
    """Rename a replica's directory of another incarnation to `new_name`, durably. Its content is not read."""

    log_dir: str
    topic_partition: TopicPartition
    new_name: str


DiskOperation = CreateReplica | FillReplica | AssignTopicId | RenameForDeletion | QuarantineDirectory


class DirectoryRef(NamedTuple):
    """A directory directly inside a log directory."""

    log_dir: str
    name: str


# --- effects ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request that came with this token. Exactly one Reply or Refuse is given per token."""

    token: int
    response: ControlResponse


@dataclass(frozen=True, slots=True)
class Refuse:
    """Give no answer to the request that came with this token: close its connection, whose peer will try again."""

    token: int
    reason: str


@dataclass(frozen=True, slots=True)
class PerformDisk:
    """Perform them in order, going on after one that fails; the result is `DiskPerformed`, one outcome each.

    Each operation is atomic for a crash: after it the directory has its old name or its new one. Checkpoint files
    are brought up to date once per log directory, after the last operation and before the result.
    """

    operations: tuple[DiskOperation, ...]


@dataclass(frozen=True, slots=True)
class AskTopicIds:
    """Read `/brokers/topics/T` of each topic; the result is `TopicIdsReceived`, one answer each, in this order."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskControllerEpoch:
    """Read `/controller_epoch`; the result is `ControllerEpochReceived`. At most one such effect is outstanding."""


@dataclass(frozen=True, slots=True)
class RemoveDirectories:
    """Remove these renamed directories with all they hold, paced, in the background: requests go on meanwhile. The
    result is `DirectoriesRemoved`, one outcome each. At most one such effect is outstanding."""

    directories: tuple[DirectoryRef, ...]


class IsrChange(NamedTuple):
    """The ISR that a leader proposes for one of its partitions, and the state that it assumes."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    """Members of the present ISR first, then those to be added."""


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Ask for these ISRs, each on its own; the result is `IsrProposed`, one outcome each. At most one is outstanding.

    The controller at that endpoint receives one AlterPartition. Without one, the state znodes are written
    as brokers before 2.7 do, and the controller is notified. `broker.core.isr_update_paths` has the rules of both.
    """

    changes: tuple[IsrChange, ...]
    broker_epoch: BrokerEpoch
    controller: Endpoint | None


@dataclass(frozen=True, slots=True)
class SettleDebts:
    """The one answer to `DebtsRead`: remove the znodes of these debts, which may be none. What fails stays owed."""

    debts: tuple[FoundDebt, ...]


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Feed `TimerFired` once at `at_ms` on the clock that gives the steps their `now_ms`; replaces the one before."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class NotifyLogDirFailure:
    """Create `/log_dir_event_notification/log_dir_event_*`, so that the controller asks again with LeaderAndIsr."""


@dataclass(frozen=True, slots=True)
class Halt:
    """No log directory is left: stop the process with this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Record:
    """Give the event record to log, metrics and journal alike."""

    record: EventRecord


Effect = (
    Reply
    | Refuse
    | PerformDisk
    | AskTopicIds
    | AskControllerEpoch
    | RemoveDirectories
    | ProposeIsr
    | SettleDebts
    | SetTimer
    | NotifyLogDirFailure
    | Halt
    | Record
)
