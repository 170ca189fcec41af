"""Deletions whose brokers die, come back, fall silent or answer with errors: they finish, or say what they wait for."""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import Send
from lethe.controller.core.events import (
    Answer,
    LeaderAndIsrResponseReceived,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from lethe.controller.core.mutation import note_confirmations
from lethe.controller.core.transitions import ReplicaState
from lethe.controller.core.waiting import waits
from lethe.protocol.kafka.control import (
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicIdError,
    UpdateMetadataResponse,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, PartitionReplica
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete
from tests.fakes.one_controller import OneController, Refusing, consent
from tests.scenarios.plot import causes, cluster, is_gone, refusals, text, with_topic

REMOVED = """
        zk delete /brokers/topics/orders/partitions/0/state
        zk delete /brokers/topics/orders/partitions/0
        zk delete /brokers/topics/orders/partitions
        zk delete /brokers/topics/orders
        zk delete /config/topics/orders
        zk delete /admin/delete_topics/orders
        * TopicsChanged
        * TopicDeletionsRequested"""
WAITED_AND_REMOVED = REMOVED.replace("* TopicsChanged", "* TopicsChanged\n        * DeletionMarkerModified orders")
"""The marker of a topic that waits for an absent broker is watched."""


def replica(world: OneController, broker: int, partition: int = 0) -> ReplicaState:
    return world.context.cluster.replica_state(PartitionReplica("orders", partition, BrokerId(broker)))


def test_broker_down_the_others_delete_and_the_topic_says_whom_it_waits_for_until_it_is_back() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.stop_broker(3)
    world.run()
    world.take_story()
    world.mark("orders")
    world.run()
    assert world.take_story() == text("""
        * TopicDeletionsRequested
        -> 1,2 UpdateMetadata brokers 1,2: orders-0 leader -2 offline 3
        -> 1,2 StopReplica: orders-0 epoch -2
        -> 1,2 StopReplica: orders-0 epoch -2 delete
        <- 1,2 UpdateMetadata ok
        <- 1,2 StopReplica ok
        <- 1,2 StopReplica ok
    """)
    assert causes(world, "orders") == [(0, 3, "BROKER_TO_RETURN")]
    assert [replica(world, b).name for b in (1, 2, 3)] == ["DELETION_SUCCESSFUL", "DELETION_SUCCESSFUL", "OFFLINE"]

    world.start_broker(3)
    world.run()
    assert world.take_story() == text(f"""
        * BrokersChanged
        -> 1,2,3 UpdateMetadata brokers 1,2,3
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader -2
        -> 3 StopReplica: orders-0 epoch -2
        -> 3 StopReplica: orders-0 epoch -2 delete
        -> 3 DescribeLogDirs
        -> 3 StopReplica
        <- 1,2,3 UpdateMetadata ok
        <- 1,2,3 UpdateMetadata ok
        <- 3 StopReplica ok
        <- 3 StopReplica ok
        <- 3 DescribeLogDirs ok
        <- 3 StopReplica ok{WAITED_AND_REMOVED}
    """)


def test_failover_in_the_middle_starts_again_on_the_live_replicas_and_finishes_when_the_dead_one_is_back() -> None:
    """Kafka's new controller would send nothing before broker 3 is back; ours deletes what it can reach."""
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.stop_broker(3)
    world.run()
    world.mark("orders")
    world.run()
    world.take_story()
    world.crash()
    world.elect()
    assert world.take_story() == text("""
        * SessionEstablished
        zk create /controller (ephemeral)
        zk set /controller_epoch at version 1: 2
        -> 1,2 UpdateMetadata brokers 1,2
        -> 1,2 UpdateMetadata brokers 1,2: orders-0 leader -2 offline 3
        -> 1,2 StopReplica: orders-0 epoch -2
        -> 1,2 StopReplica: orders-0 epoch -2 delete
        -> 1,2 DescribeLogDirs
        -> 1,2 StopReplica
        * ControllerChanged
        <- 1,2 UpdateMetadata ok
        <- 1,2 UpdateMetadata ok
        <- 1,2 StopReplica ok
        <- 1,2 StopReplica ok
        <- 1,2 DescribeLogDirs ok
        <- 1,2 StopReplica ok
    """)
    assert causes(world, "orders") == [(0, 3, "BROKER_TO_RETURN")]
    world.start_broker(3)
    world.run()
    assert world.take_story().endswith(text(WAITED_AND_REMOVED))
    assert is_gone(world, "orders")


def test_bounce_while_asked_the_new_incarnation_is_asked_again_and_proves_it_by_its_log_directories() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.silent = {2: None}
    world.mark("orders")
    world.run()
    assert causes(world, "orders") == [(0, 2, "ANSWER")]
    world.take_story()
    world.silent = {}
    world.stop_broker(2)
    world.start_broker(2)
    world.run()
    assert world.take_story() == text(f"""
        * BrokersChanged
        -> 1,3 UpdateMetadata brokers 1,3
        -> 1,3,2 UpdateMetadata brokers 1,3,2
        -> 1,3,2 UpdateMetadata brokers 1,3,2: orders-0 leader -2
        -> 2 StopReplica: orders-0 epoch -2
        -> 2 StopReplica: orders-0 epoch -2 delete
        -> 2 DescribeLogDirs
        -> 2 StopReplica
        <- 1,3 UpdateMetadata ok
        <- 1,3,2 UpdateMetadata ok
        <- 1,3,2 UpdateMetadata ok
        <- 2 StopReplica ok
        <- 2 StopReplica ok
        <- 2 DescribeLogDirs ok
        <- 2 StopReplica ok{REMOVED}
    """)


def test_answer_of_the_incarnation_before_does_not_count_for_the_one_now() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.silent = {2: None}
    world.take_sent()
    world.mark("orders")
    world.run()
    old = next(s for s in world.take_sent() if s.broker == 2 and is_delete(s))
    world.stop_broker(2)
    world.start_broker(2)
    world.run()
    new = next(s for s in world.take_sent() if s.broker == 2 and is_delete(s))
    world.feed(consent(old))
    world.run()
    assert replica(world, 2) is ReplicaState.DELETION_STARTED
    # The right broker and request, but said for the incarnation before: not its answer either.
    world.feed(consent(new._replace(broker_epoch=old.broker_epoch)))
    world.run()
    assert replica(world, 2) is ReplicaState.DELETION_STARTED
    assert world.exists(paths.topic("orders"))


def is_delete(send: Send) -> bool:
    return isinstance(send.request, StopReplicaRequest) and any(
        row.delete for topic in send.request.topics for row in topic.partitions
    )


def test_a_replica_that_was_deleted_stays_deleted_when_its_broker_dies_and_returns() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.silent = {2: None}
    world.mark("orders")
    world.run()
    world.stop_broker(1)
    world.run()
    assert replica(world, 1) is ReplicaState.DELETION_SUCCESSFUL
    world.take_story()
    world.start_broker(1)
    world.run()
    assert "-> 1 LeaderAndIsr" not in world.take_story()
    assert causes(world, "orders") == [(0, 2, "ANSWER")]


def test_a_waiting_topic_holds_no_other_one_up() -> None:
    world = with_topic(with_topic(cluster(), "stuck", (1, 3)), "orders", (1, 2))
    world.stop_broker(3)
    world.run()
    world.mark("stuck")
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")
    assert causes(world, "stuck") == [(0, 3, "BROKER_TO_RETURN")]


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR], ids=lambda e: e.name)
def test_error_for_a_replica_is_tried_again_with_growing_waits_until_it_succeeds(error: ErrorCode) -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.answer = Refusing(2, error)
    world.mark("orders")
    world.run()
    due: list[int] = []
    for attempt in range(1, 9):
        (wait,) = waits(world.context, "orders")
        assert (wait.broker, wait.waiting_for.name, wait.last_error) == (2, "BROKER_ERROR", error.name)
        assert wait.attempts == attempt
        assert wait.next_try_ms is not None
        due.append(wait.next_try_ms - world.now_ms)
        world.advance(due[-1] - 1)
        assert waits(world.context, "orders")[0].attempts == attempt
        world.advance(1)
    assert due == [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]
    world.answer = consent
    world.advance(30_000)
    assert is_gone(world, "orders")


