"""Deletions paused and resumed: nothing is sent or removed meanwhile, and nothing that was answered is lost."""

from __future__ import annotations

from controller.core.effects import Send
from controller.core.gauges import gauges
from protocol.journal import FactType
from protocol.kafka.control import StopReplicaRequest
from protocol.zookeeper import paths
from protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from protocol.zookeeper.znodes import DeletionsPaused, encode_deletions_paused
from tests.fakes.one_controller import Answer, OneController, Refusing, consent
from tests.scenarios.plot import causes, cluster, is_gone, led, role, text, with_topic

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
        if send.broker not in self.brokers or not isinstance(send.request, StopReplicaRequest):
            return consent(send)
        if not send.request.topics[0].partitions[0].delete:
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
    assert world.context.deletions["orders"].all_acknowledged
    assert world.context.deletions["orders"].acknowledged_at_ms == world.now_ms
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
    assert world.context.deletions["orders"].attempts == 2
    pause(world)
    world.answer = consent
    world.take_story()
    world.advance(60_000)
    assert world.take_story() == "* TimerFired RetryDeletions"
    assert world.context.deletions["orders"].attempts == 2
    resume(world)
    assert is_gone(world, "orders")


def test_broker_that_returns_while_paused_is_told_what_it_hosts_and_deletes_nothing_before_the_end() -> None:
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
    assert "-> 2 LeaderAndIsr: orders-0" in story
    assert "StopReplica" not in story
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
    assert "unreadable" in (world.context.paused.reason if world.context.paused else "")
    assert led(world, "orders") == (1, 0, (1, 2, 3))
    resume(world)
    assert is_gone(world, "orders")


def test_pause_is_recorded_once_however_often_it_is_rewritten() -> None:
    world = cluster()
    pause(world)
    world.write(SetData(paths.deletions_paused(), b"{}", ANY_VERSION))
    world.run()
    resume(world)
    told = [f.data["what"] for f in world.recorded(FactType.EVENT) if "deletions" in str(f.data.get("what"))]
    assert told == ["deletions are paused", "deletions go on"]
    assert role(world).name == "ACTIVE"


def test_markers_of_unknown_topics_go_while_paused_as_ever() -> None:
    world = cluster()
    pause(world)
    world.mark("ghost")
    world.run()
    assert is_gone(world, "ghost")
