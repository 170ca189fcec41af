"""Each cause for which a topic is not gone yet, with who, since when, how often, and when it is tried again."""

from __future__ import annotations

import pytest

from controller.core.gauges import Gauges, gauges
from controller.core.waiting import Wait, WaitingFor, all_waits, waits
from protocol.kafka.errors import ErrorCode
from protocol.vocabulary import BrokerId, TopicPartition
from protocol.zookeeper import paths
from protocol.zookeeper.operations import Create, ZkError
from tests.fakes.one_controller import OneController, Refusing
from tests.scenarios.plot import cluster, with_topic

W = WaitingFor


def doomed() -> OneController:
    return with_topic(cluster(), "t", (1, 2))


def test_topic_that_is_not_marked_waits_for_nothing() -> None:
    world = doomed()
    assert waits(world.context, "t") == waits(world.context, "unknown") == ()
    assert all_waits(world.context) == {}


def test_broker_to_return_since_it_left() -> None:
    world = doomed()
    world.silent[2] = None
    world.mark("t")
    world.run()
    world.now_ms += 100
    world.stop_broker(2)
    world.run()
    assert waits(world.context, "t") == (Wait("t", W.BROKER_TO_RETURN, world.now_ms, 0, BrokerId(2), attempts=1),)


def test_broker_that_left_before_is_waited_for_since_the_topic_is_to_go() -> None:
    world = doomed()
    world.stop_broker(2)
    world.run()
    world.now_ms += 100
    world.mark("t")
    world.run()
    assert waits(world.context, "t") == (Wait("t", W.BROKER_TO_RETURN, world.now_ms, 0, BrokerId(2), attempts=1),)


def test_broker_to_return_that_was_gone_before_we_were_elected_since_then() -> None:
    world = doomed()
    world.crash()
    world.stop_broker(2)
    world.mark("t")
    world.now_ms += 100
    world.elect()
    (wait,) = waits(world.context, "t")
    assert (wait.waiting_for, wait.since_ms) == (W.BROKER_TO_RETURN, world.context.elected_at_ms)


def test_broker_that_is_shutting_down() -> None:
    world = doomed()
    world.context.shutting_down[BrokerId(2)] = None
    world.silent = {2: None}
    world.mark("t")
    world.run()
    assert [wait.waiting_for for wait in waits(world.context, "t")] == [W.BROKER_TO_FINISH_SHUTDOWN]


def test_failed_log_directory() -> None:
    world = doomed()
    world.context.offline_dirs[BrokerId(2)] = {TopicPartition("t", 0): None}
    world.mark("t")
    world.run()
    assert [wait.waiting_for for wait in waits(world.context, "t")] == [W.LOG_DIRECTORY]


def test_answer_since_it_was_asked() -> None:
    world = doomed()
    world.silent = {2: None}
    world.now_ms += 50
    world.mark("t")
    world.run()
    assert waits(world.context, "t") == (Wait("t", W.ANSWER, world.now_ms, 0, BrokerId(2), attempts=1),)


def test_next_try_with_the_last_error_and_its_time() -> None:
    world = doomed()
    world.answer = Refusing(2, ErrorCode.KAFKA_STORAGE_ERROR)
    world.mark("t")
    world.run()
    began_ms = world.now_ms
    world.advance(500)
    assert waits(world.context, "t") == (
        Wait("t", W.NEXT_TRY, began_ms, 0, BrokerId(2), 2, "KAFKA_STORAGE_ERROR", world.now_ms + 1000),
    )


def test_tombstone_answer_since_the_replicas_were_done() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.silent = {3: None}
    world.mark("t")
    world.run()
    assert waits(world.context, "t") == (Wait("t", W.TOMBSTONE_ANSWER, world.now_ms, broker=BrokerId(3), attempts=1),)


def test_znodes_that_may_not_be_removed() -> None:
    world = doomed()
    world.refusals[paths.config_topic("t")] = ZkError.NO_AUTH
    world.mark("t")
    world.run()
    (wait,) = waits(world.context, "t")
    assert (wait.waiting_for, wait.last_error) == (W.ZNODES, "NO_AUTH at /config/topics/t")
    assert wait.next_try_ms == world.now_ms + 500


@pytest.mark.parametrize("first", ["topic", "marker", "election"])
def test_unreadable_znode(first: str) -> None:
    world = cluster()
    if first == "election":
        world.crash()
    if first == "marker":
        # The children watch on the markers fires before the one on the topics.
        world.write(Create(paths.delete_topic("t"), None), Create(paths.topic("t"), b"?"))
    else:
        world.write(Create(paths.topic("t"), b"?"))
        world.run()
        assert waits(world.context, "t") == (), "nobody wants it gone"
        world.mark("t")
    if first == "election":
        world.elect()
    world.now_ms += 100
    world.run()
    (wait,) = waits(world.context, "t")
    assert wait.waiting_for is W.READABLE_ZNODE
    assert wait.last_error == world.context.set_aside_topics["t"].reason
    assert all_waits(world.context) == {"t": (wait,)}
    world.unmark("t")
    world.run()
    assert waits(world.context, "t") == ()
    assert all_waits(world.context) == {}


def test_gauges_are_nought_while_not_leading() -> None:
    world = doomed()
    assert gauges(world.context) == Gauges(
        active_controller_count=1, global_topic_count=1, global_partition_count=1, active_broker_count=3
    )
    world.crash()
    assert gauges(world.context) == Gauges()


def test_gauges_count_offline_and_imbalanced_partitions_and_topics_set_aside() -> None:
    world = doomed()
    world.write(Create(paths.topic("broken"), b"?"))
    with_topic(world, "single", (1,))
    world.stop_broker(1)
    world.run()
    seen = gauges(world.context)
    assert (seen.offline_partitions_count, seen.preferred_replica_imbalance_count) == (1, 2)
    assert seen.set_aside_topic_count == 1