@pytest.mark.parametrize(
    "error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH], ids=lambda e: e.name
)
def test_error_for_the_whole_request_which_kafka_would_wait_for_without_end_is_tried_again(error: ErrorCode) -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))

    def refuse(send: Send) -> Answer:
        if send.broker == 2 and is_delete(send):
            return StopReplicaResponseReceived(*send[:3], StopReplicaResponse(error, ()))
        return consent(send)

    world.answer = refuse
    world.mark("orders")
    world.run()
    assert [wait.last_error for wait in waits(world.context, "orders")] == [error.name]
    world.answer = consent
    world.advance(500)
    assert is_gone(world, "orders")


def test_answer_that_does_not_list_the_partition_is_no_acknowledgement() -> None:
    world = with_topic(cluster(), "orders", (1, 2))

    def forget(send: Send) -> Answer:
        if send.broker == 2 and is_delete(send):
            return StopReplicaResponseReceived(*send[:3], StopReplicaResponse(0, ()))
        return consent(send)

    world.answer = forget
    world.mark("orders")
    world.run()
    assert [wait.last_error for wait in waits(world.context, "orders")] == ["the answer does not list the partition"]
    assert world.exists(paths.topic("orders"))


def test_none_from_a_broker_that_never_said_it_can_reach_the_replica_does_not_count() -> None:
    """Kafka's brokers say NONE to StopReplica for what lies on a failed disk."""
    world = cluster()
    world.silent = {2: None}
    with_topic(world, "orders", (1, 2))
    world.silent = {}
    world.mark("orders")
    world.run()
    (wait,) = waits(world.context, "orders")
    assert (wait.broker, wait.last_error) == (2, "answered without having said that it can reach the replica")
    world.take_story()
    world.advance(500)
    assert "-> 2 DescribeLogDirs" in world.take_story()
    assert is_gone(world, "orders")


