"""A name is used again while an answer about the topic before is on its way."""

from __future__ import annotations

from controller.core.events import LeaderAndIsrAnswered
from protocol.kafka.control import LeaderAndIsrRequest, LeaderAndIsrResponse, TopicIdError
from protocol.kafka.errors import ErrorCode
from protocol.zookeeper.operations import Delete
from tests.fakes.one_controller import OneController


def test_a_storage_error_of_the_topic_before_is_not_held_against_the_topic_after() -> None:
    one = OneController()
    one.start_broker(1)
    one.elect()
    one.silent[1] = None
    one.create_topic("t", (1,))
    one.run()
    asked = next(send for send in one.take_sent() if isinstance(send.request, LeaderAndIsrRequest))
    before = one.context.topics["t"].id
    tree = ("partitions/0/state", "partitions/0", "partitions")
    one.write(*(Delete(f"/brokers/topics/t/{path}") for path in tree), Delete("/brokers/topics/t"))
    one.run()
    one.write(Delete("/config/topics/t"))
    one.create_topic("t", (1,))
    one.run()

    rows = (TopicIdError(None, before, 0, ErrorCode.KAFKA_STORAGE_ERROR),)
    one.feed(LeaderAndIsrAnswered(asked.broker, asked.broker_epoch, asked.request_id, LeaderAndIsrResponse(0, rows)))
    one.run()

    assert one.context.topics["t"].id not in (None, before)
    assert not any(one.context.offline_dirs.values())
