"""What can happen to a controller. Past tense, immutable.

External events wait in the runtime's one queue while a read, write or probe of the step before is outstanding; its
result is always the next event. Only `SessionLost` overtakes: without a session there is no result to wait for.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

from lethe.controller.core.effects import RebalanceLeaders, Timer
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.control import LeaderAndIsrResponse, StopReplicaResponse, UpdateMetadataResponse
from lethe.protocol.kafka.queries import DescribeLogDirsResponse
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ControllerRequest,
)
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ReadOutcome, WatchFired, WatchKind
from lethe.protocol.zookeeper.packing import GroupOutcome

# --- the session --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionEstablished:
    """A new ZooKeeper session. `entropy` (32 random bytes) is the only randomness that the core ever sees."""

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
    """`/controller` is gone: whoever stands may be elected."""


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
    """The children of `/admin/delete_topics` changed, or what one of them says."""


@dataclass(frozen=True, slots=True)
class DeletionsPauseChanged:
    """`/lethe/deletions_paused` was created, rewritten or removed."""


@dataclass(frozen=True, slots=True)
class ReassignmentsRequested:
    """`/admin/reassign_partitions` was created, rewritten or removed."""


@dataclass(frozen=True, slots=True)
class IsrChangesNotified:
    """The children of `/isr_change_notification` changed: leaders have written their ISRs themselves."""


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
class LeaderAndIsrAnswered:
    broker: BrokerId
    broker_epoch: BrokerEpoch
    request_id: int
    response: LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class UpdateMetadataAnswered:
    broker: BrokerId
    broker_epoch: BrokerEpoch
    request_id: int
    response: UpdateMetadataResponse


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered:
    broker: BrokerId
    broker_epoch: BrokerEpoch
    request_id: int
    response: StopReplicaResponse


@dataclass(frozen=True, slots=True)
class CacheRead:
    """What came of the `effects.ReadCache` with this id."""

    id: int
    broker: BrokerId
    topics: Mapping[str, CachedTopic] | None
    """What the broker shows of what it was asked for; None where it did not answer, or in part only: see `problem`."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class LogDirsDescribed:
    """DescribeLogDirs names no incarnation: `broker_epoch` is the one that the question was meant for."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    request_id: int
    response: DescribeLogDirsResponse


Answer = LeaderAndIsrAnswered | UpdateMetadataAnswered | StopReplicaAnswered | LogDirsDescribed

# --- requests of brokers ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerRequested:
    """A broker asks its controller for something. Exactly one `effects.Reply` with this key follows, unless the
    process ends; whoever drops the event from a queue has to answer it as `requests.refused` says."""

    key: int
    """Names the connection and the request on it; no two requests that are not answered have the same."""
    request: ControllerRequest
    version: int
    """In which the request came and the answer will go."""


# --- our own ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimerFired:
    timer: Timer


@dataclass(frozen=True, slots=True)
class ResignationRequested:
    """A person, or a process that is stopping, wants another controller to take over; `for_good`: and us not to stand
    again, whether or not we lead. `patience_ms`: so long answers to tombstones are waited for first."""

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
    """One outcome per group of the `WriteZnodes` with this id. `controller_moved`: the fence did not hold, so the
    groups without a GroupDone were not applied."""

    id: int
    outcomes: tuple[GroupOutcome, ...]
    controller_moved: bool = False


class ProbeOutcome(NamedTuple):
    """What came of asking one broker: the top-level error of its answer, or why there is none."""

    broker: BrokerId
    error: int | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ProbesAnswered:
    """One outcome per target of the `ProbeBrokers` with this id."""

    id: int
    outcomes: tuple[ProbeOutcome, ...]


Result = ZnodesRead | ZnodesWritten | ProbesAnswered
External = (
    SessionEstablished
    | SessionLost
    | ControllerChanged
    | ControllerDeleted
    | BrokersChanged
    | BrokerModified
    | TopicsChanged
    | TopicsModified
    | TopicDeletionsRequested
    | ReassignmentsRequested
    | DeletionsPauseChanged
    | IsrChangesNotified
    | LogDirEventsNotified
    | PreferredElectionsRequested
    | ConfigurationChanged
    | Answer
    | CacheRead
    | BrokerRequested
    | TimerFired
    | ResignationRequested
)
Event = External | Result


class ControllerState(enum.IntEnum):
    """What the event thread is busy with; the numbers are those of Kafka's `ControllerState` gauge."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    UPDATE_METADATA_RESPONSE_RECEIVED = 16


