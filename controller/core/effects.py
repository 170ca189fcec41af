"""What the core asks the runtime to do. Imperative, immutable, performed in the order given.

A read, write or probe is always the last effect of its step, and its result the next event: what was decided on known
results is sent before anything new is waited for, and memory changes only when an outcome is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.protocol.journal import Fact
from lethe.protocol.kafka.control import StopReplicaRequest
from lethe.protocol.kafka.queries import ChannelRequest
from lethe.protocol.kafka.to_controller import ControllerResponse
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint
from lethe.protocol.zookeeper.operations import Check, Operation, Read


@dataclass(frozen=True, slots=True)
class ReadZnodes:
    """Read them all; the result is `ZnodesRead` with the same id and one outcome per read, in order."""

    id: int
    reads: tuple[Read, ...]


@dataclass(frozen=True, slots=True)
class WriteZnodes:
    """Apply each group atomically, in order, packed into as few multis as fit, each fenced by `fence` where given.

    The result is `ZnodesWritten` with the same id. A group that fails is set apart and the others are applied.
    """

    id: int
    groups: tuple[tuple[Operation, ...], ...]
    fence: Check | None


class ProbeTarget(NamedTuple):
    """Where one broker is asked."""

    broker: BrokerId
    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class ProbeBrokers:
    """Send this request to each of them once, outside of any channel and without a broker epoch.

    The result is `ProbesAnswered` with the same id and one outcome per target, in order. It comes within seconds: a
    broker that has not answered by then is told as such.
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
    """Stop the sender and drop what it has queued; nothing of it is answered any more."""

    broker: BrokerId


class Send(NamedTuple):
    """Queue a request on the broker's channel. The same `request` object may go to many brokers: its body is
    encoded once. The answer comes back with `request_id`."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    request_id: int
    request: ChannelRequest


@dataclass(frozen=True, slots=True)
class ReadCache:
    """Ask the broker what its metadata cache has, over a connection of its own, so that no control request waits behind
    the answer, which takes megabytes in a large cluster. Whatever happens, `events.CacheRead` with the same id follows,
    unless the session is lost or the process ends."""

    id: int
    broker: BrokerId
    endpoint: Endpoint
    topics: tuple[str, ...] | None
    """Only these; None: all."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request that came as `events.BrokerRequested` with this key; exactly one is given per key."""

    key: int
    response: ControllerResponse


@dataclass(frozen=True, slots=True)
class DisconnectBrokers:
    """Close every connection on which brokers ask, after what they are answered: they look for a controller then, where
    they would keep to the one that they know."""

    reason: str


@dataclass(frozen=True, slots=True)
class ShowBrokers:
    """Whom the listener may pass clients on to, until it is shown others or `DisconnectBrokers` ends the tenure."""

    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class RenewSession:
    """Close the ZooKeeper session, which removes our ephemeral znodes, and open another one."""

    reason: str


@dataclass(frozen=True, slots=True)
class StandAgain:
    """Timer: the time of backing off after a fault is over."""


@dataclass(frozen=True, slots=True)
class RetryDeletions:
    """Timer: the earliest repetition that a deletion waits for is due."""


@dataclass(frozen=True, slots=True)
class EndTombstoneWaits:
    """Timer: a topic has waited for answers to its tombstone for as long as it may."""


@dataclass(frozen=True, slots=True)
class RetryOwedTombstones:
    """Timer: tombstones that a broker owes and answered with an error are sent again."""


@dataclass(frozen=True, slots=True)
class LeaveAnyway:
    """Timer: control is given up now, whether or not brokers have answered the tombstones that were waited for."""


@dataclass(frozen=True, slots=True)
class RetryReassignments:
    """Timer: a write that a reassignment needs was refused; it is tried again."""


@dataclass(frozen=True, slots=True)
class RebalanceLeaders:
    """Timer: it is to be looked whether too many partitions are not led by their preferred replica."""


@dataclass(frozen=True, slots=True)
class CompareCaches:
    """Timer: the next broker's metadata cache is due to be compared with ZooKeeper."""


@dataclass(frozen=True, slots=True)
class CheckPower:
    """Timer: look whether brokers still obey this controller."""


Timer = (
    StandAgain
    | RetryDeletions
    | EndTombstoneWaits
    | RetryOwedTombstones
    | LeaveAnyway
    | RetryReassignments
    | RebalanceLeaders
    | CompareCaches
    | CheckPower
)


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Feed `TimerFired(timer)` at `at_ms` on the clock that gives the steps their `now_ms`; a timer equal to one that
    is set replaces it."""

    timer: Timer
    at_ms: int


@dataclass(frozen=True, slots=True)
class Record:
    """Give the fact to log, metrics and journal alike."""

    fact: Fact


Effect = (
    ReadZnodes
    | WriteZnodes
    | ProbeBrokers
    | OpenChannel
    | CloseChannel
    | Send
    | ReadCache
    | Reply
    | DisconnectBrokers
    | ShowBrokers
    | RenewSession
    | SetTimer
    | Record
)
