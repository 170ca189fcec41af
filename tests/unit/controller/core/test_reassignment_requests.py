"""What is asked for about partitions of which the controller has not heard yet."""

from __future__ import annotations

from lethe.controller.core.events import ReassignmentsRequested
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, refusals, with_topic

PATH = paths.reassign_partitions()


def heard_first_of(world: OneController, topic: str, partition: int, *replicas: int) -> OneController:
    """The request comes to the controller before everything else that has happened."""
    asked = {TopicPartition(topic, partition): replicas}
    world.write(Create(PATH, znodes.encode_reassignment(asked)))
    world.feed(ReassignmentsRequested())
    world.run()
    return world


def target(world: OneController, topic: str, partition: int) -> tuple[int, ...]:
    return world.context.cluster.topics[topic].partitions[partition].assignment.target


def test_topic_that_was_created_just_before() -> None:
    world = cluster()
    world.create_topic("orders", (1,), (1,))
    heard_first_of(world, "orders", 1, 2)
    assert target(world, "orders", 1) == (2,)
    assert list(world.context.cluster.reassignments) == [TopicPartition("orders", 1)]
    assert refusals(world, "partition/orders-1") == []


def test_partition_that_was_added_just_before() -> None:
    world = with_topic(cluster(), "orders", (1,))
    znode = znodes.TopicZnode({n: ReplicaAssignment((1,)) for n in (0, 1)}, world.context.cluster.topics["orders"].id)
    world.write(SetData(paths.topic("orders"), znodes.encode_topic(znode), ANY_VERSION))
    heard_first_of(world, "orders", 1, 2)
    assert target(world, "orders", 1) == (2,)
    assert refusals(world, "partition/orders-1") == []


def test_what_is_not_there_either_is_refused_when_it_was_looked_for_once() -> None:
    world = heard_first_of(with_topic(cluster(), "orders", (1,)), "ghosts", 0, 2)
    assert refusals(world, "partition/ghosts-0") == ["there is no such partition"]
    assert not world.exists(PATH)
    heard_first_of(world, "orders", 7, 2)
    assert refusals(world, "partition/orders-7") == ["there is no such partition"]
    assert not world.exists(PATH)


def test_request_that_is_written_over_while_its_topic_is_looked_for_is_looked_for_too() -> None:
    world = cluster()
    later = znodes.encode_reassignment({TopicPartition("bills", 0): (2,)})
    left = [None]

    def write_over(_: object) -> None:
        if left and world.exists(PATH) and world.context.awaiting_result and "orders" in world.context.cluster.topics:
            left.pop()
            world.create_topic("bills", (1,))
            world.write(SetData(PATH, later, ANY_VERSION))

    world.create_topic("orders", (1,))
    world.meanwhile = write_over
    heard_first_of(world, "orders", 0, 3)
    assert not left
    assert target(world, "bills", 0) == (2,)
