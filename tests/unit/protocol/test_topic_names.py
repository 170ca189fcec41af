"""Topic expressions mean what they mean to kafka-topics.sh; assignments are read or refused by partition."""

from __future__ import annotations

import pytest

from lethe.protocol.topic_names import parse_replica_assignment, topics_matching

TOPICS = ("orders.eu", "orders_eu", "orders", "payments", "__consumer_offsets")


@pytest.mark.parametrize(
    "expression,hits",
    [
        ("orders", ("orders",)),
        ("orders.eu", ("orders.eu",)),  # exactly a topic's name: its dot matches nothing else
        ("orders.e.", ("orders.eu", "orders_eu")),
        ("order", ()),
        ("orders.*", ("orders", "orders.eu", "orders_eu")),
        ("orders, payments", ("orders", "payments")),
        ('"orders|payments"', ("orders", "payments")),
        (".*offsets", ("__consumer_offsets",)),
        ("nothing", ()),
    ],
)
def test_matching(expression: str, hits: tuple[str, ...]) -> None:
    assert topics_matching(expression, TOPICS) == hits


def test_internal_topics_are_left_out_on_request() -> None:
    assert topics_matching(".*", TOPICS, exclude_internal=True) == ("orders", "orders.eu", "orders_eu", "payments")


def test_a_broken_expression_is_named() -> None:
    with pytest.raises(ValueError, match=r"'orders\(' is neither a topic name nor a regular expression"):
        topics_matching("orders(", TOPICS)


def test_assignment() -> None:
    assert parse_replica_assignment("1:2:3, 2:3:1") == ((1, 2, 3), (2, 3, 1))


@pytest.mark.parametrize(
    "text,words",
    [
        ("1:2,x", "partition 1 is 'x'"),
        ("", "partition 0 is ''"),
        ("1:2,3:3", "partition 1 names a broker twice"),
        ("1:2,3", "partition 1 has 1 replica, that of partition 0 has 2"),
        ("1:-2", "partition 0 names broker -2"),
    ],
)
def test_bad_assignments(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_replica_assignment(text)
