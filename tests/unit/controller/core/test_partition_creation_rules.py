"""Partitions that clients may add are those that Kafka 3.9.1 lets them add, refused with its errors and words.

The words are what a broker of Kafka 3.9.1 in ZooKeeper mode has answered to these requests; placements are those of
its AddPartitionsTest."""

from __future__ import annotations

import pytest

from lethe.controller.core.partition_creation_rules import check_growth
from lethe.controller.core.replica_assignment import BrokerRack
from lethe.protocol.client_rows import RowRefused
from lethe.protocol.kafka.admin import GrowableTopic
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import ReplicaAssignment

BROKERS = tuple(BrokerRack(broker) for broker in range(4))
THREE = {number: ReplicaAssignment((1,)) for number in range(3)}


def grown(total: int, *assignments: tuple[int, ...]) -> GrowableTopic:
    return GrowableTopic("t", total, assignments or None)


@pytest.mark.parametrize(
    "existing,total,assignment",
    [
        ({0: (0, 1)}, 3, {1: (1, 2), 2: (2, 3)}),
        ({0: (1, 2)}, 3, {1: (2, 0), 2: (3, 1)}),
        ({0: (0, 1, 2, 3)}, 2, {1: (1, 2, 3, 0)}),
    ],
)
def test_new_partitions_go_on_from_the_first_one(
    existing: dict[int, tuple[int, ...]], total: int, assignment: dict[int, tuple[int, ...]]
) -> None:
    now = {number: ReplicaAssignment(replicas) for number, replicas in existing.items()}
    assert check_growth(grown(total), now, BROKERS) == assignment


def test_a_given_assignment_is_of_the_new_partitions() -> None:
    assert check_growth(grown(5, (3,), (0,)), THREE, BROKERS) == {3: (3,), 4: (0,)}


COUNT, ASSIGNMENT = ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    "topic,error,message",
    [
        (grown(2), COUNT, "Topic currently has 3 partitions, which is higher than the requested 2."),
        (grown(0), COUNT, "Topic currently has 3 partitions, which is higher than the requested 0."),
        (grown(3), COUNT, "Topic already has 3 partitions."),
        (grown(5, (1,)), ASSIGNMENT, "Increasing the number of partitions by 2 but 1 assignments provided."),
        (
            GrowableTopic("t", 4, ()),
            ASSIGNMENT,
            "Increasing the number of partitions by 1 but 0 assignments provided.",
        ),
        (
            grown(4, (1, 1)),
            ASSIGNMENT,
            "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 3.",
        ),
        (grown(4, (7,)), ASSIGNMENT, "Unknown broker(s) in replica assignment: 7."),
        (grown(5, (7, 1), (8, 7)), ASSIGNMENT, "Unknown broker(s) in replica assignment: 7, 8."),
        (grown(4, ()), ASSIGNMENT, "Cannot have replication factor of 0 for partition id 3."),
        (
            grown(5, (1, 2), (3,)),
            ASSIGNMENT,
            (
                "Inconsistent replication factor between partitions, partition 0 has 1 while partitions [3] have "
                "replication factors [2], respectively."
            ),
        ),
    ],
)
def test_refused(topic: GrowableTopic, error: ErrorCode, message: str) -> None:
    with pytest.raises(RowRefused) as refused:
        check_growth(topic, THREE, BROKERS)
    assert (refused.value.error, refused.value.message) == (error, message)


def test_a_topic_that_does_not_exist() -> None:
    with pytest.raises(RowRefused, match="The topic 't' does not exist.") as refused:
        check_growth(grown(5), {}, BROKERS)
    assert refused.value.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_is_being_reassigned() -> None:
    moving = {**THREE, 1: ReplicaAssignment((1, 2), adding=(2,), removing=(1,))}
    with pytest.raises(RowRefused, match="A partition reassignment is in progress for the topic 't'.") as refused:
        check_growth(grown(5), moving, BROKERS)
    assert refused.value.error is ErrorCode.REASSIGNMENT_IN_PROGRESS


def test_more_replicas_than_brokers() -> None:
    with pytest.raises(RowRefused, match="Replication factor: 2 larger than available brokers: 1.") as refused:
        check_growth(grown(2), {0: ReplicaAssignment((0, 1))}, BROKERS[:1])
    assert refused.value.error is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("numbers", [(0, 2), (1, 2)])
def test_no_partition_of_a_topic_with_a_gap_gets_other_replicas(numbers: tuple[int, int]) -> None:
    with pytest.raises(RowRefused, match="its partitions are not 0 to 1") as refused:
        check_growth(grown(4), dict.fromkeys(numbers, ReplicaAssignment((1,))), BROKERS)
    assert (refused.value.error, refused.value.message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


def test_a_topic_gets_no_more_partitions_than_its_znode_has_room_for() -> None:
    with pytest.raises(RowRefused, match="are too many"):
        check_growth(grown(1_000_000), THREE, BROKERS)
