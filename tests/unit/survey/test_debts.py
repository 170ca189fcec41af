"""Debts added up by broker, and their words."""

from __future__ import annotations

from uuid import UUID

from lethe.adapters.debts import OpenDebt
from lethe.protocol.vocabulary import BrokerId, TopicId
from lethe.protocol.zookeeper.znodes import Debt
from lethe.survey.debts import by_broker, debt_json


def owed(
    broker: int, topic: str, czxid: int, *, since_ms: int = 2_000, size: int | None = None, partitions: int = 2
) -> OpenDebt:
    debt = Debt(TopicId(UUID(int=7)), tuple(range(partitions)), 0, since_ms, size)
    return OpenDebt(BrokerId(broker), topic, czxid, debt, 0)


def test_by_broker_and_by_name() -> None:
    first, second, third = owed(3, "b", 2), owed(3, "a", 1), owed(12, "a", 1)
    assert [(each.broker, each.debts) for each in by_broker([third, first, second])] == [
        (3, (second, first)),
        (12, (third,)),
    ]
    assert by_broker([]) == ()


def test_a_size_that_is_not_known_is_said() -> None:
    (known,) = by_broker([owed(3, "a", 1, size=1_000), owed(3, "b", 2, size=500, since_ms=1_000)])
    assert known.text == "4 partitions of 2 deleted topics, 1,500 bytes, since 1970-01-01T00:00:01.000Z"
    (partly,) = by_broker([owed(3, "a", 1, size=1_000), owed(3, "b", 2)])
    assert partly.size_text == "at least 1,000 bytes"
    (unknown,) = by_broker([owed(3, "a", 1, partitions=1)])
    assert unknown.text == "1 partition of 1 deleted topic, of unknown size, since 1970-01-01T00:00:02.000Z"


def test_as_data() -> None:
    assert debt_json(owed(3, "a", 17, size=5)) == {
        "broker": 3,
        "topic": "a",
        "topic_id": "AAAAAAAAAAAAAAAAAAAABw",
        "partitions": "0-1",
        "since_ms": 2_000,
        "size_bytes": 5,
        "path": "/lethe/debts/3/a@17",
    }