def state_of(event: External) -> ControllerState:  # noqa: C901 - a table of all events is meant to be long and flat
    """The state that Kafka's gauge shows while the event is handled."""
    match event:
        case BrokerRequested(request=request):
            return _state_of_request(request)
        case SessionEstablished() | SessionLost() | ControllerChanged() | ControllerDeleted():
            return ControllerState.CONTROLLER_CHANGE
        case BrokersChanged() | BrokerModified():
            return ControllerState.BROKER_CHANGE
        case TopicsChanged() | TopicsModified():
            return ControllerState.TOPIC_CHANGE
        case TopicDeletionsRequested() | DeletionsPauseChanged() | StopReplicaAnswered():
            return ControllerState.TOPIC_DELETION
        case ReassignmentsRequested():
            return ControllerState.ALTER_PARTITION_REASSIGNMENT
        case LeaderAndIsrAnswered():
            return ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED
        case UpdateMetadataAnswered():
            return ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED
        case ResignationRequested():
            return ControllerState.CONTROLLER_SHUTDOWN
        case IsrChangesNotified():
            return ControllerState.ISR_CHANGE
        case LogDirEventsNotified() | LogDirsDescribed():
            return ControllerState.LOG_DIR_CHANGE
        case PreferredElectionsRequested():
            return ControllerState.MANUAL_LEADER_BALANCE
        case ConfigurationChanged():
            # Kafka's controller hears of nothing else that is configured.
            return ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE
        case TimerFired(timer=RebalanceLeaders()):
            return ControllerState.AUTO_LEADER_BALANCE
        case TimerFired() | CacheRead():
            return ControllerState.IDLE
        case _:
            assert_never(event)


def _state_of_request(request: ControllerRequest) -> ControllerState:
    match request:
        case ControlledShutdownRequest():
            return ControllerState.CONTROLLED_SHUTDOWN
        case AlterPartitionRequest():
            return ControllerState.ISR_CHANGE
        case AllocateProducerIdsRequest():
            # Kafka's controller does it outside of its event thread.
            return ControllerState.IDLE
        case _:
            assert_never(request)


_OF_PATH: Final[Mapping[str, External]] = MappingProxyType(
    {
        paths.broker_ids(): BrokersChanged(),
        paths.broker_topics(): TopicsChanged(),
        paths.delete_topics(): TopicDeletionsRequested(),
        paths.deletions_paused(): DeletionsPauseChanged(),
        paths.reassign_partitions(): ReassignmentsRequested(),
        paths.isr_change_notifications(): IsrChangesNotified(),
        paths.log_dir_event_notifications(): LogDirEventsNotified(),
        paths.preferred_replica_election(): PreferredElectionsRequested(),
        paths.config_changes(): ConfigurationChanged(),
    }
)
"""What the watch on a single znode stands for, whatever has become of it."""


def from_watch(fired: WatchFired) -> External | None:
    """The event that a watch stands for; None for a path that nobody here asked about.

    A data watch on a broker also fires when its znode goes; the children watch of the parent tells that better.
    """
    kind, path = fired
    if path == paths.controller():
        return ControllerDeleted() if kind is WatchKind.DELETED else ControllerChanged()
    if path in _OF_PATH:
        return _OF_PATH[path]
    if paths.deleted_topic_of(path) is not None:
        # Watched is the data of those markers that may order more than others do.
        return TopicDeletionsRequested() if kind is WatchKind.DATA_CHANGED else None
    broker = paths.broker_of(path)
    if broker is not None:
        return BrokerModified(broker) if kind is WatchKind.DATA_CHANGED else None
    topic = paths.topic_of(path)
    if topic is not None:
        return TopicsModified((topic,))
    return None
