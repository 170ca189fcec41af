"""What the context remembers of topics and assignments, and the counts that are kept beside it."""

from __future__ import annotations

import copy

import pytest

from lethe.controller.core.context import Context
from lethe.controller.core.invariants import violations
from lethe.controller.core.mutation import (
    add_topic,
    queue_deletion,
    remove_topic,
    set_assignment,
    set_leader_and_isr,
    set_replica_state,
)
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, PartitionReplica, ReplicaAssignment, TopicPartition
from tests.unit.controller.core import stage
from tests.unit.controller.core.stage import EPOCH, leading

A = ReplicaAssignment
T1 = {0: A((1, 2, 3)), 1: A((2, 3, 1)), 2: A((3, 1, 2))}


def known() -> Context:
    context = leading(1, 2, 3)
    add_topic(context.cluster, "t", None, T1)
    return context


def test_set_assignment_replaces_replicas_adding_and_removing() -> None:
    context = known()
    tp = TopicPartition("t", 0)
    for assignment in (A((4,)), A((1, 2, 3), (1, 2, 3), ()), A((1, 2, 3), (4, 5), (6, 7)), A((), (), ())):
        set_assignment(context.cluster, tp, assignment)
        assert context.cluster.topics["t"].partitions[0].assignment == assignment
    assert context.cluster.topics["t"].partitions[1].assignment == T1[1]


def test_set_assignment_of_a_new_partition_adds_it() -> None:
    context = known()
    set_assignment(context.cluster, TopicPartition("t", 3), A((2, 1)))
    assert list(context.cluster.topics["t"].partitions) == [0, 1, 2, 3]


@pytest.mark.parametrize("tp", [TopicPartition("t", 100), TopicPartition("u", 0)], ids=str)
def test_unknown_partition_is_none_and_has_no_replicas(tp: TopicPartition) -> None:
    context = known()
    assert context.cluster.partition(tp) is None
    assert context.cluster.replica_state(PartitionReplica(*tp, BrokerId(1))) is ReplicaState.NON_EXISTENT
    set_leader_and_isr(context.cluster, tp, LeaderAndIsr(1, 0, (1,), EPOCH))
    set_replica_state(context.cluster, PartitionReplica(*tp, BrokerId(1)), ReplicaState.ONLINE)
    assert context == known()


def test_unknown_topic_has_no_partitions_and_no_replicas() -> None:
    context = known()
    assert list(context.cluster.partitions_of("u")) == []
    assert list(context.cluster.replicas_of("u")) == []


def test_replicas_of_a_topic_and_on_brokers_in_the_order_of_the_assignment() -> None:
    context = known()
    assert [str(r) for r in context.cluster.replicas_of("t")] == [
        *("t-0@1", "t-0@2", "t-0@3"),
        *("t-1@2", "t-1@3", "t-1@1"),
        *("t-2@3", "t-2@1", "t-2@2"),
    ]
    found = context.cluster.replicas_on((BrokerId(1), BrokerId(3)))
    assert found == {"t": {BrokerId(1): 0b111, BrokerId(3): 0b111}}


# --- assignments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "assignment, target, origin",
    [
        (A((1, 2, 3, 4, 5, 6), (2, 3, 4), (1, 5, 6)), (2, 3, 4), (1, 5, 6)),
        (A((1, 2, 3, 4), (), (1, 4)), (2, 3), (1, 2, 3, 4)),
        (A((1, 2, 3, 4), (4,), (2,)), (1, 3, 4), (1, 2, 3)),
        (A((1, 2, 3, 4)), (1, 2, 3, 4), (1, 2, 3, 4)),
    ],
)
def test_target_and_origin_of_an_assignment(
    assignment: ReplicaAssignment, target: tuple[int, ...], origin: tuple[int, ...]
) -> None:
    assert (assignment.target, assignment.origin) == (target, origin)
    assert assignment.is_being_reassigned is (target != assignment.replicas or origin != assignment.replicas)


@pytest.mark.parametrize(
    "origin, target, expected",
    [
        ((1, 2, 3, 4), (4, 2, 5, 3), A((4, 2, 5, 3, 1), (5,), (1,))),
        ((1, 2, 3), (4, 5, 6), A((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))),
        ((1, 2, 3), (3, 1, 2), A((3, 1, 2))),
    ],
)
def test_reassign_to(origin: tuple[int, ...], target: tuple[int, ...], expected: ReplicaAssignment) -> None:
    assert A(origin).reassign_to(target) == expected


def test_reassign_to_its_own_target_changes_nothing() -> None:
    moving = A((1, 2, 3)).reassign_to((3, 4, 5))
    assert moving.reassign_to(moving.target) == moving


