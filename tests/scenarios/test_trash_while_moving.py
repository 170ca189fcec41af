"""Reassignments of a topic on its way into the trash: they end, as those of every marked topic.

Found by the simulator: the topic was moved before its marker was read, or after its retention was switched off, to
replicas that never came in sync. It stayed in service, marked, and nothing said why.
"""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.events import OffsetsRead
from lethe.protocol.kafka.control import LeaderAndIsrRequest
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from lethe.protocol.zookeeper.znodes import TrashPhase, encode_reassignment
from tests.fakes.consumer_groups import SlowGroups
from tests.fakes.one_controller import OneController, consent, is_deletion
from tests.scenarios.plot import cluster, led, refusals, with_topic
from tests.scenarios.test_pause import Held
from tests.scenarios.test_trash import FREEZE_MS, entry, mark, phase_of
from tests.scenarios.test_undelete_marked import request

MOVED = TopicPartition("orders", 0)


def ask_to_move(world: OneController) -> None:
    """Another client asks for replicas of which broker 3 never comes in sync."""
    world.write(Create(paths.reassign_partitions(), encode_reassignment({MOVED: (1, 3)})))


def go_on(world: OneController) -> None:
    """Brokers get their time, and what was not possible then is tried once more."""
    for ms in (FREEZE_MS, world.context.config.retry_max_ms):
        world.advance(ms)


def frozen_and_moving() -> OneController:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    ask_to_move(world)
    world.run()
    assert MOVED in world.context.cluster.reassignments
    return world


def test_topic_that_is_moved_while_its_retention_is_off_goes_into_the_trash() -> None:
    world = frozen_and_moving()
    go_on(world)
    assert phase_of(world) is TrashPhase.TRASHED
    assert not world.context.cluster.reassignments
    assert not world.exists(paths.reassign_partitions())
    assert refusals(world, "topic/orders") == []


def test_replicas_of_origin_and_target_are_in_the_trash_and_come_back() -> None:
    world = frozen_and_moving()
    go_on(world)
    found = entry(world)
    assert found is not None
    assert found.partitions[0].replicas == (1, 3, 2)
    request(world, "orders")
    assert phase_of(world) is None
    assert led(world, "orders") == (1, found.partitions[0].leader_epoch + 1, found.partitions[0].isr)


def test_next_controller_does_not_go_on_moving_it() -> None:
    world = frozen_and_moving()
    world.crash()
    world.elect()
    go_on(world)
    assert phase_of(world) is TrashPhase.TRASHED


def test_reassignment_that_begins_while_offsets_are_read_ends_too() -> None:
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (1,))
    with_topic(world, "orders", (1, 2))
    before, slow = world.groups, SlowGroups()
    world.groups = slow
    mark(world, "orders")
    world.advance(FREEZE_MS)
    ask_to_move(world)
    world.run()
    world.groups = before
    world.feed(OffsetsRead(slow.asked[0], {}))
    assert phase_of(world) is TrashPhase.FREEZING
    go_on(world)
    go_on(world)
    assert phase_of(world) is TrashPhase.TRASHED


def assigned(world: OneController, broker: int) -> tuple[int, ...] | None:
    """The replicas that the last LeaderAndIsr to this broker names."""
    sent = [send.request for send in world.sent if send.broker == broker]
    found = [request for request in sent if isinstance(request, LeaderAndIsrRequest)]
    return found[-1].topics[0].partitions[0].replicas if found else None


def test_replica_of_an_abandoned_target_is_announced_again_where_the_topic_stays() -> None:
    """Broker 3 deletes its replica when the move is cancelled; the marker makes it a replica again."""
    world = with_topic(cluster(), "orders", (1, 2))
    ask_to_move(world)
    world.run()
    brokers = world.answer = Held(3)
    cancelled = encode_reassignment({MOVED: (1, 2)})
    world.write(SetData(paths.reassign_partitions(), cancelled, ANY_VERSION))
    world.run()
    assert any(is_deletion(send) for send in brokers.sends)
    world.write(Delete(paths.reassign_partitions()))
    mark(world, "orders")
    request(world, "orders")
    brokers.let_go(world)
    assert phase_of(world) is None
    assert [assigned(world, broker) for broker in (1, 2, 3)] == [(1, 2, 3)] * 3
    leader = led(world, "orders")
    assert leader is not None
    assert leader[1] == 3, "brokers take in no other replicas without a new leader epoch"


def test_replicas_of_a_topic_that_is_deleted_at_once_are_not_announced() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask_to_move(world)
    world.run()
    world.take_story()
    world.mark("orders")
    world.run()
    assert "LeaderAndIsr" not in world.take_story()


def test_next_controller_announces_the_replicas_of_a_move_that_it_ends() -> None:
    """The former controller has cancelled the move and died before broker 3 has deleted its replica."""
    world = with_topic(cluster(), "orders", (1, 2))
    ask_to_move(world)
    world.run()
    world.answer = Held(3)
    world.write(SetData(paths.reassign_partitions(), encode_reassignment({MOVED: (1, 2)}), ANY_VERSION))
    world.run()
    world.write(Delete(paths.reassign_partitions()))
    world.crash()
    mark(world, "orders")
    world.answer = consent
    world.elect()
    assert [assigned(world, broker) for broker in (1, 2, 3)] == [(1, 2, 3)] * 3
    leader = led(world, "orders")
    assert leader is not None
    assert leader[1] == 3


@pytest.mark.parametrize("meanwhile", [False, True])
def test_topic_whose_marker_is_removed_is_moved_as_asked(meanwhile: bool) -> None:
    world = frozen_and_moving()

    def called_off(effect: ReadZnodes | WriteZnodes) -> None:
        world.meanwhile = lambda _: None
        world.write(Delete(paths.delete_topic("orders")))

    if meanwhile:
        world.meanwhile = called_off
    else:
        world.write(Delete(paths.delete_topic("orders")))
        world.run()
    go_on(world)
    assert phase_of(world) is None
    assert MOVED in world.context.cluster.reassignments


@pytest.mark.parametrize("by_request", [False, True])
def test_topic_that_stays_after_its_move_was_ended_is_moved_as_is_still_requested(by_request: bool) -> None:
    """Found by the simulator: the request stayed in the list until the next takeover."""
    world = with_topic(cluster(), "orders", (1, 2))
    ask_to_move(world)
    world.run()
    mark(world, "orders")
    assert phase_of(world) is TrashPhase.FREEZING
    assert not world.context.cluster.reassignments
    assert world.exists(paths.reassign_partitions())
    if by_request:
        request(world, "orders")
    else:
        world.write(Delete(paths.delete_topic("orders")))
        world.run()
    assert phase_of(world) is None
    assert world.context.cluster.reassignments[MOVED].written.target == (1, 3)


def test_topic_that_stays_is_not_moved_where_the_request_was_withdrawn() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask_to_move(world)
    world.run()
    mark(world, "orders")
    world.write(Delete(paths.reassign_partitions()))
    world.write(Delete(paths.delete_topic("orders")))
    world.run()
    assert not world.context.cluster.reassignments
    assert world.context.cluster.topics["orders"].partitions[0].assignment == ReplicaAssignment((1, 3, 2))
