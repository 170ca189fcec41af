"""The consumer protocol: the topics of a member, as Java's client writes them, and what is refused."""

from __future__ import annotations

import struct

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from lethe.protocol.kafka.consumers import assigned_topics, subscribed_topics
from lethe.protocol.kafka.framing import ProtocolError
from tests.fakes.group_broker import assignment, subscription


def test_topics_of_subscriptions_and_assignments() -> None:
    assert subscribed_topics(subscription("orders", "büro")) == {"orders", "büro"}
    assert assigned_topics(assignment(orders=(0, 1), bills=())) == {"orders", "bills"}
    assert subscribed_topics(b"") == assigned_topics(b"") == frozenset()


def test_another_clients_bytes_are_read() -> None:
    assert subscribed_topics(ConsumerProtocolMemberMetadata(0, ["a", "b"], b"user").encode()) == {"a", "b"}
    assert assigned_topics(ConsumerProtocolMemberAssignment(0, [("a", [0, 7])], b"").encode()) == {"a"}


@pytest.mark.parametrize(
    "data, why",
    [
        (b"\0", "ends in the middle of a field"),
        (subscription("orders")[:9], "ends in the middle of a field"),
        (struct.pack(">hi", 0, 1 << 30), "announces 1,073,741,824 items in 6 bytes"),
        (struct.pack(">hi", 0, -1), "announces -1 items in 6 bytes"),
        (struct.pack(">hih", 0, 1, 1) + b"\xff", "has a name that is not UTF-8"),
    ],
)
def test_what_is_no_subscription_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=f"a member's subscription {why}"):
        subscribed_topics(data)