def test_second_target_replaces_the_first_and_going_back_gives_the_original() -> None:
    moving = A((1, 2, 3)).reassign_to((3, 4, 5))
    assert moving.reassign_to((3, 1, 5)) == A((3, 1, 5, 2), (5,), (2,))
    assert moving.reassign_to((1, 2, 3)) == A((1, 2, 3))


# --- partitions not led by their preferred replica ----------------------------------------------------------------


def lead(context: Context, name: str, partition: int, leader: int) -> None:
    replicas = context.cluster.topics[name].partitions[partition].assignment.replicas
    set_leader_and_isr(context.cluster, TopicPartition(name, partition), LeaderAndIsr(leader, 1, replicas, EPOCH))


def test_preferred_replica_imbalance_follows_leaders_assignments_and_deletions() -> None:
    context = known()
    add_topic(context.cluster, "u", None, T1)
    for name in ("t", "u"):
        for number, assignment in T1.items():
            lead(context, name, number, assignment.replicas[0])
    assert context.cluster.preferred_imbalance == 0
    lead(context, "t", 0, 2)
    assert context.cluster.preferred_imbalance == 1
    lead(context, "u", 1, 1)
    assert context.cluster.preferred_imbalance == 2
    set_assignment(context.cluster, TopicPartition("u", 2), A((1, 2, 3)))
    assert context.cluster.preferred_imbalance == 3
    set_assignment(context.cluster, TopicPartition("t", 0), A((2, 1, 3)))
    assert context.cluster.preferred_imbalance == 2
    queue_deletion(context.cluster, "u", 0)
    assert context.cluster.preferred_imbalance == 0
    lead(context, "u", 0, 3)
    assert context.cluster.preferred_imbalance == 0
    remove_topic(context.cluster, "u")
    remove_topic(context.cluster, "t")
    assert (context.cluster.preferred_imbalance, context.cluster.partitions_with_leader_and_isr) == (0, 0)


def test_preferred_replica_imbalance_never_falls_below_nought_when_deletions_overlap() -> None:
    context = leading(1, 2)
    for name in ("a", "b"):
        add_topic(context.cluster, name, None, {0: A((1, 2))})
        lead(context, name, 0, 1)
    queue_deletion(context.cluster, "a", 0)
    lead(context, "a", 0, -1)
    queue_deletion(context.cluster, "a", 1)
    queue_deletion(context.cluster, "b", 1)
    assert context.cluster.preferred_imbalance == 0
    for name in ("a", "b"):
        remove_topic(context.cluster, name)
        assert context.cluster.preferred_imbalance == 0


# --- removal and invariants ---------------------------------------------------------------------------------------


def test_a_removed_topic_leaves_nothing_behind() -> None:
    context = leading(1, 2)
    before = copy.deepcopy(context)
    stage.add_topic(
        context,
        "t",
        [(1, 2)] * 3,
        led=True,
        partition_state=PartitionState.OFFLINE,
        replica_state=ReplicaState.OFFLINE,
    )
    context.cluster.offline_dirs[BrokerId(1)] = {TopicPartition("t", 0): None}
    queue_deletion(context.cluster, "t", 0)
    remove_topic(context.cluster, "t")
    context.cluster.offline_dirs = {broker: found for broker, found in context.cluster.offline_dirs.items() if found}
    assert context == before


def test_each_invariant_notices_what_it_is_about() -> None:
    context = leading(1, 2)
    stage.add_topic(context, "t", [(1, 2)], led=True, partition_state=PartitionState.ONLINE)
    assert violations(context) == []

    def found(change: str) -> list[str]:
        broken = copy.deepcopy(context)
        partition = broken.cluster.topics["t"].partitions[0]
        match change:
            case "isr":
                partition.leader_and_isr = LeaderAndIsr(1, 0, (1, 9), EPOCH)
            case "leader":
                partition.leader_and_isr = LeaderAndIsr(2, 0, (1,), EPOCH)
            case "online":
                partition.leader_and_isr = None
            case "offline count":
                broken.cluster.offline_partitions = 1
            case "imbalance":
                broken.cluster.preferred_imbalance = 5
            case "states":
                queue_deletion(broken.cluster, "t", 0)
                broken.cluster.topics["t"].replicas[1] = ((ReplicaState.ONLINE, 1),)
            case "unknown":
                queue_deletion(broken.cluster, "ghost", 0)
            case "lists put off":
                broken.cluster.removals.look_again = True
            case _:
                raise AssertionError(change)
        return violations(broken)

    for change in ("isr", "leader", "online", "offline count", "imbalance", "states", "unknown", "lists put off"):
        assert found(change), change
