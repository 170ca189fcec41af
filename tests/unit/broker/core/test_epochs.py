"""The epoch checks of all three requests, as in Kafka's BrokerEpochIntegrationTest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lethe.broker.core.agent import MAX_WAITING_REQUESTS, step
from lethe.broker.core.effects import Refuse
from lethe.broker.core.epochs import MAX_UNCONFIRMED
from lethe.broker.core.inputs import (
    BrokerRegistered,
    ControllerEpochAnswer,
    ControllerEpochReceived,
    ControllerEpochUnavailable,
    ControlReceived,
)
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import (
    Addressed,
    ControlRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    probe_request,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from tests.unit.broker.core.driver import EPOCH, A, Driver, Entry, FakeDisk, X, become, metadata, stop

REQUESTS = pytest.mark.parametrize(
    "request_", [become(partitions=(0, 1)), metadata(), stop(partitions=(0, 1))], ids=["lai", "umr", "stop"]
)

REQUESTS_OF_ANY_EPOCH = pytest.mark.parametrize("build", [become, metadata, stop])
Builder = Callable[..., ControlRequest]


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
        case LeaderAndIsrResponse(rows=rows):
            assert [row.error for row in rows] == [ErrorCode.STALE_BROKER_EPOCH] * 2
        case StopReplicaResponse(rows=rows):
            assert rows == ()
        case other:
            assert other.error == ErrorCode.STALE_BROKER_EPOCH


def test_a_probe_is_answered_and_is_no_refusal() -> None:
    """A controller that begins probes every broker: a warning about a stale epoch would send people after nothing."""
    driver = Driver()
    answer = driver.stop(probe_request(BrokerId(9)), -1)
    assert answer.error == ErrorCode.STALE_CONTROLLER_EPOCH
    assert driver.records(EventRecordType.REFUSAL) == []
    assert driver.stop(stop(controller_epoch=-1), -1).error == ErrorCode.STALE_CONTROLLER_EPOCH
    assert len(driver.records(EventRecordType.REFUSAL)) == 1, "an order without an epoch is refused"


FORGED = 2_147_483_647


def refused(driver: Driver) -> list[int]:
    """Tokens of the requests whose connections were closed instead of an answer."""
    return [effect.token for effect in driver.effects if isinstance(effect, Refuse)]


@REQUESTS_OF_ANY_EPOCH
def test_a_forged_controller_epoch_is_not_adopted(build: Builder) -> None:
    driver = Driver()
    driver.controller_epoch = ControllerEpoch(5)
    driver.leader_and_isr(become(controller_epoch=5))
    forged = driver.send(build(controller_epoch=FORGED))
    assert refused(driver) == [forged]
    assert driver.state.controller_epoch == 5
    (said,) = driver.records(EventRecordType.REFUSAL)
    assert said.data["why"] == "unconfirmed controller epoch: /controller_epoch in ZooKeeper is 5"
    assert (said.data["epoch"], said.data["known_epoch"]) == (FORGED, 5)
    assert driver.replies[driver.send(build(controller_epoch=5))].response.error == ErrorCode.NONE


@REQUESTS_OF_ANY_EPOCH
def test_without_an_answer_of_zookeeper_nothing_is_adopted_and_the_controller_tries_again(build: Builder) -> None:
    driver = Driver()
    driver.controller_epoch = ControllerEpochUnavailable("no connection to ZooKeeper")
    first = driver.send(build(controller_epoch=5))
    assert refused(driver) == [first]
    assert driver.state.controller_epoch == 0
    driver.controller_epoch = ControllerEpoch(5)
    assert driver.replies[driver.send(build(controller_epoch=5))].response.error == ErrorCode.NONE
    assert driver.state.controller_epoch == 5


def test_an_epoch_that_zookeeper_has_named_is_not_asked_for_again() -> None:
    driver = Driver()
    driver.controller_epoch = ControllerEpoch(7)
    for _ in range(3):
        assert driver.stop(stop(controller_epoch=7)).error == ErrorCode.NONE
    assert driver.epochs_asked == 1
    driver.send(stop(controller_epoch=8))
    assert driver.epochs_asked == 2


def test_a_request_for_an_earlier_registration_is_refused_without_asking_zookeeper() -> None:
    driver = Driver()
    assert driver.stop(stop(controller_epoch=FORGED), EPOCH - 1).error == ErrorCode.STALE_BROKER_EPOCH
    assert driver.epochs_asked == 0


def test_while_zookeeper_is_asked_the_known_controller_is_obeyed() -> None:
    driver = Driver()
    driver.leader_and_isr(become(controller_epoch=5))
    driver.controller_epoch = None
    forged = driver.send(stop(controller_epoch=FORGED))
    assert driver.stop(stop(controller_epoch=5)).error == ErrorCode.NONE
    assert forged not in driver.replies
    answered(driver, 5, 9)
    assert refused(driver) == [forged]


def test_an_answer_counts_for_what_came_before_the_question_only() -> None:
    driver = Driver()
    driver.controller_epoch = None
    first, second = driver.send(metadata(controller_epoch=6)), driver.send(metadata(controller_epoch=7))
    third = driver.send(metadata(controller_epoch=6))
    assert driver.epochs_asked == 1
    answered(driver, 6, 9)
    assert sorted(driver.replies) == [first, third], "asked for or not, 6 is confirmed"
    assert refused(driver) == []
    assert driver.epochs_asked == 2
    answered(driver, 7, 9)
    assert driver.replies[second].response.error == ErrorCode.NONE
    assert driver.state.controller_epoch == 7


def test_a_flood_of_forged_epochs_is_refused_not_kept_and_the_known_controller_is_obeyed() -> None:
    driver = Driver()
    driver.leader_and_isr(become(controller_epoch=5))
    driver.controller_epoch = None
    forged = [driver.send(stop(controller_epoch=FORGED)) for _ in range(MAX_UNCONFIRMED + 1)]
    assert refused(driver) == forged[-1:]
    assert driver.stop(stop(controller_epoch=5)).error == ErrorCode.NONE


@REQUESTS_OF_ANY_EPOCH
def test_controller_epochs_are_adopted_and_never_go_back(build: Builder) -> None:
    driver = Driver()
    for epoch, expected in [(5, 0), (5, 0), (7, 0), (6, ErrorCode.STALE_CONTROLLER_EPOCH), (7, 0)]:
        request = build(controller_epoch=epoch)
        driver.controller_epoch = ControllerEpoch(epoch)
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
    driver.state.confirmed_epoch, driver.state.confirmed_controller = ControllerEpoch(5), BrokerId(9)
    assert step(driver.state, ControlReceived(1, Addressed(become(), EPOCH)), 0)
    for token in range(2, MAX_WAITING_REQUESTS + 2):
        assert step(driver.state, ControlReceived(token, Addressed(stop(), EPOCH)), 0) == ()
    (refused,) = step(driver.state, ControlReceived(9999, Addressed(stop(), EPOCH)), 0)
    assert isinstance(refused, Refuse)
    assert refused.token == 9999


# --- whose epoch it is --------------------------------------------------------------------------------------------


def of(controller: int, epoch: int) -> StopReplicaRequest:
    return replace(stop(controller_epoch=epoch), controller_id=BrokerId(controller))


def answered(driver: Driver, epoch: int, holder: int | None) -> None:
    named = None if holder is None else BrokerId(holder)
    driver.feed(ControllerEpochReceived(ControllerEpoch(epoch), named))


def test_an_epoch_is_obeyed_only_from_the_controller_that_zookeeper_names() -> None:
    driver = Driver()
    driver.controller_epoch = None
    forged = driver.send(of(9, 6))
    answered(driver, 6, 7)
    assert refused(driver) == [forged]
    assert driver.state.controller_epoch == 0
    (said,) = driver.records(EventRecordType.REFUSAL)
    assert said.data["why"] == "unconfirmed controller epoch: /controller_epoch in ZooKeeper is 6, of controller 7"
    assert driver.stop(of(7, 6)).error == ErrorCode.NONE
    again = driver.send(of(9, 6))
    answered(driver, 6, 7)
    assert refused(driver) == [forged, again]
    assert driver.stop(of(7, 6)).error == ErrorCode.NONE


def test_an_id_that_differs_is_asked_for_again() -> None:
    driver = Driver()
    driver.controller_epoch = None
    driver.send(of(7, 6))
    answered(driver, 6, 8)
    assert len(refused(driver)) == 1
    true = driver.send(of(7, 6))
    answered(driver, 6, 7)
    assert driver.replies[true].response.error == ErrorCode.NONE


def test_an_epoch_of_which_zookeeper_shows_no_controller_is_obeyed_from_nobody_and_a_known_id_is_kept() -> None:
    driver = Driver()
    driver.controller_epoch = None
    resigned = driver.send(of(7, 6))
    answered(driver, 6, None)
    assert refused(driver) == [resigned]
    (said,) = driver.records(EventRecordType.REFUSAL)
    seen = "/controller_epoch in ZooKeeper is 6, and no /controller shows whose it is"
    assert said.data["why"] == f"unconfirmed controller epoch: {seen}"
    again = driver.send(of(7, 6))
    answered(driver, 6, 7)
    assert driver.replies[again].response.error == ErrorCode.NONE
    forged = driver.send(of(9, 6))
    answered(driver, 6, None)
    assert refused(driver) == [resigned, forged]
    assert driver.stop(of(7, 6)).error == ErrorCode.NONE


@REQUESTS_OF_ANY_EPOCH
@pytest.mark.parametrize("epoch", [0, 1, 6])
@pytest.mark.parametrize("broker_epoch", [EPOCH, -1])
@pytest.mark.parametrize("answer", [ControllerEpoch(7), ControllerEpochUnavailable("it is away")])
def test_an_agent_that_has_just_started_obeys_no_earlier_epoch(
    build: Builder, epoch: int, broker_epoch: int, answer: ControllerEpochAnswer
) -> None:
    driver = Driver(FakeDisk({A: {"t-0": Entry(X, 10, 1)}}))
    driver.controller_epoch = answer
    token = driver.send(build(controller_epoch=epoch), broker_epoch)
    assert list(driver.disk.log_dirs[A]) == ["t-0"]
    if isinstance(answer, ControllerEpochUnavailable):
        assert refused(driver) == [token]
    else:
        assert driver.replies[token].response.error == ErrorCode.STALE_CONTROLLER_EPOCH
    assert driver.state.controller_epoch == 0


def test_nobody_is_obeyed_under_the_epoch_before_the_first_election() -> None:
    driver = Driver()
    driver.controller_epoch = ControllerEpoch(0)
    token = driver.send(of(9, 0))
    assert refused(driver) == [token]


def test_a_forged_high_epoch_does_not_bring_back_the_one_that_is_over() -> None:
    """It makes the agent ask, and so learn that its controller was followed by another one."""
    driver = Driver()
    driver.leader_and_isr(become(controller_epoch=5))
    driver.controller_epoch, driver.controller = ControllerEpoch(6), BrokerId(8)
    forged = driver.send(of(666, FORGED))
    assert refused(driver) == [forged]
    for controller in (666, 9):
        assert driver.stop(of(controller, 5)).error == ErrorCode.STALE_CONTROLLER_EPOCH
    assert driver.records(EventRecordType.REFUSAL)[-1].data["known_epoch"] == 6
    assert driver.stop(of(8, 6)).error == ErrorCode.NONE
