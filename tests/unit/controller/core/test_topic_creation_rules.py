"""What clients may create is what Kafka 3.9.1 lets them create, refused with its errors and words.

The words are what a broker of Kafka 3.9.1 in ZooKeeper mode has answered to these requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from lethe.controller.core.config import NewTopics
from lethe.controller.core.replica_assignment import BrokerRack
from lethe.controller.core.topic_creation_rules import (
    Surroundings,
    TopicNames,
    check_room,
    check_topic,
    configs_of,
)
from lethe.protocol.client_rows import RowRefused
from lethe.protocol.kafka.admin import CreatableAssignment, CreatableConfig, CreatableTopic
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.topic_defaults import BrokerSetting, ConfigSource

AROUND = Surroundings(
    topics=TopicNames(("there", "going", "a.b", "a_c.d")),
    cached=("there", "a.b", "a_c.d"),
    marked=("going", "left"),
    brokers=(BrokerRack(1), BrokerRack(2), BrokerRack(3)),
    defaults=NewTopics(),
    settings={},
    draw=lambda limit: 0,
    reserved=lambda name: "its name is reserved by another topic in the trash" if name == "kept" else None,
)


def topic(name: str = "t", partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    named = tuple(CreatableConfig(name.replace("_", "."), value) for name, value in configs.items())
    return CreatableTopic(name, partitions, factor, (), named)


def assigned(assignment: Mapping[int, tuple[int, ...]], partitions: int = -1, factor: int = -1) -> CreatableTopic:
    return CreatableTopic("t", partitions, factor, tuple(CreatableAssignment(*row) for row in assignment.items()))


def test_replicas_are_placed_from_what_is_drawn() -> None:
    drawn = iter((2, 1))
    around = AROUND._replace(draw=lambda limit: next(drawn) % limit)
    assert check_topic(topic(partitions=2, factor=2), around) == {0: (3, 2), 1: (1, 3)}


def test_what_is_left_out_is_the_brokers() -> None:
    around = AROUND._replace(defaults=NewTopics(4, 2))
    placed = check_topic(topic(partitions=-1, factor=-1), around)
    assert (len(placed), {len(replicas) for replicas in placed.values()}) == (4, {2})


def test_a_given_assignment_is_kept_and_its_brokers_need_not_exist() -> None:
    assert check_topic(assigned({1: (9, 1), 0: (1, 9)}), AROUND) == {0: (1, 9), 1: (9, 1)}


def test_of_a_setting_given_twice_the_last_counts() -> None:
    twice = CreatableTopic("t", 1, 1, (), (CreatableConfig("retention.ms", "x"), CreatableConfig("retention.ms", "5")))
    check_topic(twice, AROUND)
    assert configs_of(twice) == {"retention.ms": "5"}


@dataclass(frozen=True)
class Refused:
    topic: CreatableTopic
    error: ErrorCode
    message: str | None


EXISTS, BAD_TOPIC, BAD_ASSIGNMENT, BAD_CONFIG = (
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.INVALID_CONFIG,
)
BAD_COUNT, BAD_FACTOR = ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICATION_FACTOR
BOTH = "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the same time."
CONSECUTIVE = "partitions should be a consecutive 0-based integer sequence"


@pytest.mark.parametrize(
    "case",
    [
        Refused(topic("there", factor=9), EXISTS, "Topic 'there' already exists."),
        Refused(topic("going"), EXISTS, "Topic 'going' is marked for deletion."),
        Refused(topic("left"), EXISTS, "Topic 'left' is marked for deletion."),
        Refused(
            topic("kept"),
            EXISTS,
            "Topic 'kept' cannot be created: its name is reserved by another topic in the trash.",
        ),
        Refused(topic(""), BAD_TOPIC, "Topic name is invalid: the empty string is not allowed"),
        Refused(topic("."), BAD_TOPIC, "Topic name is invalid: '.' is not allowed"),
        Refused(
            topic("a b"),
            BAD_TOPIC,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
        Refused(
            topic("x" * 250),
            BAD_TOPIC,
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
        ),
        Refused(topic("a_b"), BAD_TOPIC, "Topic 'a_b' collides with existing topics: a.b"),
        Refused(topic("a.c_d"), BAD_TOPIC, "Topic 'a.c_d' collides with existing topics: a_c.d"),
        Refused(topic(partitions=0), BAD_COUNT, "Number of partitions must be larger than 0."),
        Refused(topic(partitions=-2), BAD_COUNT, "Number of partitions must be larger than 0."),
        Refused(topic(factor=0), BAD_FACTOR, "Replication factor must be larger than 0."),
        Refused(topic(factor=4), BAD_FACTOR, "Replication factor: 4 larger than available brokers: 3."),
        Refused(topic("a b", factor=0), BAD_FACTOR, "Replication factor must be larger than 0."),
        Refused(assigned({0: (1,)}, partitions=1), ErrorCode.INVALID_REQUEST, BOTH),
        Refused(assigned({0: (1,)}, factor=1), ErrorCode.INVALID_REQUEST, BOTH),
        Refused(assigned({0: (1,), 2: (1,)}), BAD_ASSIGNMENT, CONSECUTIVE),
        Refused(assigned({1: (1,)}), BAD_ASSIGNMENT, CONSECUTIVE),
        Refused(assigned({-1: (1,), 0: (1,)}), BAD_ASSIGNMENT, CONSECUTIVE),
        Refused(
            assigned({0: (1,), 1: (1, 2)}), BAD_ASSIGNMENT, "All partitions should have the same number of replicas"
        ),
        Refused(
            assigned({1: (1, 2), 0: (1, 1)}),
            BAD_ASSIGNMENT,
            "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(1, 1), 1 -> ArrayBuffer(1, 2))",
        ),
        Refused(assigned({0: ()}), BAD_ASSIGNMENT, "Cannot have replication factor of 0 for partition id 0."),
        Refused(assigned({0: (-1,)}), BAD_ASSIGNMENT, "Replicas of partition id 0 are no broker ids: -1."),
        Refused(
            topic(retention_ms=None, segment_ms=None, segment_bytes="1"),
            BAD_CONFIG,
            "Null value not supported for topic configs: retention.ms,segment.ms",
        ),
        Refused(
            topic(retention_ms="x"),
            BAD_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        Refused(topic(foo="x"), BAD_CONFIG, "Unknown topic config name: foo"),
        Refused(
            topic(remote_storage_enable="true"),
            BAD_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
    ids=lambda case: f"{case.message}"[:60],
)
def test_refused(case: Refused) -> None:
    with pytest.raises(RowRefused) as refused:
        check_topic(case.topic, AROUND)
    assert (refused.value.error, refused.value.message) == (case.error, case.message)


def test_brokers_of_which_some_have_racks_are_an_error_without_words() -> None:
    around = AROUND._replace(brokers=(BrokerRack(1, "a"), BrokerRack(2)))
    with pytest.raises(RowRefused, match="some brokers name a rack and others do not") as refused:
        check_topic(topic(), around)
    assert (refused.value.error, refused.value.message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


def test_more_partitions_than_a_znode_has_room_for_are_refused_before_they_are_assigned() -> None:
    def no_draw(limit: int) -> int:
        raise AssertionError(limit)

    with pytest.raises(RowRefused, match="are too many") as refused:
        check_topic(topic(partitions=1_000_000), AROUND._replace(draw=no_draw))
    assert refused.value.error is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("replicas, most", [(1, 82_592), (3, 61_944)])
def test_a_znode_has_room_for_fewer_partitions_with_more_replicas(replicas: int, most: int) -> None:
    check_room(most, replicas)
    with pytest.raises(RowRefused, match=f"the znode of a topic has no room for more than {most}."):
        check_room(most + 1, replicas)


def test_what_the_brokers_set_counts_for_the_checks() -> None:
    around = AROUND._replace(settings={"log.cleaner.max.compaction.lag.ms": BrokerSetting("8", ConfigSource.FILE)})
    with pytest.raises(RowRefused, match="conflict topic config setting min.compaction.lag.ms"):
        check_topic(topic(min_compaction_lag_ms="9"), around)
