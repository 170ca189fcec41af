"""Marked topics that are requested back: kept while nothing of them is destroyed, and refused in words otherwise."""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.scope import Scope
from lethe.controller.core.undeleting import INHERITED
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, SetData, ZkError
from lethe.protocol.zookeeper.znodes import (
    DeletionOrders,
    RequestedAction,
    TopicRequest,
    decode_topic_request,
    encode_controller_epoch,
    encode_deletion_marker,
    encode_topic_request,
)
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController, is_deletion
from tests.scenarios.plot import causes, cluster, led, refusals, text, with_topic
from tests.scenarios.test_pause import Held, pause, resume


def request(world: OneController, name: str) -> None:
    for path in (paths.lethe(), paths.requests()):
        if not world.exists(path):
            world.write(Create(path, None))
    world.write(Create(paths.request(name), encode_topic_request(TopicRequest(RequestedAction.UNDELETE))))
    world.run()


def refused(world: OneController, name: str) -> str | None:
    found = world.read(paths.request(name))
    return None if found is None else decode_topic_request(name, found.data).refused


def held(world: OneController, name: str = "orders") -> OneController:
    pause(with_topic(world, name, (1, 2)))
    world.mark(name)
    world.run()
    return world


def test_held_topic_loses_its_marker_and_stays() -> None:
    world = held(cluster())
    world.take_story()
    request(world, "orders")
    assert world.take_story() == text("""
        * TopicRequestsChanged
        zk delete /admin/delete_topics/orders
        zk delete /lethe/requests/orders
        * TopicDeletionsRequested
        * TopicRequestsChanged
    """)
    assert causes(world, "orders") == []
    resume(world)
    assert led(world, "orders") == (1, 0, (1, 2))
    assert refusals(world, "topic/orders") == []


def test_request_made_before_the_term_is_answered_by_the_next_controller() -> None:
    world = held(cluster())
    world.crash()
    request(world, "orders")
    assert refused(world, "orders") is None
    world.elect()
    assert refused(world, "orders") == INHERITED
    assert world.exists(paths.delete_topic("orders"))


def test_topic_of_which_a_controller_that_died_may_have_deleted_replicas_is_refused() -> None:
    """Found by `make explore`: the pause came after the crash, so no marker says that the deletion has begun."""
    world = with_topic(cluster(), "orders", (1, 2))
    world.answer = Held(2)
    world.mark("orders")
    world.run()
    assert any(is_deletion(send) and send.broker == 1 for send in world.sent)
    world.crash()
    pause(world)
    world.elect()
    request(world, "orders")
    assert refused(world, "orders") == INHERITED
    assert world.exists(paths.delete_topic("orders"))


def test_topic_that_is_marked_anew_in_the_term_is_brought_back() -> None:
    world = held(cluster())
    world.crash()
    world.elect()
    world.unmark("orders")
    world.run()
    world.mark("orders")
    world.run()
    request(world, "orders")
    assert not world.exists(paths.delete_topic("orders"))
    resume(world)
    assert led(world, "orders") is not None


def test_topic_whose_deletion_has_begun_is_refused_and_goes() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    brokers = world.answer = Held(2)
    world.mark("orders")
    world.run()
    request(world, "orders")
    assert refused(world, "orders") == "its deletion has begun, and replicas may be deleted already"
    assert refusals(world, "topic/orders") == [refused(world, "orders")]
    assert world.exists(paths.delete_topic("orders"))
    brokers.let_go(world)
    assert not world.exists(paths.topic("orders"))


def test_topic_whose_deletion_has_begun_under_another_controller_is_refused() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.answer = Held(2)
    world.mark("orders")
    world.run()
    pause(world)
    world.crash()
    world.elect()
    request(world, "orders")
    assert refused(world, "orders") == "its deletion has begun, and replicas may be deleted already"
    assert world.exists(paths.delete_topic("orders"))


def test_marker_that_says_that_the_deletion_has_begun_is_believed_before_memory() -> None:
    world = held(cluster())
    topic = world.read(paths.topic("orders"))
    assert topic is not None
    data = encode_deletion_marker(DeletionOrders(begun=topic.stat.czxid))
    world.write(SetData(paths.delete_topic("orders"), data, -1))
    request(world, "orders")
    told = "its deletion has begun under another controller, and replicas may be deleted already"
    assert refused(world, "orders") == told


def test_refused_request_is_answered_once() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    request(world, "orders")
    assert refused(world, "orders") == "it is not marked for deletion"
    world.take_story()
    pause(world)
    world.mark("orders")
    world.run()
    request(world, "other")
    assert refused(world, "other") == "it is not marked for deletion"
    assert len(refusals(world, "topic/orders")) == 1
    assert world.exists(paths.delete_topic("orders"))


