"""What brokers are answered by a controller that is none any more, and has not been told yet."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Role
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControllerRequest,
    ControllerResponse,
)
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId
from lethe.protocol.zookeeper import paths
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import another_is_elected_meanwhile, cluster, text, with_topic


def same_isr(broker_epoch: BrokerEpoch) -> ControllerRequest:
    """What the leader has already."""
    row = AlterPartition(0, 0, (1, 2), 0, 0)
    return AlterPartitionRequest(BrokerId(1), broker_epoch, (AlterPartitionTopic("t", None, (row,)),))


def impossible_isr(broker_epoch: BrokerEpoch) -> ControllerRequest:
    row = AlterPartition(0, 0, (), 0, 0)
    return AlterPartitionRequest(BrokerId(1), broker_epoch, (AlterPartitionTopic("t", None, (row,)),))


def of_another_incarnation(broker_epoch: BrokerEpoch) -> ControllerRequest:
    return AlterPartitionRequest(BrokerId(1), BrokerEpoch(broker_epoch + 1), ())


def leaving(broker_epoch: BrokerEpoch) -> ControllerRequest:
    """Of broker 3, on which there is nothing."""
    return ControlledShutdownRequest(BrokerId(3), broker_epoch)


NOT_CONTROLLER = AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)
STALE = ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
NOTHING_TO_WRITE = pytest.mark.parametrize(
    "request_, broker, answer",
    [
        pytest.param(same_isr, 1, NOT_CONTROLLER, id="the same ISR"),
        pytest.param(impossible_isr, 1, NOT_CONTROLLER, id="an impossible ISR"),
        pytest.param(of_another_incarnation, 1, NOT_CONTROLLER, id="another incarnation"),
        pytest.param(leaving, 3, STALE, id="leaving"),
    ],
)


def epoch_of(world: OneController, broker: int) -> BrokerEpoch:
    return world.context.cluster.brokers[BrokerId(broker)].epoch


@NOTHING_TO_WRITE
def test_deposed_controller_gives_no_verdict_although_it_has_nothing_to_write(
    request_: object, broker: int, answer: ControllerResponse
) -> None:
    world = with_topic(cluster(), "t", (1, 2))
    another_is_elected_meanwhile(world)
    assert callable(request_)
    assert world.ask(request_(epoch_of(world, broker)), 1) == answer
    assert world.context.role is Role.STANDING_BY
    assert world.context.active_controller == 7


@NOTHING_TO_WRITE
def test_controller_in_charge_asks_once_whether_it_is(
    request_: object, broker: int, answer: ControllerResponse
) -> None:
    world = with_topic(cluster(), "t", (1, 2))
    assert callable(request_)
    given = world.ask(request_(epoch_of(world, broker)), 1)
    assert given != answer
    assert world.take_story().count(f"zk check {paths.controller_epoch()} at version 1") == 1


def test_golden_story_of_an_isr_that_is_there_already() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.ask(same_isr(epoch_of(world, 1)), 1)
    assert world.take_story() == text(
        """
        ? 1 AlterPartition
        -> 1,2,3 UpdateMetadata brokers 1,2,3: t-0 leader 1 epoch 0 isr 1,2
        zk check /controller_epoch at version 1
        ! AlterPartition t-0 isr 1,2 version 0
        <- 1,2,3 UpdateMetadata ok
        """
    )
