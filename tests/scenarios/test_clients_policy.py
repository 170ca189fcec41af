"""Clients' requests are held to the policy in the controller's file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core.topic_policy import TopicPolicy
from lethe.protocol.kafka.admin import (
    CreatableAssignment,
    CreatableTopic,
    CreatePartitionsResponse,
    TopicRequest,
    TopicResponse,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.security.acls import Operation, ResourceType
from lethe.protocol.zookeeper import paths
from tests.fakes.one_controller import OneController
from tests.scenarios.clients import ann
from tests.scenarios.plot import cluster, with_topic
from tests.scenarios.test_clients_add_partitions import grown, growth
from tests.scenarios.test_clients_create_topics import creation, wanted
from tests.scenarios.test_reassignment_api import alter

POLICY = TopicPolicy(("orders.*",), 6, 2, 2, 10)
NAME = "Topic 'tmp' is refused by lethe.policy.topic.names: its name matches none of orders.*."
REPLICAS = "would have the replication factor 1, and lethe.policy.replication.factor.min requires at least 2."


def strict(*brokers: int) -> OneController:
    world = cluster(*brokers)
    world.context.config = replace(world.context.config, topic_policy=POLICY)
    return world


def rows(world: OneController, request: TopicRequest) -> list[tuple[str | None, str, str | None]]:
    response = world.ask(request, 7)
    assert isinstance(response, TopicResponse)
    return [(row.name, ErrorCode(row.error).name, row.message) for row in response.topics]


@pytest.mark.parametrize("validate_only", [False, True])
def test_topics_are_created_by_the_policy(validate_only: bool) -> None:
    world = strict()
    assigned = CreatableTopic("orders.b", -1, -1, (CreatableAssignment(0, (1,)),))
    request = creation(wanted("orders.a", 6, 2), wanted("tmp", 1, 2), assigned, validate_only=validate_only)
    assert rows(world, request) == [
        ("orders.a", "NONE", None),
        ("tmp", "POLICY_VIOLATION", NAME),
        ("orders.b", "POLICY_VIOLATION", f"Topic 'orders.b' {REPLICAS}"),
    ]
    assert list(world.context.cluster.topics) == ([] if validate_only else ["orders.a"])


def test_what_kafka_refuses_is_refused_in_its_words() -> None:
    words = "Replication factor: 9 larger than available brokers: 3."
    assert rows(strict(), creation(wanted("tmp", 1, 9))) == [("tmp", "INVALID_REPLICATION_FACTOR", words)]


def test_a_request_for_too_many_partitions_is_refused_before_any_of_its_topics_is_looked_at() -> None:
    world = strict()
    words = "The request asks for 12 new partitions, and lethe.policy.request.partitions.max allows at most 10."
    request = creation(wanted("orders.a", 6, 2), wanted("orders.b", 5, 2), wanted("orders.c", -1, 2))
    assert rows(world, request) == [(f"orders.{each}", "POLICY_VIOLATION", words) for each in "abc"]
    assert rows(world, creation(wanted("orders.a", 6, 2), wanted("orders.b", 4, 2))) == [
        ("orders.a", "NONE", None),
        ("orders.b", "NONE", None),
    ]


def test_a_billion_partitions_in_one_request_cost_nothing() -> None:
    request = creation(*(wanted(f"t-{n}", 100_000, 1) for n in range(10_000)))
    words = (
        "The request asks for 1,000,000,000 new partitions, and lethe.policy.request.partitions.max allows at most "
        "100000."
    )
    assert rows(cluster(), request) == [(f"t-{n}", "POLICY_VIOLATION", words) for n in range(10_000)]


@pytest.mark.parametrize("validate_only", [False, True])
def test_partitions_are_added_by_the_policy(validate_only: bool) -> None:
    world = with_topic(with_topic(strict(), "a", (1,)), "b", (1,))
    words = "Topic 'b' would have 7 partitions, and lethe.policy.partitions.max allows at most 6."
    assert rows(world, growth(grown("a", 2), grown("b", 7), validate_only=validate_only)) == [
        ("a", "NONE", None),
        ("b", "POLICY_VIOLATION", words),
    ]
    whole = "The request asks for 11 new partitions, and lethe.policy.request.partitions.max allows at most 10."
    assert rows(with_topic(strict(), "a", (1,)), growth(grown("a", 12), grown("none", 100))) == [
        (name, "POLICY_VIOLATION", whole) for name in ("a", "none")
    ]


def test_the_policy_does_not_tell_the_size_of_a_topic_that_the_client_may_not_alter() -> None:
    world = with_topic(with_topic(strict(), "a", (1,)), "hidden", (1,))
    request = growth(grown("a", 2), grown("hidden", 100), grown("none", 100), validate_only=True)
    response = world.ask(request, 3, ann((Operation.ALTER, ResourceType.TOPIC, "a")))
    assert isinstance(response, CreatePartitionsResponse)
    words = "The topic authorization is failed."
    assert [(row.name, ErrorCode(row.error).name, row.message) for row in response.topics] == [
        ("a", "NONE", None),
        ("hidden", "TOPIC_AUTHORIZATION_FAILED", words),
        ("none", "TOPIC_AUTHORIZATION_FAILED", words),
    ]


def test_a_reassignment_may_move_replicas_and_change_their_number_only_by_the_policy() -> None:
    world = with_topic(with_topic(strict(), "old", (1,)), "t", (1, 2))
    assert alter(world, old_0=(2,), t_0=(3,)) == {
        "old-0": (ErrorCode.NONE, None),
        "t-0": (ErrorCode.POLICY_VIOLATION, f"Topic 't' {REPLICAS}"),
    }
    assert world.context.cluster.topics["t"].partitions[0].assignment.replicas == (1, 2)
    assert not world.exists(paths.reassign_partitions())
