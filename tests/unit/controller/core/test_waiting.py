"""Each cause for which a topic is not gone yet, with who, since when, how often, and when it is tried again."""

from __future__ import annotations

import pytest

from lethe.controller.core import mutation
from lethe.controller.core.deletion_memory import DeletionProblem, DeletionStage, RetriedAction
from lethe.controller.core.gauges import Gauges, gauges
from lethe.controller.core.transitions import ReplicaState
from lethe.controller.core.waiting import OldestWait, Wait, all_waits, oldest, waits
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, ZkError, error_words
from tests.fakes.one_controller import OneController, Refusing
from tests.scenarios.plot import cluster, with_topic
from tests.unit.controller.core.stage import add_topic, leading

W = CauseKind


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
    assert (wait.waiting_for, wait.since_ms) == (W.BROKER_TO_RETURN, world.context.cluster.elected_at_ms)


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_registration_that_cannot_be_used_is_no_absence(is_readable: bool) -> None:
    world = doomed()
    world.stop_broker(2)
    world.mark("t")
    world.run()
    world.now_ms += 100
    path = paths.broker_id(BrokerId(2))
    if not is_readable:
        world.refusals[path] = ZkError.NO_AUTH
    world.write(Create(path, b"{"))
    world.run()
    unusable = world.context.cluster.quarantined_brokers[BrokerId(2)]
    (wait,) = waits(world.context, "t")
    assert (wait.waiting_for, wait.broker) == (W.REGISTRATION_UNREADABLE, BrokerId(2))
    assert (wait.last_error, wait.since_ms) == (unusable.reason, world.now_ms)
    assert oldest(world.context) == OldestWait("t", world.now_ms - 100, W.REGISTRATION_UNREADABLE, BrokerId(2))
    world.write(Delete(path))
    world.run()
    assert [each.waiting_for for each in waits(world.context, "t")] == [W.BROKER_TO_RETURN]


def test_broker_that_is_shutting_down() -> None:
    world = doomed()
    world.context.cluster.shutting_down[BrokerId(2)] = None
    world.silent = {2: None}
    world.mark("t")
    world.run()
    assert [wait.waiting_for for wait in waits(world.context, "t")] == [W.BROKER_TO_FINISH_SHUTDOWN]


def test_failed_log_directory() -> None:
    world = doomed()
    world.context.cluster.offline_dirs[BrokerId(2)] = {TopicPartition("t", 0): None}
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
        Wait(
            "t", W.BROKER_ERROR, began_ms, 0, BrokerId(2), 2, "KAFKA_STORAGE_ERROR", world.now_ms + 1000, world.now_ms
        ),
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
    assert (wait.waiting_for, wait.last_error) == (W.ZNODES, f"/config/topics/t: {error_words(ZkError.NO_AUTH)}")
    assert wait.next_try_ms == world.now_ms + 500
    assert world.context.deletion_retries == {(RetriedAction.ZNODES, "NO_AUTH"): 1}, "neither path nor remedy"


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
    assert wait.last_error == world.context.cluster.quarantined_topics["t"].reason
    assert all_waits(world.context) == {"t": (wait,)}
    world.unmark("t")
    world.run()
    assert waits(world.context, "t") == ()
    assert all_waits(world.context) == {}


def test_gauges_are_nought_while_not_leading() -> None:
    world = doomed()
    assert gauges(world.context) == Gauges(
        active_controller_count=1,
        global_topic_count=1,
        global_partition_count=1,
        active_broker_count=3,
        unseen_cache_count=3,
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
    assert (seen.quarantined_topic_count, seen.quarantined_broker_count) == (1, 0)
    world.write(Create(paths.broker_id(7), b"?"))
    world.run()
    assert gauges(world.context).quarantined_broker_count == 1


# --- the oldest ---------------------------------------------------------------------------------------------------


def test_no_topic_is_the_oldest_where_none_is_marked() -> None:
    assert oldest(doomed().context) is None


def test_oldest_names_the_broker_that_is_away_rather_than_what_waits_for_it() -> None:
    world = with_topic(with_topic(cluster(), "young", (1,)), "old", (1, 2))
    world.stop_broker(2)
    world.mark("old")
    world.run()
    marked_ms = world.now_ms
    world.now_ms += 500
    world.silent = {1: None}
    world.mark("young")
    world.run()
    assert oldest(world.context) == OldestWait("old", marked_ms, W.BROKER_TO_RETURN, BrokerId(2))


def test_oldest_says_why_a_topic_is_held() -> None:
    world = doomed()
    world.write(Create("/lethe", None))
    world.write(Create(paths.deletions_paused(), b'{"version":1,"since":"1","reason":"audit"}'))
    world.run()
    world.mark("t")
    world.run()
    found = oldest(world.context)
    assert found is not None
    assert (found.topic, found.reason, found.broker) == ("t", W.RESUMPTION, None)


def test_oldest_finds_the_one_replica_that_fails_among_very_many() -> None:
    context = leading(1, 2)
    add_topic(context, "large", [(1,)] * 5_000, led=True)
    mutation.queue_deletion(context.cluster, "large", 100)
    deletion = context.cluster.deletions["large"]
    mutation.start_deletion(context.cluster, deletion, 100)
    deletion.problems[4_999, 1] = DeletionProblem("KAFKA_STORAGE_ERROR", 120, 3, 120)
    found = oldest(context)
    assert found == OldestWait("large", 100, W.BROKER_ERROR, BrokerId(1))


def test_topics_are_counted_by_stage_and_retries_by_reason() -> None:
    world = with_topic(doomed(), "other", (1,))
    world.stop_broker(2)
    world.mark("t")
    world.mark("other")
    world.run()
    assert gauges(world.context).topics_in_stage == {DeletionStage.WAITING: 1}
    assert gauges(world.context).doomed_replicas == {
        ReplicaState.DELETION_SUCCESSFUL: 1,
        ReplicaState.OFFLINE: 1,
    }
    world.start_broker(2)
    world.run()
    assert (gauges(world.context).topics_in_stage, gauges(world.context).doomed_replicas) == ({}, {})


def test_reasons_that_brokers_make_up_do_not_fill_the_memory() -> None:
    context = leading(1)
    for number in range(1_000):
        mutation.count_retry(context, RetriedAction.REPLICA, f"error {number}")
    assert len(context.deletion_retries) <= mutation.MAX_RETRY_REASONS + len(RetriedAction)
    assert sum(context.deletion_retries.values()) == 1_000
