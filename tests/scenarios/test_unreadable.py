"""Topics whose znode cannot be understood, and that a person wants gone all the same."""

from __future__ import annotations

import uuid

import pytest

from lethe.controller.core.deletion_memory import OTHER_INCARNATION
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData, ZkError, error_words
from tests.fakes.one_controller import OneController, is_deletion
from tests.scenarios.plot import causes, cluster, is_gone, refusals, text, with_topic

T = paths.topic("orders")
ORDER = znodes.encode_deletion_marker(znodes.DeletionOrders(unreadable=True))


def order(world: OneController, name: str = "orders") -> None:
    """Mark the topic, in the words that mean it even if it is unreadable."""
    world.write(Create(paths.delete_topic(name), ORDER))


def broken(world: OneController, *partitions: tuple[int, ...]) -> OneController:
    """A topic that was in service, and whose znode is garbage when the next controller comes."""
    with_topic(world, "orders", *partitions)
    world.crash()
    world.write(SetData(T, b"{garbage", ANY_VERSION))
    world.elect()
    assert "orders" in world.context.cluster.quarantined_topics
    world.take_story()
    return world


def test_it_is_deleted_on_every_broker_and_its_tree_is_removed() -> None:
    world = broken(cluster(), (1, 2))
    order(world)
    world.run()
    assert world.take_story() == text("""
        * TopicDeletionsRequested
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader -2
        -> 1,2,3 StopReplica: orders-0 epoch -2
        -> 1,2,3 StopReplica: orders-0 epoch -2 delete
        -> 1,2,3 DescribeLogDirs
        -> 1,2,3 StopReplica
        <- 1,2,3 UpdateMetadata ok
        <- 1,2,3 StopReplica ok
        <- 1,2,3 StopReplica ok
        <- 1,2,3 DescribeLogDirs ok
        <- 1,2,3 StopReplica ok
        zk delete /brokers/topics/orders/partitions/0/state
        zk delete /brokers/topics/orders/partitions/0
        zk delete /brokers/topics/orders/partitions
        zk delete /brokers/topics/orders
        zk delete /config/topics/orders
        zk delete /admin/delete_topics/orders
        * TopicsChanged
        * DeletionMarkerModified orders
        * TopicDeletionsRequested
    """)
    assert is_gone(world, "orders")
    (told,) = [f for f in world.recorded(EventRecordType.SET_ASIDE) if "deleted although" in str(f.data["reason"])]
    assert "may keep bytes" in str(told.data["reason"])


def test_in_sync_replica_on_a_broker_that_is_away_is_waited_for() -> None:
    world = broken(cluster(), (1, 2), (3, 1))
    world.stop_broker(2)
    world.run()
    order(world)
    world.run()
    assert causes(world, "orders") == [(0, 2, "BROKER_TO_RETURN")]
    world.start_broker(2)
    world.run()
    assert is_gone(world, "orders")


def test_marker_without_the_order_holds_it_until_the_marker_is_rewritten() -> None:
    world = broken(cluster(), (1, 2))
    world.mark("orders")
    world.run()
    assert causes(world, "orders") == [(None, None, "READABLE_ZNODE")]
    assert "StopReplica" not in world.take_story()
    world.write(SetData(paths.delete_topic("orders"), ORDER or b"", ANY_VERSION))
    world.run()
    assert is_gone(world, "orders")


def test_order_found_at_a_takeover_is_obeyed() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.crash()
    world.write(SetData(T, b"?", ANY_VERSION))
    order(world)
    world.elect()
    assert is_gone(world, "orders")


def test_crash_in_the_middle_is_finished_by_the_next_controller() -> None:
    world = broken(cluster(), (1, 2))
    world.silent = {2: None}
    order(world)
    world.run()
    assert causes(world, "orders") == [(0, 2, "ANSWER")]
    world.crash()
    world.silent = {}
    world.elect()
    assert is_gone(world, "orders")


def test_order_for_a_readable_topic_is_an_ordinary_marker() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    order(world)
    world.run()
    story = world.take_story()
    assert is_gone(world, "orders")
    assert "-> 3 StopReplica" not in story
    assert "LeaderAndIsr" not in story


def test_znode_that_is_repaired_before_it_is_looked_at_is_taken_in_and_deleted_as_what_it_is() -> None:
    world = broken(cluster(), (1, 2))
    world.zookeeper.take_fired()
    repaired = znodes.encode_topic(znodes.TopicZnode({0: ReplicaAssignment((1, 2))}))
    order(world)
    # The order is read before the watch on the topic's znode is told.
    world.write(SetData(T, repaired, ANY_VERSION))
    world.run()
    assert is_gone(world, "orders")
    assert "3 StopReplica" not in world.take_story()


