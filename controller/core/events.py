"""Events: inputs of the core. Names are in the past tense; values are immutable.

While a read, write or probe is outstanding, its result is the next event, and external events wait in the runtime's
queue. Only `SessionLost` overtakes the result: without a session no result comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.controller.core.effects import Timer
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.control import LeaderAndIsrResponse, StopReplicaResponse, UpdateMetadataResponse
from lethe.protocol.kafka.group_offsets import GroupOffsets
from lethe.protocol.kafka.queries import DescribeLogDirsResponse
from lethe.protocol.kafka.to_controller import AdminRequest, BrokersRequest
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ReadOutcome, WatchFired, WatchKind
from lethe.protocol.zookeeper.packing import GroupOutcome

# --- the session --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionEstablished:
    """A new ZooKeeper session. `entropy` (32 random bytes) is the core's only source of randomness."""

    session_id: int
    entropy: bytes


@dataclass(frozen=True, slots=True)
class SessionLost:
    reason: str


# --- watches ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    """`/controller` was created or rewritten."""


@dataclass(frozen=True, slots=True)
class ControllerDeleted:
    """`/controller` was removed: an election can follow."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """The children of `/brokers/ids` changed."""


@dataclass(frozen=True, slots=True)
class BrokerModified:
    """The data of `/brokers/ids/N` changed under the same registration."""

    broker: BrokerId


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The children of `/brokers/topics` changed."""


@dataclass(frozen=True, slots=True)
class TopicsModified:
    """The data of these topics' znodes changed, or the znodes are gone."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicDeletionsRequested:
    """The children of `/admin/delete_topics` changed."""


@dataclass(frozen=True, slots=True)
class ForgetsRequested:
    """The children of `/lethe/forget` changed, or it was created."""


@dataclass(frozen=True, slots=True)
class DeletionMarkerModified:
    """The data of this topic's deletion marker, which was watched, changed, or the marker is gone."""

    topic: str
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class DeletionsPauseChanged:
    """`/lethe/deletions_paused` was created, rewritten or removed."""


@dataclass(frozen=True, slots=True)
class TopicRequestsChanged:
    """The children of `/lethe/requests` changed, or it was created."""


@dataclass(frozen=True, slots=True)
class ReassignmentsRequested:
    """`/admin/reassign_partitions` was created, rewritten or removed."""


@dataclass(frozen=True, slots=True)
class IsrChangesNotified:
    """The children of `/isr_change_notification` changed: leaders have written ISRs to ZooKeeper."""


@dataclass(frozen=True, slots=True)
class LogDirEventsNotified:
    """The children of `/log_dir_event_notification` changed: brokers have lost log directories."""


@dataclass(frozen=True, slots=True)
class PreferredElectionsRequested:
    """`/admin/preferred_replica_election` was created, rewritten or removed."""


@dataclass(frozen=True, slots=True)
class ConfigurationChanged:
    """The children of `/config/changes` changed."""


# --- answers of brokers -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived:
    broker: BrokerId
    broker_epoch: BrokerEpoch
    request_id: int
    response: LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class UpdateMetadataResponseReceived:
    broker: BrokerId
    broker_epoch: BrokerEpoch
    request_id: int
    response: UpdateMetadataResponse


@dataclass(frozen=True, slots=True)
class StopReplicaResponseReceived:
    broker: BrokerId
    broker_epoch: BrokerEpoch
    request_id: int
    response: StopReplicaResponse


@dataclass(frozen=True, slots=True)
class CacheRead:
    """The result of the `effects.ReadCache` with this id."""

    id: int
    broker: BrokerId
    topics: Mapping[str, CachedTopic] | None
    """The requested topics that the broker's cache has; None without an answer."""
    problem: str | None = None
    """Why there is no answer; or, with topics, why the cache may have others, too."""


@dataclass(frozen=True, slots=True)
class OffsetsRead:
    """The result of the `effects.ReadOffsets` with this id: by topic; without topics that no group has read."""

    id: int
    offsets: Mapping[str, GroupOffsets] | None
    """None without a complete answer: see `problem`."""
    problem: str | None = None
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Topics of which coordinators may hide offsets, and why: they count as unread."""


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    """The result of the `effects.CommitOffsets` with this id."""

    id: int
    problems: Mapping[str, Mapping[str, str]]
    """Why offsets are not committed, by topic and group; empty where all are."""


@dataclass(frozen=True, slots=True)
class LogDirsDescribed:
    """`broker_epoch` is the incarnation that the request was meant for: DescribeLogDirs names none itself."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    request_id: int
    response: DescribeLogDirsResponse


