"""What a controller that died in the middle, Kafka's or ours, may leave in ZooKeeper: the next one finishes it."""

from __future__ import annotations

import pytest

from lethe.protocol.vocabulary import LeaderAndIsr, ReplicaAssignment
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, is_gone, led, refusals, text, with_topic

T = paths.topic("orders")
SHAPES = {
    "one partition without its state": (f"{T}/partitions/0/state",),
    "one partition gone": (f"{T}/partitions/0/state", f"{T}/partitions/0"),
    "no partition left": (
        f"{T}/partitions/0/state",
        f"{T}/partitions/0",
        f"{T}/partitions/1/state",
        f"{T}/partitions/1",
    ),
    "not even their parent": (
        f"{T}/partitions/0/state",
        f"{T}/partitions/0",
        f"{T}/partitions/1/state",
        f"{T}/partitions/1",
        f"{T}/partitions",
    ),
    "configuration gone first": (paths.config_topic("orders"),),
}


@pytest.mark.parametrize("removed", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("when", ["at failover", "while leading"])
def test_topic_of_which_a_part_is_gone_is_deleted_to_the_end(removed: tuple[str, ...], when: str) -> None:
    world = with_topic(cluster(), "orders", (1, 2), (2, 3))
    if when == "at failover":
        world.crash()
    world.write(*(Delete(path) for path in removed))
    world.mark("orders")
    if when == "at failover":
        world.elect()
    world.run()
    assert is_gone(world, "orders")


@pytest.mark.parametrize("shape", list(SHAPES)[:4])
def test_topic_of_which_a_part_is_gone_looks_at_every_replicas_broker_before_it_believes_them(shape: str) -> None:
    world = with_topic(cluster(), "orders", (1, 2), (2, 3))
    world.crash()
    world.write(*(Delete(path) for path in SHAPES[shape]))
    world.mark("orders")
    world.take_story()
    world.elect()
    story = world.take_story()
    assert "-> 1,2,3 DescribeLogDirs" in story
    assert "LeaderAndIsr" not in story
    assert "UpdateMetadata brokers 1,2,3: orders-0 leader -2, orders-1 leader -2" in story


def test_topic_znodes_that_nobody_knows_go_with_the_topic() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.write(Create(f"{T}/partitions/0/reserved", b"x"), Create(f"{T}/notes", b"y"))
    world.write(Create(f"{T}/partitions/7", None))
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")


@pytest.mark.parametrize("with_config", [True, False])
def test_marker_without_topic_found_at_failover_goes_with_the_configuration_beside_it(with_config: bool) -> None:
    """As after a controller of Kafka's that died between the topic's znode and its configuration."""
    world = OneController()
    world.start_broker(1)
    world.mark("orders")
    if with_config:
        world.write(Create(paths.config_topic("orders"), znodes.encode_config({})))
    world.elect()
    assert is_gone(world, "orders")
    assert refusals(world, "topic/orders") == ["there is no such topic; its marker is removed"]


def test_marker_without_topic_that_appears_while_leading_goes_alone() -> None:
    """The configuration may be the first half of a topic that is just being created."""
    world = cluster()
    world.write(Create(paths.config_topic("orders"), znodes.encode_config({})))
    world.mark("orders")
    world.run()
    assert not world.exists(paths.delete_topic("orders"))
    assert world.exists(paths.config_topic("orders"))


def test_topic_created_and_marked_before_the_controller_saw_it_is_deleted() -> None:
    """Kafka drops such a marker, and the caller of DeleteTopics waits in vain."""
    world = cluster()
    world.zookeeper.take_fired()
    world.mark("orders")
    world.create_topic("orders", (1, 2))
    world.run()
    assert is_gone(world, "orders")


@pytest.mark.parametrize("when", ["at failover", "while leading"])
def test_deletion_disabled_removes_the_marker_and_nothing_else(when: str) -> None:
    world = with_topic(cluster(world=OneController(delete_topic_enable=False)), "orders", (1, 2))
    if when == "at failover":
        world.crash()
    world.mark("orders")
    if when == "at failover":
        world.elect()
    world.run()
    assert not world.exists(paths.delete_topic("orders"))
    assert led(world, "orders") == (1, 0, (1, 2))
    assert refusals(world, "topic/orders") == ["delete.topic.enable is false"]
    assert "leader -2" not in world.take_story()


def test_partition_znode_left_without_state_by_a_controller_that_died_gets_its_state() -> None:
    world = cluster()
    world.crash()
    world.create_topic("orders", (1, 2), (2, 3))
    world.write(Create(f"{T}/partitions", None), Create(f"{T}/partitions/0", None))
    world.elect()
    assert led(world, "orders", 0) == (1, 0, (1, 2))
    assert led(world, "orders", 1) == (2, 0, (2, 3))


def test_partition_that_has_a_state_already_keeps_it() -> None:
    """As in Kafka the partition stays New: who wrote that state may lead it."""
    world = cluster()
    foreign = znodes.encode_state(LeaderAndIsr(3, 5, (3,), world.context.cluster.epoch))
    znode = znodes.encode_topic(znodes.TopicZnode({0: ReplicaAssignment((1, 3))}))
    world.write(
        Create(T, znode),
        Create(f"{T}/partitions", None),
        Create(f"{T}/partitions/0", None),
        Create(f"{T}/partitions/0/state", foreign),
    )
    world.run()
    assert refusals(world, "partition/orders-0") == ["writing its state: NODE_EXISTS"]
    found = world.read(paths.partition_state("orders", 0))
    assert found is not None
    assert found.data == foreign


def test_crash_between_the_two_writes_of_a_large_topic_is_finished_by_the_next_controller() -> None:
    world = with_topic(cluster(world=OneController(max_operations_per_group=6)), "orders", *[(1, 2)] * 5)
    world.mark("orders")
    writes: list[object] = []

    class CrashError(Exception):
        pass

    def crash_before_the_last(effect: object) -> None:
        if hasattr(effect, "groups"):
            writes.append(effect)
            if len(writes) == 2:
                raise CrashError

    world.meanwhile = crash_before_the_last
    with pytest.raises(CrashError):
        world.run()
    assert world.zookeeper.children(f"{T}/partitions") == ()
    assert world.exists(paths.delete_topic("orders"))
    world.meanwhile = lambda _: None
    world.crash()
    world.elect()
    assert is_gone(world, "orders")


def test_tree_that_changes_while_it_is_removed_is_tried_again() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.write(Delete(f"{T}/partitions/0/state"))
    world.crash()
    world.mark("orders")
    meddled: list[str] = []

    def meddle(effect: object) -> None:
        if hasattr(effect, "groups") and "leader -2" in world.take_story() and not meddled:
            meddled.append("once")
            world.write(Create(f"{T}/late", b""))

    world.meanwhile = meddle
    world.elect()
    assert meddled
    assert refusals(world, "topic/orders")[-1] == "NOT_EMPTY"
    assert world.exists(paths.delete_topic("orders"))
    world.advance(500)
    assert is_gone(world, "orders")


def test_golden_removal_of_what_is_really_there() -> None:
    world = with_topic(cluster(1, 2), "orders", (1, 2), (2, 1))
    world.crash()
    world.write(Delete(f"{T}/partitions/0/state"), Delete(f"{T}/partitions/0"), Delete(paths.config_topic("orders")))
    world.mark("orders")
    world.take_story()
    world.elect()
    lines = [line for line in world.take_story().splitlines() if line.startswith("zk delete")]
    assert "\n".join(lines) == text("""
        zk delete /brokers/topics/orders/partitions/1/state
        zk delete /brokers/topics/orders/partitions/1
        zk delete /brokers/topics/orders/partitions
        zk delete /brokers/topics/orders
        zk delete /admin/delete_topics/orders
    """)
