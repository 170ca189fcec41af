"""Deletions paused and resumed: nothing is sent or removed meanwhile, and nothing that was answered is lost."""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Answer
from lethe.controller.core.gauges import gauges
from lethe.protocol.journal import EventRecordType
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData, ZkError
from lethe.protocol.zookeeper.znodes import (
    DeletionOrders,
    DeletionsPaused,
    decode_deletion_marker,
    encode_deletion_marker,
    encode_deletions_paused,
)
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController, Refusing, consent, is_deletion
from tests.scenarios.plot import causes, cluster, is_gone, led, refusals, role, text, with_topic

ANOTHER_ERROR = 56


def pause(world: OneController) -> None:
    if not world.exists(paths.lethe()):
        world.write(Create(paths.lethe(), None))
    data = encode_deletions_paused(DeletionsPaused(world.now_ms, "a disk is being replaced"))
    world.write(Create(paths.deletions_paused(), data))
    world.run()


def resume(world: OneController) -> None:
    world.write(Delete(paths.deletions_paused()))
    world.run()


class Held:
    """Brokers that keep requests to delete in their hands until they are let go."""

    def __init__(self, *brokers: int) -> None:
        self.brokers = brokers
        self.sends: list[Send] = []

    def __call__(self, send: Send) -> Answer | None:
        if send.broker not in self.brokers:
            return consent(send)
        if not is_deletion(send) and not any(each.broker == send.broker for each in self.sends):
            return consent(send)
        self.sends.append(send)
        return None

    def let_go(self, world: OneController) -> None:
        sends, self.sends = self.sends, []
        for send in sends:
            world.feed(consent(send))
        world.run()


def test_topic_marked_while_paused_stays_in_service_and_goes_when_deletions_go_on() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    pause(world)
    world.take_story()
    world.mark("orders")
    world.run()
    assert world.take_story() == "* TopicDeletionsRequested"
    assert causes(world, "orders") == [(None, None, "RESUMPTION")]
    assert (gauges(world.context).deletions_paused, gauges(world.context).held_topic_count) == (1, 1)
    world.stop_broker(1)
    world.run()
    assert led(world, "orders") == (2, 1, (2, 3)), "it is led as if nobody had marked it"
    world.start_broker(1)
    world.run()
    assert "orders-0 leader 2" in world.take_story()
    resume(world)
    assert is_gone(world, "orders")
    assert gauges(world.context).deletions_paused == 0


def test_topic_unmarked_while_paused_is_untouched() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    pause(world)
    world.mark("orders")
    world.run()
    world.unmark("orders")
    world.run()
    assert causes(world, "orders") == []
    world.take_story()
    resume(world)
    assert world.take_story() == "* DeletionsPauseChanged"
    assert led(world, "orders") == (1, 0, (1, 2, 3))


def test_answers_that_arrive_while_paused_are_kept_and_nothing_follows_them() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    held = world.answer = Held(1, 2)
    world.mark("orders")
    world.run()
    pause(world)
    world.take_story()
    held.let_go(world)
    assert world.take_story() == "<- 1,2 StopReplica ok"
    assert world.context.cluster.deletions["orders"].all_acknowledged
    assert world.context.cluster.deletions["orders"].acknowledged_at_ms == world.now_ms
    assert world.exists(paths.topic("orders"))
    resume(world)
    assert world.take_story() == text("""
        * DeletionsPauseChanged
        zk delete /brokers/topics/orders/partitions/0/state
        zk delete /brokers/topics/orders/partitions/0
        zk delete /brokers/topics/orders/partitions
        zk delete /brokers/topics/orders
        zk delete /config/topics/orders
        zk delete /admin/delete_topics/orders
        * TopicsChanged
        * TopicDeletionsRequested
    """)


def test_errors_that_arrive_while_paused_are_tried_again_only_after_it() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.answer = Refusing(2, ANOTHER_ERROR)
    world.mark("orders")
    world.run()
    world.advance(500)
    assert world.context.cluster.deletions["orders"].attempts == 2
    pause(world)
    world.answer = consent
    world.take_story()
    world.advance(60_000)
    assert world.take_story() == "* TimerFired RetryDeletions"
    assert world.context.cluster.deletions["orders"].attempts == 2
    resume(world)
    assert is_gone(world, "orders")


def test_broker_that_returns_while_paused_is_told_nothing_of_the_topic_and_deletes_nothing_before_the_end() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.stop_broker(2)
    world.run()
    world.mark("orders")
    world.run()
    pause(world)
    world.take_story()
    world.start_broker(2)
    world.run()
    story = world.take_story()
    assert "orders" not in story
    resume(world)
    assert is_gone(world, "orders")


def test_tombstone_that_was_refused_is_not_repeated_while_paused() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2))
    world.silent = {4: None}
    world.mark("orders")
    world.run()
    assert causes(world, "orders") == [(None, 4, "TOMBSTONE_ANSWER")]
    pause(world)
    world.take_story()
    world.stop_broker(4)
    world.run()
    assert world.exists(paths.topic("orders"))
    assert "orders" not in world.take_story()
    resume(world)
    assert is_gone(world, "orders")