@pytest.mark.parametrize("returns", ["restarted", "never"])
def test_storage_error_on_leader_and_isr_blocks_until_the_broker_restarts(returns: str) -> None:
    world = cluster()

    def broken_disk(send: Send) -> Answer:
        answer = consent(send)
        if send.broker == 2 and isinstance(answer, LeaderAndIsrResponseReceived):
            rows = tuple(r._replace(error=ErrorCode.KAFKA_STORAGE_ERROR) for r in answer.response.rows)
            return LeaderAndIsrResponseReceived(*send[:3], LeaderAndIsrResponse.of_rows(0, rows))
        return answer

    world.answer = broken_disk
    with_topic(world, "orders", (2, 1), (1, 2))
    assert world.context.cluster.topics["orders"].partitions[0].leader_and_isr is not None
    assert replica(world, 2) is ReplicaState.OFFLINE
    world.mark("orders")
    world.run()
    assert causes(world, "orders") == [(0, 2, "LOG_DIRECTORY"), (1, 2, "LOG_DIRECTORY")]
    if returns == "never":
        world.advance(3_600_000)
        assert causes(world, "orders") == [(0, 2, "LOG_DIRECTORY"), (1, 2, "LOG_DIRECTORY")]
        return
    world.answer = consent
    world.stop_broker(2)
    world.start_broker(2)
    world.run()
    assert is_gone(world, "orders")