@pytest.mark.parametrize("partitions", [1, 2])
def test_znode_that_is_repaired_while_it_is_deleted_is_not_written_over(partitions: int) -> None:
    world = broken(cluster(), (1, 2))
    world.silent = {3: None}
    order(world)
    world.run()
    topic_id = TopicId(uuid.UUID(int=7))
    assignments = {number: ReplicaAssignment((1, 2)) for number in range(partitions)}
    repaired = znodes.encode_topic(znodes.TopicZnode(assignments, topic_id))
    world.take_story()
    world.write(SetData(T, repaired, ANY_VERSION))
    world.run()
    assert "zk set" not in world.take_story(), "what is known of it was made up from what there was"
    found = world.read(T)
    assert found is not None
    assert found.data == repaired
    assert "made up" in refusals(world, "topic/orders")[-1]
    world.crash()
    world.silent = {}
    world.elect()
    assert is_gone(world, "orders"), "the next controller deletes it as what it is"
    assert "3 StopReplica" not in world.take_story()


def test_without_partitions_only_its_znodes_go() -> None:
    world = cluster()
    world.write(Create(T, b"?"), Create(f"{T}/notes", b"x"))
    order(world)
    world.run()
    assert is_gone(world, "orders")
    assert "-> " not in world.take_story()


def test_topic_of_an_illegal_name_is_announced_to_nobody() -> None:
    world = cluster()
    world.create_topic("a:b", (1, 2))
    world.write(
        Create(paths.topic_partitions("a:b"), None),
        Create(paths.topic_partition("a:b", 0), None),
    )
    order(world, "a:b")
    world.run()
    assert is_gone(world, "a:b")
    assert "-> " not in world.take_story()


def test_foreign_children_and_states_that_say_nothing_are_no_obstacle() -> None:
    world = broken(cluster(), (1, 2), (2, 3))
    world.write(
        SetData(paths.partition_state("orders", 1), b"?", ANY_VERSION), Create(f"{T}/partitions/old-7", b"notes")
    )
    world.write(Create(f"{T}/partitions/2147483647", b""))
    world.take_story()
    order(world)
    world.run()
    assert "StopReplica: orders-0 epoch -2 delete, orders-1 epoch -2 delete" in world.take_story()
    assert is_gone(world, "orders")


def test_partitions_that_may_not_be_listed_keep_it_held_with_the_reason() -> None:
    world = broken(cluster(), (1, 2))
    world.refusals[paths.topic_partitions("orders")] = ZkError.NO_AUTH
    order(world)
    world.run()
    mark = world.context.cluster.marks["orders"]
    why = f"/brokers/topics/orders/partitions: {error_words(ZkError.NO_AUTH)}"
    assert (mark.held_by, mark.last_error) == (CauseKind.READABLE_ZNODE, why)
    assert refusals(world, "topic/orders") == [why]


@pytest.mark.parametrize("first", ["pause", "order"])
def test_while_paused_it_stays_held(first: str) -> None:
    world = broken(cluster(), (1, 2))
    if first == "order":
        order(world)
    world.write(Create(paths.lethe(), None), Create(paths.deletions_paused(), None))
    if first == "pause":
        world.run()
        order(world)
        world.run()
        assert causes(world, "orders") == [(None, None, "READABLE_ZNODE")]
        world.write(Delete(paths.deletions_paused()))
        world.run()
    else:
        world.run()
        world.write(Delete(paths.deletions_paused()))
        world.run()
    assert is_gone(world, "orders")


@pytest.mark.parametrize("is_named", [False, True])
def test_an_order_that_names_an_earlier_topic_deletes_no_unreadable_one(is_named: bool) -> None:
    world = broken(cluster(), (1, 2))
    found = world.read(T)
    assert found is not None
    named = znodes.DeletionOrders(unreadable=True, topic_czxid=found.stat.czxid if is_named else 1)
    world.write(Create(paths.delete_topic("orders"), znodes.encode_deletion_marker(named)))
    world.run()
    assert is_gone(world, "orders") is is_named
    assert refusals(world, "topic/orders") == ([] if is_named else [OTHER_INCARNATION])
    assert any(is_deletion(each) for each in world.sent) is is_named
