"""What others write into a topic while a controller loads: it is read, and served once brokers can be sent it."""

from __future__ import annotations

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, Operation, SetData
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, is_gone, with_topic
from tests.scenarios.test_trash_under_trouble import tree

MOVED = TopicPartition("orders", 0)


def moved_while_no_controller_is_there() -> OneController:
    """The controller crashes while a reassignment waits for a broker that is away; then the topic is marked."""
    world = with_topic(cluster(1, 2, 3), "orders", (1, 2))
    world.stop_broker(3)
    world.run()
    world.write(Create(paths.reassign_partitions(), znodes.encode_reassignment({MOVED: (2, 3)})))
    world.run()
    assert list(world.context.cluster.reassignments) == [MOVED]
    world.crash()
    world.mark("orders")
    return world


def meanwhile(world: OneController, *operations: Operation) -> list[None]:
    """Write this before the loading controller ends the topic's reassignment; the list is empty once it is done."""
    left = [None]

    def act(effect: ReadZnodes | WriteZnodes) -> None:
        if not left or not isinstance(effect, WriteZnodes):
            return
        if any(isinstance(each, SetData) and each.path == paths.topic("orders") for g in effect.groups for each in g):
            left.pop()
            assert not world.channels, "the controller still loads"
            world.write(*operations)

    world.meanwhile = act
    return left


def test_partitions_added_while_the_controller_loads_are_served_after_it_and_go_with_their_topic() -> None:
    world = moved_while_no_controller_is_there()
    topic = world.read(paths.topic("orders"))
    assert topic is not None
    assert topic.data is not None
    known = znodes.decode_topic("orders", topic.data)
    grown = znodes.TopicZnode({**known.assignments, 1: ReplicaAssignment((1, 2))}, known.topic_id)
    left = meanwhile(world, SetData(paths.topic("orders"), znodes.encode_topic(grown), topic.stat.version))
    world.elect()
    assert not left
    world.start_broker(3)
    world.run()
    assert is_gone(world, "orders")


def test_topic_made_again_while_the_controller_loads_is_the_one_that_is_deleted() -> None:
    world = moved_while_no_controller_is_there()
    again = znodes.encode_topic(znodes.TopicZnode({0: ReplicaAssignment((1, 2))}))
    settings = znodes.encode_config({})
    made = (Create(paths.config_topic("orders"), settings), Create(paths.topic("orders"), again))
    left = meanwhile(world, *(Delete(path) for path in tree("orders")), *made)
    world.elect()
    assert not left
    assert is_gone(world, "orders")