def test_storage_error_of_a_running_broker_moves_its_leaders_away() -> None:
    world = cluster()
    with_topic(world, "orders", (1, 2, 3))
    world.silent = {1: None}
    world.stop_broker(3)
    world.run()
    request_id, outstanding = next((i, o) for i, o in world.context.cluster.outstanding.items() if o.broker == 1)
    rows = (TopicIdError("orders", None, 0, ErrorCode.KAFKA_STORAGE_ERROR),)
    world.take_story()
    world.feed(
        LeaderAndIsrResponseReceived(
            BrokerId(1), outstanding.broker_epoch, request_id, LeaderAndIsrResponse.of_rows(0, rows)
        )
    )
    world.run()
    assert world.take_story() == text("""
        <- 1 LeaderAndIsr orders-0 KAFKA_STORAGE_ERROR
        zk set /brokers/topics/orders/partitions/0/state at version 1: leader 2 epoch 2 isr 2
        -> 2 LeaderAndIsr: orders-0 leader 2 epoch 2 isr 2
        -> 1,2 UpdateMetadata brokers 1,2: orders-0 leader 2 epoch 2 isr 2 offline 1,3
        -> 2 LeaderAndIsr: orders-0 leader 2 epoch 2 isr 2
        -> 1,2 UpdateMetadata brokers 1,2: orders-0 leader 2 epoch 2 isr 2 offline 1,3
        -> 1 StopReplica: orders-0 epoch 2
        <- 2 LeaderAndIsr ok
        <- 2 UpdateMetadata ok
        <- 2 LeaderAndIsr ok
        <- 2 UpdateMetadata ok
    """)


def test_topic_waits_for_the_answer_to_its_tombstone_from_a_broker_without_replicas() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2))
    world.silent = {4: None}
    world.mark("orders")
    world.run()
    assert causes(world, "orders") == [(None, 4, "TOMBSTONE_ANSWER")]
    assert world.exists(paths.topic("orders"))
    world.stop_broker(4)
    world.run()
    assert is_gone(world, "orders")


def test_refused_tombstone_is_sent_again_though_another_broker_is_silent() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2))
    world.silent = {4: None}

    def refuse(send: Send) -> Answer:
        answer = consent(send)
        if send.broker == 3 and isinstance(answer, UpdateMetadataResponseReceived):
            return UpdateMetadataResponseReceived(*send[:3], UpdateMetadataResponse(ErrorCode.UNKNOWN_SERVER_ERROR))
        return answer

    world.answer = refuse
    world.mark("orders")
    world.run()
    assert causes(world, "orders") == [(None, 3, "TOMBSTONE_ANSWER"), (None, 4, "TOMBSTONE_ANSWER")]
    world.answer = consent
    world.take_story()
    world.advance(500)
    assert world.take_story() == text("""
        * TimerFired RetryDeletions
        -> 3 UpdateMetadata brokers 1,2,3,4: orders-0 leader -2
        <- 3 UpdateMetadata ok
    """)
    assert causes(world, "orders") == [(None, 4, "TOMBSTONE_ANSWER")]


def test_all_brokers_gone_the_topic_waits_and_goes_when_they_are_back() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    for broker in (1, 2, 3):
        world.stop_broker(broker)
    world.mark("orders")
    world.run()
    assert causes(world, "orders") == [(0, 1, "BROKER_TO_RETURN"), (0, 2, "BROKER_TO_RETURN")]
    world.start_broker(2)
    world.run()
    assert causes(world, "orders") == [(0, 1, "BROKER_TO_RETURN")]
    world.start_broker(1)
    world.run()
    assert is_gone(world, "orders")


def test_topic_znodes_removed_by_hand_while_it_is_being_deleted() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.stop_broker(2)
    world.run()
    world.mark("orders")
    world.run()
    for path in ("partitions/0/state", "partitions/0", "partitions"):
        world.write(Delete(f"{paths.topic('orders')}/{path}"))
    world.write(Delete(paths.topic("orders")), Delete(paths.config_topic("orders")))
    world.run()
    assert is_gone(world, "orders")
    assert refusals(world, "topic/orders")[0] == "another process removed its znode"


def test_topic_removed_by_hand_is_forgotten_by_every_cache_and_can_be_created_again() -> None:
    """Kafka keeps the old states, so that creation under the same name fails until a failover."""
    world = with_topic(cluster(), "orders", (1, 2))
    for path in ("partitions/0/state", "partitions/0", "partitions"):
        world.write(Delete(f"{paths.topic('orders')}/{path}"))
    world.write(Delete(paths.topic("orders")), Delete(paths.config_topic("orders")))
    world.run()
    assert world.take_story() == text("""
        * TopicsChanged
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader -2
        <- 1,2,3 UpdateMetadata ok
    """)
    with_topic(world, "orders", (2, 3))
    assert world.context.cluster.topics["orders"].partitions[0].leader_and_isr is not None


