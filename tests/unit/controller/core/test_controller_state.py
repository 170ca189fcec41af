"""Which state Kafka's gauge shows for an event."""

from __future__ import annotations

import pytest

from lethe.controller.core import events
from lethe.controller.core.controller_state import ControllerState, state_of
from lethe.controller.core.effects import RebalanceLeaders, StandAgain
from lethe.controller.core.events import External
from lethe.protocol.kafka.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from lethe.protocol.kafka.control import LeaderAndIsrResponse, StopReplicaResponse, UpdateMetadataResponse
from lethe.protocol.kafka.to_controller import AdminRequest, AlterPartitionRequest, ControlledShutdownRequest
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId
from tests.fakes.one_controller import ANYONE

ANSWER = (BrokerId(1), BrokerEpoch(2), 3)


def asked(request: AdminRequest) -> events.ClientRequested:
    return events.ClientRequested(1, request, 0, ANYONE)


@pytest.mark.parametrize(
    "event, state",
    [
        (events.SessionEstablished(1, b""), ControllerState.CONTROLLER_CHANGE),
        (events.SessionLost("x"), ControllerState.CONTROLLER_CHANGE),
        (events.ControllerChanged(), ControllerState.CONTROLLER_CHANGE),
        (events.ControllerDeleted(), ControllerState.CONTROLLER_CHANGE),
        (events.BrokersChanged(), ControllerState.BROKER_CHANGE),
        (events.BrokerModified(BrokerId(1)), ControllerState.BROKER_CHANGE),
        (events.TopicsChanged(), ControllerState.TOPIC_CHANGE),
        (events.TopicsModified(("t",)), ControllerState.TOPIC_CHANGE),
        (events.TopicDeletionsRequested(), ControllerState.TOPIC_DELETION),
        (events.DeletionsPauseChanged(), ControllerState.TOPIC_DELETION),
        (events.StopReplicaResponseReceived(*ANSWER, StopReplicaResponse(0, ())), ControllerState.TOPIC_DELETION),
        (
            events.LeaderAndIsrResponseReceived(*ANSWER, LeaderAndIsrResponse(0, ())),
            ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED,
        ),
        (
            events.UpdateMetadataResponseReceived(*ANSWER, UpdateMetadataResponse(0)),
            ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED,
        ),
        (
            events.BrokerRequested(1, ControlledShutdownRequest(BrokerId(1), BrokerEpoch(2)), 3),
            ControllerState.CONTROLLED_SHUTDOWN,
        ),
        (
            events.BrokerRequested(1, AlterPartitionRequest(BrokerId(1), BrokerEpoch(2), ()), 3),
            ControllerState.ISR_CHANGE,
        ),
        (asked(CreateTopicsRequest((), 0)), ControllerState.TOPIC_CHANGE),
        (asked(CreatePartitionsRequest((), 0)), ControllerState.TOPIC_CHANGE),
        (asked(DeleteTopicsRequest((), 0)), ControllerState.TOPIC_DELETION),
        (asked(ElectLeadersRequest(None, 0)), ControllerState.MANUAL_LEADER_BALANCE),
        (asked(AlterPartitionReassignmentsRequest((), 0)), ControllerState.ALTER_PARTITION_REASSIGNMENT),
        (asked(ListPartitionReassignmentsRequest(None, 0)), ControllerState.LIST_PARTITION_REASSIGNMENT),
        (events.ResignationRequested("x"), ControllerState.CONTROLLER_SHUTDOWN),
        (events.IsrChangesNotified(), ControllerState.ISR_CHANGE),
        (events.LogDirEventsNotified(), ControllerState.LOG_DIR_CHANGE),
        (events.PreferredElectionsRequested(), ControllerState.MANUAL_LEADER_BALANCE),
        (events.ConfigurationChanged(), ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE),
        (events.TimerFired(RebalanceLeaders()), ControllerState.AUTO_LEADER_BALANCE),
        (events.TimerFired(StandAgain()), ControllerState.IDLE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_state_that_kafkas_gauge_shows(event: External, state: ControllerState) -> None:
    assert state_of(event) is state


def test_numbers_are_those_of_kafkas_gauge() -> None:
    assert {state.name: int(state) for state in ControllerState} == {
        "IDLE": 0,
        "CONTROLLER_CHANGE": 1,
        "BROKER_CHANGE": 2,
        "TOPIC_CHANGE": 3,
        "TOPIC_DELETION": 4,
        "ALTER_PARTITION_REASSIGNMENT": 5,
        "AUTO_LEADER_BALANCE": 6,
        "MANUAL_LEADER_BALANCE": 7,
        "CONTROLLED_SHUTDOWN": 8,
        "ISR_CHANGE": 9,
        "LEADER_AND_ISR_RESPONSE_RECEIVED": 10,
        "LOG_DIR_CHANGE": 11,
        "CONTROLLER_SHUTDOWN": 12,
        "UNCLEAN_LEADER_ELECTION_ENABLE": 13,
        "LIST_PARTITION_REASSIGNMENT": 15,
        "UPDATE_METADATA_RESPONSE_RECEIVED": 16,
        "UPDATE_FEATURES": 17,
    }
