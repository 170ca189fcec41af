"""What the policy says of new topics, partitions and replicas."""

from __future__ import annotations

import pytest

from lethe.controller.core.topic_policy import NO_POLICY, TopicPolicy

NAMES = "Topic 'tmp' is refused by lethe.policy.topic.names: its name matches none of orders.*, bills-?."
MANY = "Topic 'orders.a' would have 7 partitions, and lethe.policy.partitions.max allows at most 6."
FEW = (
    "Topic 'orders.a' would have the replication factor 1, and lethe.policy.replication.factor.min requires at least 2."
)
MORE = "Topic 'orders.a' would have the replication factor 4, and lethe.policy.replication.factor.max allows at most 3."
POLICY = TopicPolicy(("orders.*", "bills-?"), 6, 2, 3, 10)


@pytest.mark.parametrize(
    "name, partitions, replication_factor, problem",
    [
        ("orders.a", 6, 2, None),
        ("bills-1", 1, 3, None),
        ("tmp", 7, 1, NAMES),
        ("orders.a", 7, 1, MANY),
        ("orders.a", 6, 1, FEW),
        ("orders.a", 6, 4, MORE),
        ("__consumer_offsets", 50, 1, None),
        ("__transaction_state", 50, 9, None),
    ],
)
def test_the_first_rule_that_is_broken_is_named(
    name: str, partitions: int, replication_factor: int, problem: str | None
) -> None:
    assert POLICY.of_new_topic(name, partitions, replication_factor) == problem


def test_without_a_policy_only_requests_have_a_limit() -> None:
    assert NO_POLICY.of_new_topic("t", 100_000, 32_767) is None
    assert NO_POLICY.of_request(100_000) is None
    assert NO_POLICY.of_request(100_001) == (
        "The request asks for 100,001 new partitions, and lethe.policy.request.partitions.max allows at most 100000."
    )


def test_zero_is_no_limit() -> None:
    assert TopicPolicy(max_of_request=0).of_request(10**9) is None
