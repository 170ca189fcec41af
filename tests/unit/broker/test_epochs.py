"""The epoch checks of all three requests, as in Kafka's BrokerEpochIntegrationTest."""

from __future__ import annotations

import pytest

from broker.core.agent import MAX_WAITING_REQUESTS, step
from broker.core.effects import Refuse
from broker.core.inputs import BrokerRegistered, ControlReceived
from protocol.kafka.control import Addressed, ControlRequest, LeaderAndIsrResponse, StopReplicaResponse
from protocol.kafka.errors import ErrorCode
from protocol.vocabulary import BrokerEpoch, TopicPartition
from tests.unit.broker.driver import EPOCH, Driver, become, metadata, stop

REQUESTS = pytest.mark.parametrize(
    "request_", [become(partitions=(0, 1)), metadata(), stop(partitions=(0, 1))], ids=["lai", "umr", "stop"]
)


@REQUESTS
@pytest.mark.parametrize(
    "epoch,expected",
    [
        (EPOCH, ErrorCode.NONE),
        (EPOCH - 1, ErrorCode.STALE_BROKER_EPOCH),
        (EPOCH + 1, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
    ],
)
def test_broker_epochs(request_: ControlRequest, epoch: int, expected: int) -> None:
    driver = Driver()
    response = driver.replies[driver.send(request_, epoch)].response
    assert response.error == expected
    if expected != ErrorCode.NONE:
        assert driver.disk.performed == []
        assert driver.state.controller_epoch == 0, "a refused request teaches nothing"


@REQUESTS
def test_a_stale_broker_epoch_lists_partitions_for_leader_and_isr_only(request_: ControlRequest) -> None:
    driver = Driver()
    match driver.replies[driver.send(request_, EPOCH - 1)].response:
        case LeaderAndIsrResponse(_, rows):
            assert [row.error for row in rows] == [ErrorCode.STALE_BROKER_EPOCH] * 2
        case StopReplicaResponse(_, rows):
            assert rows == ()
        case other:
            assert other.error == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("build", [become, metadata, stop])
def test_controller_epochs_are_adopted_and_never_go_back(build: object) -> None:
    driver = Driver()
    for epoch, expected in [(5, 0), (5, 0), (7, 0), (6, ErrorCode.STALE_CONTROLLER_EPOCH), (7, 0)]:
        request = build(controller_epoch=epoch)  # type: ignore[operator]
        assert driver.replies[driver.send(request)].response.error == expected
    assert driver.state.controller_epoch == 7


def test_an_agent_that_has_not_registered_yet_takes_requests() -> None:
    driver = Driver()
    driver.state.broker_epoch = BrokerEpoch(-1)
    assert driver.leader_and_isr(become(), broker_epoch=3).error == ErrorCode.NONE


def test_after_registering_again_requests_for_the_old_incarnation_are_refused() -> None:
    driver = Driver()
    driver.leader_and_isr(become())
    driver.feed(BrokerRegistered(BrokerEpoch(EPOCH + 5)))
    assert driver.stop(stop(), broker_epoch=EPOCH).error == ErrorCode.STALE_BROKER_EPOCH
    assert TopicPartition("t", 0) in driver.state.replicas
    assert driver.stop(stop(), broker_epoch=EPOCH + 5).error == ErrorCode.NONE
    assert TopicPartition("t", 0) not in driver.state.replicas


def test_a_flood_of_waiting_requests_is_refused_not_kept() -> None:
    driver = Driver()
    assert step(driver.state, ControlReceived(1, Addressed(become(), EPOCH)), 0)
    for token in range(2, MAX_WAITING_REQUESTS + 2):
        assert step(driver.state, ControlReceived(token, Addressed(stop(), EPOCH)), 0) == ()
    (refused,) = step(driver.state, ControlReceived(9999, Addressed(stop(), EPOCH)), 0)
    assert isinstance(refused, Refuse)
    assert refused.token == 9999