@dataclass(frozen=True, slots=True)
class PartAnswered:
    """The broker has answered a part of this request, with this top-level error, and gets the next part."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    request_id: int
    error: int


Answer = LeaderAndIsrResponseReceived | UpdateMetadataResponseReceived | StopReplicaResponseReceived | LogDirsDescribed

# --- requests of brokers ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerRequested:
    """A broker sent a request to its controller. Exactly one `effects.Reply` with this key follows, unless the
    process ends. Code that drops the event from a queue must answer it with `requests.refused`."""

    key: int
    """Identifies the connection and the request on it; unique among unanswered requests."""
    request: BrokersRequest
    version: int
    """Version of the request and of its answer."""


@dataclass(frozen=True, slots=True)
class ClientRequested:
    """A client sent a request that only a controller answers. What is said of `BrokerRequested` holds here too."""

    key: int
    request: AdminRequest
    version: int
    sender: Sender
    client_id: str = ""
    """The name that the client gives itself; quotas may depend on it."""
    frame_bytes: int = 0
    """How large the request was on the wire."""


# --- our own ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimerFired:
    timer: Timer


@dataclass(frozen=True, slots=True)
class ResignationRequested:
    """A user, or the stopping process, requests that this controller resigns.

    `for_good`: it does not stand for election again, whether or not it leads now. `patience_ms`: how long it waits
    for answers to tombstones first."""

    reason: str
    for_good: bool = False
    patience_ms: int = 0


# --- results ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ZnodesRead:
    """One outcome per read of the `ReadZnodes` with this id."""

    id: int
    outcomes: tuple[ReadOutcome, ...]


@dataclass(frozen=True, slots=True)
class ZnodesWritten:
    """One outcome per group of the `WriteZnodes` with this id. `controller_moved`: the fence failed; groups without a
    GroupDone were not applied. A result, or the event at the end of a write in the background."""

    id: int
    outcomes: tuple[GroupOutcome, ...]
    controller_moved: bool = False


class ProbeOutcome(NamedTuple):
    """Result of probing one broker: the top-level error of its answer, or the reason why there is no answer."""

    broker: BrokerId
    error: int | None
    problem: str | None = None
    has_no_access: bool = False
    """The problem is the SASL login or the handshake of TLS, and waiting does not mend it: one side refuses the other,
    or nothing can be sent."""


@dataclass(frozen=True, slots=True)
class ProbesCompleted:
    """One outcome per target of the `ProbeBrokers` with this id."""

    id: int
    outcomes: tuple[ProbeOutcome, ...]


Result = ZnodesRead | ZnodesWritten | ProbesCompleted
External = (
    SessionEstablished
    | SessionLost
    | ControllerChanged
    | ControllerDeleted
    | BrokersChanged
    | BrokerModified
    | TopicsChanged
    | TopicsModified
    | DeletionMarkerModified
    | ForgetsRequested
    | TopicDeletionsRequested
    | ReassignmentsRequested
    | DeletionsPauseChanged
    | TopicRequestsChanged
    | IsrChangesNotified
    | LogDirEventsNotified
    | PreferredElectionsRequested
    | ConfigurationChanged
    | Answer
    | PartAnswered
    | CacheRead
    | OffsetsRead
    | OffsetsCommitted
    | BrokerRequested
    | ClientRequested
    | TimerFired
    | ResignationRequested
)
Event = External | Result
Queueable = External | ZnodesWritten
"""What may be queued: a write in the background ends with an event."""


_OF_PATH: Final[Mapping[str, External]] = MappingProxyType(
    {
        paths.broker_ids(): BrokersChanged(),
        paths.broker_topics(): TopicsChanged(),
        paths.delete_topics(): TopicDeletionsRequested(),
        paths.deletions_paused(): DeletionsPauseChanged(),
        paths.requests(): TopicRequestsChanged(),
        paths.forgets(): ForgetsRequested(),
        paths.reassign_partitions(): ReassignmentsRequested(),
        paths.isr_change_notifications(): IsrChangesNotified(),
        paths.log_dir_event_notifications(): LogDirEventsNotified(),
        paths.preferred_replica_election(): PreferredElectionsRequested(),
        paths.config_changes(): ConfigurationChanged(),
    }
)
"""The event of a watch on a single znode, for any kind of change."""


def from_watch(fired: WatchFired) -> External | None:
    """Return the event of a fired watch, or None.

    None: the core has no event for the path, or another watch reports the change. When a broker's znode is removed,
    its data watch fires too, and the children watch of `/brokers/ids` reports the removal.
    """
    kind, path = fired
    if path == paths.controller():
        return ControllerDeleted() if kind is WatchKind.DELETED else ControllerChanged()
    if path in _OF_PATH:
        return _OF_PATH[path]
    marked = paths.deleted_topic_of(path)
    if marked is not None:
        # Some markers have a data watch (`orders`, `unreadable`).
        return DeletionMarkerModified(marked, is_gone=kind is WatchKind.DELETED)
    broker = paths.broker_of(path)
    if broker is not None:
        return BrokerModified(broker) if kind is WatchKind.DATA_CHANGED else None
    topic = paths.topic_of(path)
    if topic is not None:
        return TopicsModified((topic,))
    return None