def test_pause_outlives_the_controller_and_its_successor_queues_nothing() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.mark("orders")
    world.crash()
    world.write(Create(paths.lethe(), None), Create(paths.deletions_paused(), b"by hand"))
    world.take_story()
    world.elect()
    story = world.take_story()
    assert "StopReplica" not in story
    assert "leader -2" not in story
    assert causes(world, "orders") == [(None, None, "RESUMPTION")]
    assert "unreadable" in (world.context.cluster.paused.reason if world.context.cluster.paused else "")
    assert led(world, "orders") == (1, 0, (1, 2, 3))
    resume(world)
    assert is_gone(world, "orders")


def begun_and_paused(world: OneController) -> OneController:
    """Broker 1 has deleted its replica of `orders` and broker 2 has not answered when deletions are paused."""
    world.answer = Held(2)
    world.mark("orders")
    world.run()
    pause(world)
    world.answer = consent
    return world


def test_deletion_that_had_begun_before_the_pause_stays_out_of_service_under_the_next_controller() -> None:
    world = begun_and_paused(with_topic(cluster(), "orders", (1, 2)))
    with_topic(world, "bills", (1, 2))
    world.mark("bills")
    world.run()
    topic = world.read(paths.topic("orders"))
    marker = world.read(paths.delete_topic("orders"))
    assert topic is not None
    assert marker is not None
    assert decode_deletion_marker(marker.data).begun == topic.stat.czxid
    world.crash()
    world.take_story()
    world.elect()
    story = world.take_story()
    assert "orders-0 leader -2" in story, "brokers are told to answer no client"
    assert "orders-0 leader 1" not in story
    assert "orders-0 leader 2" not in story
    assert "StopReplica" not in story
    assert (list(world.context.cluster.deletions), list(world.context.cluster.marks)) == (["orders"], ["bills"])
    assert {cause for _, _, cause in causes(world, "orders")} == {"RESUMPTION"}
    assert led(world, "bills") == (1, 0, (1, 2)), "what had not begun is held, and in service"
    world.stop_broker(1)
    world.run()
    world.start_broker(1)
    world.run()
    assert "StopReplica" not in world.take_story()
    resume(world)
    assert is_gone(world, "orders")
    assert is_gone(world, "bills")


def test_topic_made_anew_under_the_marker_of_one_that_had_begun_to_go_is_held_in_service() -> None:
    world = begun_and_paused(with_topic(cluster(), "orders", (1, 2)))
    world.crash()
    world.write(
        Delete(paths.partition_state("orders", 0)),
        Delete(paths.topic_partition("orders", 0)),
        Delete(paths.topic_partitions("orders")),
        Delete(paths.config_topic("orders")),
        Delete(paths.topic("orders")),
    )
    world.create_topic("orders", (2, 3))
    world.elect()
    assert list(world.context.cluster.marks) == ["orders"]
    assert led(world, "orders") == (2, 0, (2, 3))


def test_order_to_delete_an_unreadable_topic_stays_in_its_marker() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.crash()
    world.write(SetData(paths.topic("orders"), b"?", ANY_VERSION))
    world.write(Create(paths.delete_topic("orders"), encode_deletion_marker(DeletionOrders(unreadable=True))))
    world.answer = Held(2)
    world.elect()
    pause(world)
    marker = world.read(paths.delete_topic("orders"))
    assert marker is not None
    assert decode_deletion_marker(marker.data).unreadable
    assert decode_deletion_marker(marker.data).begun is not None
    world.answer = consent
    world.crash()
    world.elect()
    assert causes(world, "orders") == [(None, None, "READABLE_ZNODE")]
    resume(world)
    assert is_gone(world, "orders")


@pytest.mark.parametrize("error", [ZkError.NO_AUTH, ZkError.NO_NODE])
def test_marker_that_cannot_be_written_is_recorded_and_nothing_stands_still(error: ZkError) -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    marker = paths.delete_topic("orders")

    def refuse(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and any(each.path == marker for group in effect.groups for each in group):
            world.refusals[marker] = error

    world.meanwhile = refuse
    begun_and_paused(world)
    assert world.refusals, "the note was tried"
    told = refusals(world, "topic/orders")
    assert told == ([NO_AUTH] if error is ZkError.NO_AUTH else [])
    world.refusals.clear()
    resume(world)
    assert "orders" in world.context.cluster.deletions


def test_pause_is_recorded_once_however_often_it_is_rewritten() -> None:
    world = cluster()
    pause(world)
    world.write(SetData(paths.deletions_paused(), b"{}", ANY_VERSION))
    world.run()
    resume(world)
    told = [f.data["what"] for f in world.recorded(EventRecordType.EVENT) if "deletions" in str(f.data.get("what"))]
    assert told == ["deletions are paused", "deletions go on"]
    assert role(world).name == "ACTIVE"


def test_markers_of_unknown_topics_go_while_paused_as_ever() -> None:
    world = cluster()
    pause(world)
    world.mark("ghost")
    world.run()
    assert is_gone(world, "ghost")