def test_late_answer_to_a_topic_of_the_same_name_before_is_no_acknowledgement() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.silent = {2: None}
    world.take_sent()
    world.mark("orders")
    world.run()
    old = next(s for s in world.take_sent() if s.broker == 2 and is_delete(s))
    for path in ("partitions/0/state", "partitions/0", "partitions"):
        world.write(Delete(f"{paths.topic('orders')}/{path}"))
    world.write(Delete(paths.topic("orders")), Delete(paths.config_topic("orders")))
    world.unmark("orders")
    world.run()
    with_topic(world, "orders", (1, 2))
    world.mark("orders")
    world.run()
    assert replica(world, 2) is ReplicaState.DELETION_STARTED
    world.feed(consent(old))
    world.run()
    assert replica(world, 2) is not ReplicaState.DELETION_SUCCESSFUL
    assert world.exists(paths.topic("orders"))


def test_acknowledgement_of_what_was_asked_before_the_replica_was_announced_again_does_not_count() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.silent = {2: None}
    world.take_sent()
    world.mark("orders")
    world.run()
    asked = next(s for s in world.take_sent() if s.broker == 2 and is_delete(s))
    ((confirmation, partitions),) = world.context.cluster.topics["orders"].confirmations[2]
    later = confirmation._replace(request_id=asked.request_id + 1, confirmed=True)
    note_confirmations(world.context.cluster, "orders", BrokerId(2), partitions, later)
    world.feed(consent(asked))
    world.run()
    assert replica(world, 2) is not ReplicaState.DELETION_SUCCESSFUL
    assert world.exists(paths.topic("orders"))


def test_broker_that_is_shutting_down_is_asked_to_delete_while_it_is_there() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.context.cluster.shutting_down[BrokerId(2)] = None
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")


def test_broker_that_has_shut_down_without_an_answer_is_asked_again_when_it_is_back() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.context.cluster.shutting_down[BrokerId(2)] = None
    world.silent = {2: None}
    world.mark("orders")
    world.run()
    assert causes(world, "orders") == [(0, 2, "BROKER_TO_FINISH_SHUTDOWN")]
    world.stop_broker(2)
    world.run()
    assert causes(world, "orders") == [(0, 2, "BROKER_TO_RETURN")]
    world.silent = {}
    world.start_broker(2)
    world.run()
    assert is_gone(world, "orders")


@pytest.mark.parametrize("when", ["while leading", "at failover"])
def test_topic_that_never_had_a_leader_is_deleted_when_its_brokers_are_there(when: str) -> None:
    """Kafka's DeleteTopics does not even know such a topic, and its controller stops at replicas without leadership."""
    world = cluster(3)
    with_topic(world, "orders", (1, 2))
    world.mark("orders")
    world.run()
    assert causes(world, "orders") == [(0, 1, "BROKER_TO_RETURN"), (0, 2, "BROKER_TO_RETURN")]
    world.start_broker(1)
    world.run()
    if when == "at failover":
        world.crash()
    world.start_broker(2)
    if when == "at failover":
        world.elect()
    world.run()
    assert is_gone(world, "orders")


def test_equal_leader_epoch_which_a_broker_refuses_still_proves_that_it_reaches_the_replica() -> None:
    """A broker that has the leader epoch already says STALE_CONTROLLER_EPOCH for the partition, and looks at its disk
    before that: the announcement with no leader raises no epoch, so this is what a restarted controller hears."""
    world = with_topic(cluster(), "orders", (1, 2))
    world.crash()

    def known(send: Send) -> Answer:
        answer = consent(send)
        if isinstance(answer, LeaderAndIsrResponseReceived):
            rows = tuple(r._replace(error=ErrorCode.STALE_CONTROLLER_EPOCH) for r in answer.response.rows)
            return LeaderAndIsrResponseReceived(*send[:3], LeaderAndIsrResponse.of_rows(0, rows))
        return answer

    world.answer = known
    world.mark("orders")
    world.elect()
    assert is_gone(world, "orders")
