"""Topics as tools create, mark and describe them: what is written, what is refused and in which words."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from lethe.admin.topic_plans import (
    PartitionDescription,
    TopicPlan,
    creation_operations,
    creation_problem,
    deletion_operation,
    deletion_problem,
)
from lethe.protocol.vocabulary import ReplicaAssignment, TopicId
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData

TOPIC_ID = TopicId(uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF))
PLAN = TopicPlan("orders", TOPIC_ID, ((1, 2), (2, 1)), {"segment.bytes": "4096", "cleanup.policy": "delete"})


def test_configuration_first_then_the_topic() -> None:
    assert creation_operations(PLAN, config_exists=False) == (
        Create(
            "/config/topics/orders",
            b'{"version":1,"config":{"cleanup.policy":"delete","segment.bytes":"4096"}}',
        ),
        Create(
            "/brokers/topics/orders",
            b'{"partitions":{"0":[1,2],"1":[2,1]},"topic_id":"ASNFZ4mrze8BI0VniavN7w","adding_replicas":{},'
            b'"removing_replicas":{},"version":3}',
        ),
    )


def test_a_configuration_left_behind_is_replaced() -> None:
    first, _ = creation_operations(replace(PLAN, config={}), config_exists=True)
    assert first == SetData("/config/topics/orders", b'{"version":1,"config":{}}', ANY_VERSION)


@pytest.mark.parametrize(
    "plan,words",
    [
        (replace(PLAN, name="a/b"), "characters other than"),
        (replace(PLAN, name=".."), "'..' is not allowed"),
        (replace(PLAN, name="__cluster_metadata"), "Kafka's own"),
        (replace(PLAN, name="there"), "topic there already exists"),
        (replace(PLAN, name="leaving"), "topic leaving is marked for deletion"),
        (replace(PLAN, name="a_b"), "collides with a.b"),
        (replace(PLAN, config={"segment.byte": "1"}), "Unknown topic config name: segment.byte"),
        (replace(PLAN, assignment=()), "without replicas"),
        (replace(PLAN, assignment=((1,), ())), "without replicas"),
    ],
)
def test_what_cannot_be_created(plan: TopicPlan, words: str) -> None:
    problem = creation_problem(plan, topics=("there", "leaving", "a.b"), marked=("leaving",))
    assert problem is not None
    assert words in problem


def test_what_can_be_created() -> None:
    assert creation_problem(PLAN, topics=("order", "orders2"), marked=()) is None


def test_marks() -> None:
    assert deletion_operation("orders") == Create("/admin/delete_topics/orders", None)
    assert deletion_problem("orders", topics=("orders",)) is None
    assert "does not exist" in str(deletion_problem("orders", topics=("order",)))
    assert "internal" in str(deletion_problem("__consumer_offsets", topics=("__consumer_offsets",)))


def test_health_of_a_partition() -> None:
    healthy = PartitionDescription(0, 1, 4, (1, 2), ReplicaAssignment((1, 2)))
    assert not healthy.is_under_replicated
    assert not healthy.is_unavailable({1, 2})
    assert healthy.is_unavailable({2})
    assert healthy._replace(leader=-1).is_unavailable({1})
    assert healthy._replace(leader=None, isr=()).is_unavailable({1})
    assert healthy._replace(isr=(1,)).is_under_replicated
    moving = healthy._replace(assignment=ReplicaAssignment((3, 1, 2), adding=(3,)))
    assert not moving.is_under_replicated
