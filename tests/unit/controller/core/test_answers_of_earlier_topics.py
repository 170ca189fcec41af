"""Answers that come late: a name is used again, or a replica is announced again, while they are on their way."""

from __future__ import annotations

from lethe.controller.core.effects import Send
from lethe.controller.core.events import LeaderAndIsrResponseReceived, StopReplicaResponseReceived
from lethe.protocol.kafka.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicError,
    TopicIdError,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete
from tests.fakes.one_controller import OneController


def with_silent_broker() -> OneController:
    one = OneController()
    one.start_broker(1)
    one.elect()
    one.silent[1] = None
    one.create_topic("t", (1,))
    one.run()
    return one


def make_anew(one: OneController) -> None:
    """Somebody removes the topic by hand and creates it again."""
    tree = ("partitions/0/state", "partitions/0", "partitions")
    one.write(*(Delete(f"/brokers/topics/t/{path}") for path in tree), Delete("/brokers/topics/t"))
    one.run()
    one.write(Delete("/config/topics/t"))
    one.create_topic("t", (1,))
    one.run()


def is_deletion(send: Send) -> bool:
    request = send.request
    return isinstance(request, StopReplicaRequest) and any(row.delete for t in request.topics for row in t.partitions)


def hosts(one: OneController, asked: Send, topic_id: TopicId | None, error: ErrorCode = ErrorCode.NONE) -> None:
    response = LeaderAndIsrResponse.of_rows(ErrorCode.NONE, (TopicIdError(None, topic_id, 0, error),))
    one.feed(LeaderAndIsrResponseReceived(asked.broker, asked.broker_epoch, asked.request_id, response))


def has_deleted(one: OneController, asked: Send) -> None:
    response = StopReplicaResponse.of_rows(ErrorCode.NONE, (TopicError("t", 0, ErrorCode.NONE),))
    one.feed(StopReplicaResponseReceived(asked.broker, asked.broker_epoch, asked.request_id, response))


def test_a_storage_error_of_the_topic_before_is_not_held_against_the_topic_after() -> None:
    one = with_silent_broker()
    asked = next(send for send in one.take_sent() if isinstance(send.request, LeaderAndIsrRequest))
    before = one.context.cluster.topics["t"].id
    make_anew(one)

    hosts(one, asked, before, ErrorCode.KAFKA_STORAGE_ERROR)
    one.run()

    assert one.context.cluster.topics["t"].id not in (None, before)
    assert not any(one.context.cluster.offline_dirs.values())


def test_an_answer_confirms_no_replica_that_was_announced_again_since() -> None:
    one = with_silent_broker()
    one.write(Create(paths.log_dir_event_notification(), znodes.encode_log_dir_event(1), sequential=True))
    one.run()
    first, second = (send for send in one.take_sent() if isinstance(send.request, LeaderAndIsrRequest))
    topic = one.context.cluster.topics["t"]

    hosts(one, first, topic.id)
    one.run()
    assert not topic.announced(1, lambda it: it.confirmed)
    hosts(one, second, topic.id)
    one.run()
    assert topic.announced(1, lambda it: it.confirmed and it.request_id == second.request_id) == 1


def test_a_replica_that_is_answered_without_an_error_has_no_failed_directory() -> None:
    one = with_silent_broker()
    (asked,) = (send for send in one.take_sent() if isinstance(send.request, LeaderAndIsrRequest))
    one.context.cluster.offline_dirs[BrokerId(1)] = {TopicPartition("t", 0): None}
    hosts(one, asked, one.context.cluster.topics["t"].id)
    one.run()
    assert not one.context.cluster.has_failures


def test_a_deletion_of_the_topic_before_says_nothing_of_the_topic_after_and_starts_no_other_round() -> None:
    one = with_silent_broker()
    one.mark("t")
    one.run()
    before = next(filter(is_deletion, one.take_sent()))
    one.write(Delete("/admin/delete_topics/t"))
    make_anew(one)
    one.mark("t")
    one.run()
    sent = one.take_sent()
    announced = [send for send in sent if isinstance(send.request, LeaderAndIsrRequest)][-1]
    (after,) = filter(is_deletion, sent)

    has_deleted(one, before)
    one.run()
    assert not any(map(is_deletion, one.take_sent()))

    hosts(one, announced, one.context.cluster.topics["t"].id)
    has_deleted(one, after)
    one.run()
    assert not one.context.cluster.deletions["t"].problems
    assert one.context.cluster.deletions["t"].acknowledged_at_ms is not None
