"""What the event thread is working on, as Kafka's gauge `ControllerState` shows it."""

from __future__ import annotations

import enum
from typing import assert_never

from lethe.controller.core.effects import RebalanceLeaders
from lethe.controller.core.events import (
    BrokerModified,
    BrokerRequested,
    BrokersChanged,
    CacheRead,
    ClientRequested,
    ConfigurationChanged,
    ControllerChanged,
    ControllerDeleted,
    DeletionMarkerModified,
    DeletionsPauseChanged,
    ForgetsRequested,
    IsrChangesNotified,
    LeaderAndIsrResponseReceived,
    LogDirEventsNotified,
    LogDirsDescribed,
    OffsetsCommitted,
    OffsetsRead,
    PartAnswered,
    PreferredElectionsRequested,
    Queueable,
    ReassignmentsRequested,
    ResignationRequested,
    SessionEstablished,
    SessionLost,
    StopReplicaResponseReceived,
    TimerFired,
    TopicDeletionsRequested,
    TopicRequestsChanged,
    TopicsChanged,
    TopicsModified,
    UpdateMetadataResponseReceived,
    ZnodesWritten,
)
from lethe.protocol.kafka.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from lethe.protocol.kafka.admin_cluster import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    UpdateFeaturesRequest,
)
from lethe.protocol.kafka.admin_configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ControllerRequest,
)


class ControllerState(enum.IntEnum):
    """What the event thread is working on, with the numbers of Kafka's `ControllerState` gauge."""

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
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16
    UPDATE_FEATURES = 17


def state_of(event: Queueable) -> ControllerState:  # noqa: C901 - a table of all events is meant to be long and flat
    """Return the state that Kafka's gauge shows while the event is handled."""
    match event:
        case BrokerRequested(request=request) | ClientRequested(request=request):
            return _state_of_request(request)
        case SessionEstablished() | SessionLost() | ControllerChanged() | ControllerDeleted():
            return ControllerState.CONTROLLER_CHANGE
        case BrokersChanged() | BrokerModified():
            return ControllerState.BROKER_CHANGE
        case TopicsChanged() | TopicsModified():
            return ControllerState.TOPIC_CHANGE
        case TopicDeletionsRequested() | DeletionsPauseChanged() | TopicRequestsChanged():
            return ControllerState.TOPIC_DELETION
        case StopReplicaResponseReceived() | ZnodesWritten():
            # Only removals of deleted topics are written in the background.
            return ControllerState.TOPIC_DELETION
        case DeletionMarkerModified() | ForgetsRequested():
            return ControllerState.TOPIC_DELETION
        case ReassignmentsRequested():
            return ControllerState.ALTER_PARTITION_REASSIGNMENT
        case LeaderAndIsrResponseReceived():
            return ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED
        case UpdateMetadataResponseReceived():
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
            # Kafka's controller receives no other configuration change.
            return ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE
        case TimerFired(timer=RebalanceLeaders()):
            return ControllerState.AUTO_LEADER_BALANCE
        case OffsetsRead() | OffsetsCommitted():
            return ControllerState.TOPIC_DELETION
        case TimerFired() | CacheRead() | PartAnswered():
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
            # Kafka's controller allocates them outside of its event thread.
            return ControllerState.IDLE
        case CreateTopicsRequest() | CreatePartitionsRequest():
            return ControllerState.TOPIC_CHANGE
        case DeleteTopicsRequest():
            return ControllerState.TOPIC_DELETION
        case ElectLeadersRequest():
            return ControllerState.MANUAL_LEADER_BALANCE
        case AlterPartitionReassignmentsRequest():
            return ControllerState.ALTER_PARTITION_REASSIGNMENT
        case ListPartitionReassignmentsRequest():
            return ControllerState.LIST_PARTITION_REASSIGNMENT
        case AlterConfigsRequest() | IncrementalAlterConfigsRequest() | DescribeConfigsRequest():
            # Kafka's brokers handle these, and SCRAM users, outside of the controller's event thread.
            return ControllerState.IDLE
        case AlterUserScramCredentialsRequest() | DescribeUserScramCredentialsRequest():
            return ControllerState.IDLE
        case UpdateFeaturesRequest():
            return ControllerState.UPDATE_FEATURES
        case _:
            assert_never(request)
