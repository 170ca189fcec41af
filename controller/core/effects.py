"""Effects: what the runtime does for the core, in the given order. Names are imperative; values are immutable.

After a read, write or probe its result is the next event, apart from other slices of the same work (`slices`) and from
writes in the background. Memory changes only after an outcome is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lethe.protocol.journal import EventRecord
from lethe.protocol.kafka.control import StopReplicaRequest
from lethe.protocol.kafka.group_offsets import CommittedOffset
from lethe.protocol.kafka.queries import ChannelRequest
from lethe.protocol.kafka.to_controller import ControllerResponse
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint
from lethe.protocol.zookeeper.operations import Check, Operation, Read


@dataclass(frozen=True, slots=True)
class ReadZnodes:
    """Read these znodes. The result is `ZnodesRead` with the same id and one outcome per read, in order."""

    id: int
    reads: tuple[Read, ...]


@dataclass(frozen=True, slots=True)
class WriteZnodes:
    """Apply each group atomically, in order, packed into as few multis as fit, each fenced by `fence` where given.

    The result is `ZnodesWritten` with the same id. A group that fails does not keep the others from being applied.
    `in_background`: the result is an event in the queue, and other events come before it.
    """

    id: int
    groups: tuple[tuple[Operation, ...], ...]
    fence: Check | None
    in_background: bool = False


class ProbeTarget(NamedTuple):
    """The endpoint at which one broker is probed."""

    broker: BrokerId
    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class ProbeBrokers:
    """Send this request once to each target, outside of any channel and without a broker epoch.

    The result is `ProbesCompleted` with the same id and one outcome per target, in order. It comes within seconds: for
    a broker that has not answered by then, the outcome is the problem.
    """

    id: int
    request: StopReplicaRequest
    targets: tuple[ProbeTarget, ...]


@dataclass(frozen=True, slots=True)
class OpenChannel:
    """Start a sender to this broker incarnation; requests to it are queued from now on."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class CloseChannel:
    """Stop the sender and drop its queued requests. No answer to them arrives afterwards."""

    broker: BrokerId


class Send(NamedTuple):
    """Queue a request on the broker's channel. The answer carries `request_id`. A `request` object that goes to many
    brokers is encoded once."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    request_id: int
    request: ChannelRequest


@dataclass(frozen=True, slots=True)
class ReadCache:
    """Read the broker's metadata cache over a separate connection.

    The answer has megabytes in a large cluster, and no control request may wait behind it. `events.CacheRead` with the
    same id always follows, unless the session is lost or the process ends."""

    id: int
    broker: BrokerId
    endpoint: Endpoint
    topics: tuple[str, ...] | None
    """Topics to read; None: all."""


class Coordinator(NamedTuple):
    """A broker that coordinates consumer groups. `led`: its partitions of `__consumer_offsets`, with leader epochs."""

    broker: BrokerId
    endpoint: Endpoint
    led: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ReadOffsets:
    """Read what all consumer groups have committed for these topics, over separate connections.

    `events.OffsetsRead` with the same id always follows, unless the session is lost or the process ends."""

    id: int
    coordinators: tuple[Coordinator, ...]
    topics: tuple[str, ...]


class GroupCommit(NamedTuple):
    """Offsets to commit for one group at its coordinator, by topic and partition."""

    group: str
    endpoint: Endpoint
    topics: Mapping[str, Mapping[int, CommittedOffset]]


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit offsets where the group has none, over separate connections.

    `events.OffsetsCommitted` with the same id always follows, unless the session is lost or the process ends."""

    id: int
    groups: tuple[GroupCommit, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request of the `events.BrokerRequested` or `ClientRequested` with this key: exactly one per key."""

    key: int
    response: ControllerResponse


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """Keep the client's request with this key unanswered for `for_ms` at most: its `Reply` follows by then.

    It is not counted any more among the requests that wait for the core."""

    key: int
    for_ms: int


@dataclass(frozen=True, slots=True)
class DisconnectBrokers:
    """Close all connections from brokers after the pending answers, so that brokers look for the new controller.

    On an open connection they would keep sending requests to this one."""

    reason: str


@dataclass(frozen=True, slots=True)
class ShowBrokers:
    """Brokers to which the listener may forward clients, until the next ShowBrokers or DisconnectBrokers."""

    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class RenewSession:
    """Close the ZooKeeper session, which removes this controller's ephemeral znodes, and open another one."""

    reason: str


@dataclass(frozen=True, slots=True)
class StandAgain:
    """Timer: stand for election again, or look again whether control can be taken."""


@dataclass(frozen=True, slots=True)
class RetryDeletions:
    """Timer: the earliest retry of a deletion is due."""


@dataclass(frozen=True, slots=True)
class BeginDeletions:
    """Timer: the turn of a deletion that is held by the pace has come."""


@dataclass(frozen=True, slots=True)
class EndTombstoneWaits:
    """Timer: a topic has waited `tombstone_timeout_ms` for answers to its tombstone."""


@dataclass(frozen=True, slots=True)
class ListAgain:
    """Timer: topics and markers may be listed again."""


@dataclass(frozen=True, slots=True)
class RetryDebts:
    """Brokers are to be asked again about debts, after errors."""


@dataclass(frozen=True, slots=True)
class RetryOwedTombstones:
    """Timer: send owed tombstones again that a broker answered with an error."""


@dataclass(frozen=True, slots=True)
class ResignAnyway:
    """Timer: give control up now, whether or not brokers have answered the pending tombstones."""


@dataclass(frozen=True, slots=True)
class RetryReassignments:
    """Timer: retry a refused write of a reassignment."""


@dataclass(frozen=True, slots=True)
class RebalanceLeaders:
    """Timer: check whether too many partitions are not led by their preferred replica."""


@dataclass(frozen=True, slots=True)
class CompareCaches:
    """Timer: compare the next broker's metadata cache with ZooKeeper."""


@dataclass(frozen=True, slots=True)
class WatchTrash:
    """Timer: a topic in the trash, or on its way in or out, is due."""


@dataclass(frozen=True, slots=True)
class AnswerClients:
    """Timer: the time of a client's request that waits for brokers is over."""


@dataclass(frozen=True, slots=True)
class CheckPower:
    """Timer: check whether brokers still accept requests of this controller."""


Timer = (
    StandAgain
    | RetryDeletions
    | BeginDeletions
    | EndTombstoneWaits
    | ListAgain
    | RetryOwedTombstones
    | RetryDebts
    | ResignAnyway
    | RetryReassignments
    | RebalanceLeaders
    | CompareCaches
    | CheckPower
    | AnswerClients
    | WatchTrash
)


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Deliver `TimerFired(timer)` at `at_ms`, on the same clock as a step's `now_ms`. Replaces an equal timer."""

    timer: Timer
    at_ms: int


@dataclass(frozen=True, slots=True)
class Record:
    """Write the event record to the log, the metrics and the journal."""

    record: EventRecord


Effect = (
    ReadZnodes
    | WriteZnodes
    | ProbeBrokers
    | OpenChannel
    | CloseChannel
    | Send
    | ReadCache
    | ReadOffsets
    | CommitOffsets
    | Reply
    | HoldRequest
    | DisconnectBrokers
    | ShowBrokers
    | RenewSession
    | SetTimer
    | Record
)
