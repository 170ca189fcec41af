"""Markers that name the incarnation of their topic: another topic of the name stays."""

from __future__ import annotations

import pytest

from lethe.controller.core.deletion_memory import OTHER_INCARNATION
from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import ReplicaAssignment
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, Exists, SetData, ZkError
from lethe.protocol.zookeeper.znodes import (
    DeletionOrders,
    OfflineReplicas,
    TopicZnode,
    decode_deletion_marker,
    encode_deletion_marker,
    encode_topic,
)
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController, is_deletion
from tests.scenarios.plot import causes, cluster, is_gone, led, refusals, with_topic
from tests.scenarios.test_pace import paced
from tests.scenarios.test_pause import pause

EARLIER = 1


def czxid(world: OneController, name: str) -> int:
    found = world.read(paths.topic(name))
    assert found is not None
    return found.stat.czxid


def mark(world: OneController, name: str, topic_czxid: int, **orders: OfflineReplicas | int) -> None:
    named = DeletionOrders(topic_czxid=topic_czxid, **orders)  # type: ignore[arg-type]
    world.write(Create(paths.delete_topic(name), encode_deletion_marker(named)))


def make_again(world: OneController, name: str, *replicas: int) -> int:
    """Another process removes the topic and creates one of its name; the czxid of that."""
    tree = [path for path in world.zookeeper.paths() if path.startswith(paths.topic(name))]
    data = encode_topic(TopicZnode({0: ReplicaAssignment(replicas)}, None))
    world.write(*(Delete(path) for path in sorted(tree, reverse=True)), Create(paths.topic(name), data))
    return czxid(world, name)


def stays(world: OneController, name: str) -> bool:
    """The topic is in service and not marked, and no request to delete it was sent."""
    in_service = not world.exists(paths.delete_topic(name)) and (led(world, name) or (-1,))[0] >= 0
    return in_service and not any(is_deletion(each) and name in str(each.request) for each in world.sent)


def two_topics(world: OneController | None = None) -> OneController:
    return with_topic(with_topic(cluster(world=world), "orders", (1, 2)), "bills", (2, 3))


def test_a_marker_that_names_the_topic_deletes_it() -> None:
    world = two_topics()
    mark(world, "orders", czxid(world, "orders"))
    world.run()
    assert is_gone(world, "orders")


def test_a_marker_that_names_an_earlier_topic_is_removed_and_others_are_deleted() -> None:
    world = two_topics()
    mark(world, "orders", EARLIER)
    mark(world, "bills", czxid(world, "bills"))
    world.run()
    assert stays(world, "orders")
    assert is_gone(world, "bills")
    assert refusals(world, "topic/orders") == [OTHER_INCARNATION]
    refused = world.context.refused_marks["orders"]
    assert (refused.why, refused.cause) == (OTHER_INCARNATION, CauseKind.OTHER_INCARNATION)
    phases = [f.data["phase"] for f in world.recorded(EventRecordType.DELETION_PHASE) if f.subject == "topic/orders"]
    assert phases == []
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders"), "an ordinary marker means whichever topic has the name"


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_controller_that_takes_over_compares_too(is_paused: bool) -> None:
    world = two_topics()
    if is_paused:
        pause(world)
    world.crash()
    mark(world, "orders", EARLIER)
    mark(world, "bills", czxid(world, "bills"))
    world.elect()
    assert stays(world, "orders")
    assert is_gone(world, "bills") is not is_paused
    assert refusals(world, "topic/orders") == [OTHER_INCARNATION]


def test_a_marker_of_the_topic_that_memory_does_not_have_yet_is_obeyed() -> None:
    """The marker is read before the controller has read that the topic was created again."""
    world = two_topics()
    again: list[int] = []

    def quicker(effect: ReadZnodes | WriteZnodes) -> None:
        marker = paths.delete_topic("bills")
        if not again and isinstance(effect, ReadZnodes) and any(each.path == marker for each in effect.reads):
            again.append(make_again(world, "orders", 2, 3))
            mark(world, "orders", again[0])

    world.meanwhile = quicker
    world.mark("bills")
    world.run()
    assert again
    assert is_gone(world, "orders")
    assert is_gone(world, "bills")
    assert OTHER_INCARNATION not in refusals(world, "topic/orders")


