"""LeaderAndIsr answers of version 5 and later about topics without an id: rows that name nothing but a number."""

from __future__ import annotations

import uuid

import pytest

from lethe.controller.core.confirmations import answered_topics
from lethe.protocol.kafka.control import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    TopicIdError,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch, TopicId

ID = TopicId(uuid.UUID(int=9))
OK, BROKEN = int(ErrorCode.NONE), int(ErrorCode.KAFKA_STORAGE_ERROR)


def _asked(topic: str, topic_id: TopicId | None, *numbers: int) -> LeaderAndIsrTopic:
    return LeaderAndIsrTopic(topic, topic_id, tuple(LeaderAndIsrPartition(n, 1, -1, 0, (1,), 0, (1,)) for n in numbers))


@pytest.mark.parametrize(
    "rows,said",
    [
        ([(ID, 0, OK), (None, 0, OK), (None, 0, OK), (None, 1, BROKEN)], [("a", 0, 0), ("b", 0, 0), ("b", 1, BROKEN)]),
        ([(ID, 0, OK), (None, 0, OK), (None, 0, BROKEN), (None, 1, OK)], [("b", 1, 0)]),
        ([(ID, 0, OK), (None, 0, OK)], []),
        ([(ID, 0, OK), (None, 7, OK)], []),
    ],
)
def test_what_is_said_of_topics_without_an_id(
    rows: list[tuple[TopicId | None, int, int]], said: list[tuple[str, int, int]]
) -> None:
    """The topics a (0) and b (0, 1) have no id: only what holds for each of them under a number is believed."""
    topics = (_asked("known", ID, 0), _asked("a", None, 0), _asked("b", None, 0, 1))
    request = LeaderAndIsrRequest(BrokerId(1), ControllerEpoch(1), topics, ())
    response = LeaderAndIsrResponse.of_rows(0, tuple(TopicIdError(None, *row) for row in rows))
    found = [(topic, *row) for topic, errors in answered_topics(request, response) for row in errors.rows]
    assert found == [("known", 0, 0), *said]