def test_marker_without_a_topic_is_refused_while_it_is_there() -> None:
    world = cluster()
    pause(world)
    world.refusals[paths.delete_topic("ghost")] = ZkError.NO_AUTH
    world.mark("ghost")
    request(world, "ghost")
    world.run()
    assert refused(world, "ghost") == f"reading its marker failed with {NO_AUTH}"


def test_controller_that_is_here_for_other_topics_keeps_the_marker() -> None:
    world = OneController(scope=Scope(frozenset({"bills"})))
    cluster(world=world)
    with_topic(world, "orders", (1, 2))
    world.mark("orders")
    world.run()
    request(world, "orders")
    assert refused(world, "orders") == "the active controller is here for other topics only"
    assert world.exists(paths.delete_topic("orders"))


def test_marker_that_another_client_removes_at_the_same_time_is_found_missing() -> None:
    world = held(cluster())
    others = ["orders"]

    def unmark(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and others:
            world.unmark(others.pop())

    world.meanwhile = unmark
    request(world, "orders")
    assert others == []
    assert refused(world, "orders") == "it is not marked for deletion"
    assert led(world, "orders") is not None


def test_malformed_request_is_recorded_and_left() -> None:
    world = held(cluster())
    world.write(Create(paths.requests(), None))
    world.run()
    world.write(Create(paths.request("orders"), b"please"))
    world.run()
    (why,) = refusals(world, "topic/orders")
    assert why.startswith("znode /lethe/requests/orders cannot be understood: not JSON")
    assert world.exists(paths.delete_topic("orders"))


# --- held for the trash, and another controller took over -------------------------------------------------------------


def freezing(world: OneController, grace_ms: int = 86_400_000) -> OneController:
    """The topic cannot go into the trash: the offsets of its groups are not seen."""
    world.groups.problem = "broker 1 does not answer"
    world.write(Create(paths.delete_topic("orders"), encode_deletion_marker(DeletionOrders(grace_ms=grace_ms))))
    world.run()
    assert world.exists(paths.trashed("orders"))
    return world


def with_groups() -> OneController:
    return with_topic(with_topic(cluster(), GROUP_METADATA_TOPIC, (1,)), "orders", (1, 2))


def test_topic_that_was_freezing_before_a_failover_is_brought_back() -> None:
    world = freezing(with_groups())
    world.crash()
    world.elect()
    world.advance(60_000)
    request(world, "orders")
    assert not world.exists(paths.delete_topic("orders"))
    assert not world.exists(paths.trashed("orders"))
    assert led(world, "orders") == (1, 0, (1, 2))


def test_topic_of_which_kafkas_controller_may_have_deleted_replicas_is_refused() -> None:
    """It had control in between, ignores the grace period, and leaves no note."""
    world = freezing(with_groups())
    world.crash()
    epoch = world.read(paths.controller_epoch())
    assert epoch is not None
    world.write(SetData(paths.controller_epoch(), encode_controller_epoch(int(epoch.data or b"") + 1), -1))
    world.elect()
    request(world, "orders")
    assert refused(world, "orders") == INHERITED
    assert world.exists(paths.delete_topic("orders"))


@pytest.mark.parametrize("again", [False, True])
def test_topic_that_was_marked_before_the_term_in_which_it_froze_is_refused(again: bool) -> None:
    """Whose term it was in which it was marked is not known: Kafka's controller may have deleted replicas. The entry
    proves nothing if the present controller has made it."""
    world = with_groups()
    pause(world)
    world.write(Create(paths.delete_topic("orders"), encode_deletion_marker(DeletionOrders(grace_ms=1_000))))
    world.run()
    world.crash()
    world.groups.problem = "broker 1 does not answer"
    world.elect()
    resume(world)
    assert world.exists(paths.trashed("orders"))
    if again:
        world.crash()
        world.elect()
    request(world, "orders")
    assert refused(world, "orders") == INHERITED


@pytest.mark.parametrize("anew", [True, False])
def test_topic_whose_marker_was_written_since_it_froze_is_refused(anew: bool) -> None:
    """Other orders may have held meanwhile."""
    world = freezing(with_groups())
    marker = world.read(paths.delete_topic("orders"))
    assert marker is not None
    world.crash()
    if anew:
        world.write(Delete(paths.delete_topic("orders")))
        world.write(Create(paths.delete_topic("orders"), marker.data))
    else:
        world.write(SetData(paths.delete_topic("orders"), marker.data, -1))
    world.elect()
    request(world, "orders")
    assert refused(world, "orders") == INHERITED
