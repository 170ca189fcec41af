"""Partitions added to a topic's znode, and what else somebody writes there."""

from __future__ import annotations

import dataclasses

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.transitions import PartitionState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import ReplicaAssignment
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData, ZkError
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, is_gone, led, refusals, text, with_topic


def topic_znode(world: OneController, name: str) -> znodes.TopicZnode:
    found = world.read(paths.topic(name))
    assert found is not None
    return znodes.decode_topic(name, found.data)


def write_topic(world: OneController, name: str, **changed: object) -> None:
    """As a tool does: read, change, write whatever the version."""
    znode = dataclasses.replace(topic_znode(world, name), **changed)  # type: ignore[arg-type]
    world.write(SetData(paths.topic(name), znodes.encode_topic(znode), ANY_VERSION))


def assignments(*partitions: tuple[int, ...]) -> dict[int, ReplicaAssignment]:
    return {number: ReplicaAssignment(replicas) for number, replicas in enumerate(partitions)}


def test_an_added_partition_gets_a_leader_and_everybody_hears_of_it() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    write_topic(world, "orders", assignments=assignments((1, 2), (2, 3)))
    world.run()
    assert world.take_story() == text("""
        * TopicsModified orders
        zk create /brokers/topics/orders/partitions
        zk create /brokers/topics/orders/partitions/1
        zk create /brokers/topics/orders/partitions/1/state: leader 2 epoch 0 isr 2,3
        -> 2,3 LeaderAndIsr: orders-1 leader 2 epoch 0 isr 2,3 new
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-1 leader 2 epoch 0 isr 2,3
        <- 2,3 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
    """)
    assert led(world, "orders", 0) == (1, 0, (1, 2))
    assert led(world, "orders", 1) == (2, 0, (2, 3))


def test_topic_partition_expansion_with_the_preferred_replica_down_is_led_by_the_live_one() -> None:
    world = with_topic(cluster(1, 2), "orders", (1, 2))
    write_topic(world, "orders", assignments=assignments((1, 2), (3, 2)))
    world.run()
    assert led(world, "orders", 1) == (2, 0, (2,))


def test_an_added_partition_whose_brokers_are_all_down_waits_for_them() -> None:
    world = with_topic(cluster(1, 2), "orders", (1, 2))
    write_topic(world, "orders", assignments=assignments((1, 2), (3,)))
    world.run()
    assert world.context.cluster.topics["orders"].partition_state(1) is PartitionState.NEW
    world.start_broker(3)
    world.run()
    assert led(world, "orders", 1) == (3, 0, (3,))


def test_partitions_added_while_the_topic_is_being_deleted_are_rolled_back() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.stop_broker(2)
    world.mark("orders")
    world.run()
    write_topic(world, "orders", assignments=assignments((1, 2), (2, 3)))
    world.run()
    assert topic_znode(world, "orders").assignments == assignments((1, 2))
    assert not world.exists(paths.topic_partition("orders", 1))
    assert "being deleted" in refusals(world, "topic/orders")[-2]
    world.start_broker(2)
    world.run()
    assert is_gone(world, "orders")


def test_partitions_added_and_the_topic_marked_before_either_was_seen_all_go() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    write_topic(world, "orders", assignments=assignments((1, 2), (2, 3)))
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")


def test_replicas_changed_by_hand_partitions_taken_out_and_a_lost_id_are_written_back() -> None:
    world = with_topic(cluster(), "orders", (1, 2), (2, 3))
    before = topic_znode(world, "orders")
    write_topic(world, "orders", assignments=assignments((3, 1)), topic_id=None)
    world.run()
    assert topic_znode(world, "orders") == before
    assert led(world, "orders", 0) == (1, 0, (1, 2))
    assert "only added partitions are accepted" in refusals(world, "topic/orders")[0]


def test_a_partition_added_together_with_a_forbidden_change_is_taken_in_and_the_change_is_not() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    write_topic(world, "orders", assignments=assignments((3,), (2, 3)))
    world.run()
    assert topic_znode(world, "orders").assignments == assignments((1, 2), (2, 3))
    assert led(world, "orders", 1) == (2, 0, (2, 3))


def test_writing_back_gives_way_to_another_writer_and_looks_again() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    writes = 0

    def add_one_meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        nonlocal writes
        writes += isinstance(effect, WriteZnodes)
        if writes == 1:
            writes += 1
            write_topic(world, "orders", assignments=assignments((1, 2), (2, 3)))

    world.meanwhile = add_one_meanwhile
    write_topic(world, "orders", topic_id=None)
    world.run()
    assert topic_znode(world, "orders").assignments == assignments((1, 2), (2, 3))
    assert topic_znode(world, "orders").topic_id == world.context.cluster.topics["orders"].id
    assert led(world, "orders", 1) == (2, 0, (2, 3))


def test_a_znode_removed_and_made_again_between_two_looks_is_another_topic() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    old_id = world.context.cluster.topics["orders"].id
    znode = topic_znode(world, "orders")
    for path in ("partitions/0/state", "partitions/0", "partitions"):
        world.write(Delete(f"{paths.topic('orders')}/{path}"))
    world.write(Delete(paths.topic("orders")))
    world.write(Create(paths.topic("orders"), znodes.encode_topic(dataclasses.replace(znode, topic_id=None))))
    world.run()
    assert world.context.cluster.topics["orders"].id != old_id
    assert topic_znode(world, "orders").topic_id == world.context.cluster.topics["orders"].id
    assert led(world, "orders") == (1, 0, (1, 2))
    assert "orders-0 leader -2" in world.take_story()


def test_a_znode_that_cannot_be_understood_any_more_is_left_alone_and_the_topic_goes_on() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.write(SetData(paths.topic("orders"), b"{", ANY_VERSION))
    world.run()
    found = world.read(paths.topic("orders"))
    assert found is not None
    assert found.data == b"{"
    assert refusals(world, "topic/orders")
    assert led(world, "orders") == (1, 0, (1, 2))
    data = znodes.encode_topic(znodes.TopicZnode(assignments((1, 2), (2, 1)), None))
    world.write(SetData(paths.topic("orders"), data, ANY_VERSION))
    world.run()
    assert led(world, "orders", 1) == (2, 0, (2, 1))


def test_a_write_back_that_is_refused_is_recorded_and_nothing_stands_still() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.refusals[paths.topic("orders")] = ZkError.NO_AUTH
    write_topic(world, "orders", topic_id=None)
    world.run()
    assert any("NO_AUTH" in why for why in refusals(world, "topic/orders"))


def test_our_own_writes_lead_to_nothing() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    version = world.context.cluster.topics["orders"].version
    found = world.read(paths.topic("orders"))
    assert found is not None
    assert found.stat.version == version
    assert not [record for record in world.recorded(EventRecordType.REFUSAL) if record.subject == "topic/orders"]
