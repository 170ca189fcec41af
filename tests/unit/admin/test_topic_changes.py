"""What altering a topic means in znodes."""

from __future__ import annotations

import pytest

from lethe.admin.topic_changes import (
    assignment_problem,
    changed_config,
    expansion_problem,
    with_partitions,
)
from lethe.protocol.vocabulary import ReplicaAssignment
from lethe.protocol.zookeeper.znodes import MalformedZnode, TopicZnode


def _topic(*replicas: tuple[int, ...]) -> TopicZnode:
    return TopicZnode({p: ReplicaAssignment(ids) for p, ids in enumerate(replicas)})


def test_partitions_are_added_and_nothing_else_is_touched() -> None:
    data = b'{"partitions":{"0":[1]},"topic_id":"x","adding_replicas":{"0":[1]},"version":3,"new":null}'
    assert with_partitions("t", data, {1: (2,), 2: (3,)}) == (
        b'{"partitions":{"0":[1],"1":[2],"2":[3]},"topic_id":"x","adding_replicas":{"0":[1]},"version":3,"new":null}'
    )
    with pytest.raises(MalformedZnode):
        with_partitions("t", None, {1: (2,)})


def test_which_topics_take_more_partitions() -> None:
    assert expansion_problem("t", _topic((1,), (2,)), 3) is None
    assert "not become 1" in (expansion_problem("t", _topic((1,)), 1) or "")
    assert "none can be added" in (expansion_problem("__transaction_state", _topic((1,)), 3) or "")
    assert "partitions none instead" in (expansion_problem("t", TopicZnode(), 3) or "")
    moving = TopicZnode({0: ReplicaAssignment((1, 2), removing=(2,))})
    assert "being reassigned" in (expansion_problem("t", moving, 3) or "")


def test_new_replicas_have_the_factor_of_the_first_partition() -> None:
    assert assignment_problem("t", _topic((1, 2)), ((1, 2), (2, 1)), [1, 2]) is None
    problem = assignment_problem("t", _topic((1, 2)), ((1, 2), (2,)), [1, 2])
    assert problem is not None
    assert "partition 1 of topic t 1 replica," in problem


def test_settings() -> None:
    current = {"retention.ms": "5", "x.y": "z"}
    assert changed_config("t", current, {"segment.ms": "7"}, ["retention.ms"]) == {"x.y": "z", "segment.ms": "7"}
    with pytest.raises(ValueError, match=r"overrides retention.ms, x.y"):
        changed_config("t", current, {}, ["segment.ms"])