def test_a_topic_that_goes_meanwhile_is_no_other_topic() -> None:
    world = two_topics()

    def quicker(effect: ReadZnodes | WriteZnodes) -> None:
        compares = isinstance(effect, ReadZnodes) and Exists(paths.topic("orders")) in effect.reads
        if compares and world.exists(paths.topic("orders")):
            tree = [path for path in world.zookeeper.paths() if path.startswith(paths.topic("orders"))]
            world.write(*(Delete(path) for path in sorted(tree, reverse=True)))

    mark(world, "orders", EARLIER)
    world.meanwhile = quicker
    world.run()
    assert not world.exists(paths.topic("orders"))
    assert not world.exists(paths.delete_topic("orders"))
    assert "orders" not in world.context.cluster.topics
    assert OTHER_INCARNATION not in refusals(world, "topic/orders")


def test_a_marker_that_is_written_again_meanwhile_is_read_again() -> None:
    world = two_topics()

    def quicker(effect: ReadZnodes | WriteZnodes) -> None:
        removes = isinstance(effect, WriteZnodes) and any(
            isinstance(each, Delete) and each.path == paths.delete_topic("orders")
            for group in effect.groups
            for each in group
        )
        if removes and czxid(world, "orders") not in again:
            again.append(czxid(world, "orders"))
            named = DeletionOrders(topic_czxid=again[0])
            world.write(SetData(paths.delete_topic("orders"), encode_deletion_marker(named), -1))

    again: list[int] = []
    mark(world, "orders", EARLIER)
    world.meanwhile = quicker
    world.run()
    world.meanwhile = lambda _: None
    world.run()
    assert again
    assert is_gone(world, "orders")
    assert refusals(world, "topic/orders") == []


def test_what_cannot_be_compared_is_held() -> None:
    world = two_topics()
    world.refusals[paths.topic("orders")] = ZkError.NO_AUTH
    mark(world, "orders", EARLIER)
    world.run()
    held = world.context.cluster.marks["orders"]
    assert (held.held_by, held.last_error) == (CauseKind.OTHER_INCARNATION, NO_AUTH)
    assert causes(world, "orders") == [(None, None, "OTHER_INCARNATION")]
    assert led(world, "orders") == (1, 0, (1, 2))


def test_a_deletion_that_has_begun_goes_on_whatever_its_marker_names() -> None:
    world = two_topics()
    world.crash()
    mark(world, "orders", EARLIER, begun=czxid(world, "orders"))
    world.elect()
    assert is_gone(world, "orders")


def test_a_marker_that_is_another_one_when_the_turn_comes_is_compared() -> None:
    world = paced(topics=1)
    mark(world, "a", czxid(world, "a"))
    mark(world, "b", czxid(world, "b"))
    world.run()
    assert is_gone(world, "a")
    marker = paths.delete_topic("b")
    world.write(SetData(marker, encode_deletion_marker(DeletionOrders(topic_czxid=EARLIER)), -1))
    world.advance(1_000)
    world.advance(1_000)
    assert stays(world, "b")
    assert refusals(world, "topic/b") == [OTHER_INCARNATION]


def test_a_deletion_that_waits_takes_no_orders_that_are_for_another_topic() -> None:
    world = two_topics()
    world.stop_broker(2)
    world.run()
    mark(world, "orders", czxid(world, "orders"))
    world.run()
    assert "orders" in world.context.cluster.deletions
    orders = DeletionOrders(topic_czxid=EARLIER, offline_replicas=OfflineReplicas.OWE)
    world.write(SetData(paths.delete_topic("orders"), encode_deletion_marker(orders), -1))
    world.run()
    assert "orders" in world.context.cluster.deletions
    assert refusals(world, "topic/orders") == [OTHER_INCARNATION]


def test_notes_keep_what_the_marker_names() -> None:
    world = paced(topics=1)
    world.stop_broker(2)
    world.run()
    mark(world, "a", czxid(world, "a"))
    world.run()
    marker = world.read(paths.delete_topic("a"))
    assert marker is not None
    orders = decode_deletion_marker(marker.data)
    assert orders.begun == orders.topic_czxid == czxid(world, "a")
