"""What topics are planned as."""

from __future__ import annotations

from lethe.admin.topic_creation import new_topic_id


def test_ids_that_kafka_never_hands_out_are_passed_over() -> None:
    draws = iter([b"\xf8" + b"\xff" * 15, bytes(15) + b"\x09"])
    topic_id = new_topic_id(lambda _: next(draws))
    assert topic_id.version == 4
    assert topic_id.int & 0xFF == 9
