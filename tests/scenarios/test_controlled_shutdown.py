"""A broker stops in order, alone and in the middle of a deletion."""

from __future__ import annotations

from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import ControlledShutdownRequest, ControlledShutdownResponse
from lethe.protocol.vocabulary import NO_EPOCH, BrokerId
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import causes, cluster, is_gone, led, text, with_topic

MAY_GO = ControlledShutdownResponse(ErrorCode.NONE)


def ask_to_stop(world: OneController, broker: int) -> object:
    return world.ask(ControlledShutdownRequest(BrokerId(broker), NO_EPOCH))


def test_leader_and_follower_are_relieved_and_nothing_is_without_a_leader_when_the_broker_goes() -> None:
    world = with_topic(cluster(), "orders", (1, 2), (2, 1))
    assert ask_to_stop(world, 1) == MAY_GO
    assert world.take_story() == text(
        """
        ? 1 ControlledShutdown
        zk set /brokers/topics/orders/partitions/0/state at version 0: leader 2 epoch 1 isr 2
        -> 1,2 LeaderAndIsr: orders-0 leader 2 epoch 1 isr 2
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader 2 epoch 1 isr 2 offline 1
        -> 1 StopReplica: orders-1 epoch 0
        zk set /brokers/topics/orders/partitions/1/state at version 0: leader 2 epoch 1 isr 2
        -> 2 LeaderAndIsr: orders-1 leader 2 epoch 1 isr 2
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-1 leader 2 epoch 1 isr 2 offline 1
        -> 1 StopReplica: orders-1 epoch 1
        zk check /controller_epoch at version 1
        ! ControlledShutdown still leads: nothing
        <- 1,2 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
        <- 1 StopReplica ok
        <- 2 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
        <- 1 StopReplica ok
        """
    )
    world.stop_broker(1)
    world.run()
    assert led(world, "orders", 0) == led(world, "orders", 1) == (2, 1, (2,))


def test_deletion_marked_while_a_broker_is_leaving_uses_the_time_there_is() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask_to_stop(world, 1)
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")


def test_shutdown_waits_for_no_deletion_and_what_was_not_answered_waits_for_the_return() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.silent[1] = None
    world.mark("orders")
    world.run()
    assert ask_to_stop(world, 1) == MAY_GO
    world.stop_broker(1)
    world.run()
    assert causes(world, "orders") == [(0, 1, "BROKER_TO_RETURN")]
    world.silent.clear()
    world.start_broker(1)
    world.run()
    assert is_gone(world, "orders")
