"""ISRs that name brokers that are no replicas."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Context
from lethe.controller.core.invariants import violations
from lethe.controller.core.mutation import queue_deletion, set_leader_and_isr
from lethe.controller.core.partition_sets import columns_of
from lethe.controller.core.tasks_partitions import ElectLeaders, ShrinkIsr
from lethe.controller.core.tasks_requests import RefreshStates, RemoveForeignIsrMembers
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.kafka.control import LeaderAndIsrRequest
from lethe.protocol.vocabulary import LEADER_NONE, BrokerId, LeaderAndIsr, PartitionReplica, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Data, GetData, SetData, Stat, ZkError
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.unit.controller.core.stage import (
    EPOCH,
    NOW_MS,
    add_topic,
    answered,
    leading,
    perform,
    read_in,
    refusals,
    rows_of,
    sends,
    write_in,
    written,
)

T0 = TopicPartition("t", 0)


def cluster(isr: tuple[int, ...], leader: int = 1) -> Context:
    """t-0 on brokers 1 and 2; 3 is no replica."""
    context = leading(1, 2, 3)
    add_topic(
        context,
        "t",
        [(1, 2)],
        led=True,
        partition_state=PartitionState.ONLINE,
        replica_state=ReplicaState.ONLINE,
    )
    set_leader_and_isr(context.cluster, T0, LeaderAndIsr(leader, 4, isr, EPOCH, 7))
    return context


def test_state_is_written_without_them_under_the_next_leader_epoch_and_the_replicas_are_told() -> None:
    context = cluster((1, 3, 2))
    assert violations(context) == ["t-0: ISR (1, 3, 2) has [3], not in the assignment (1, 2)"]
    effects = perform(context, RemoveForeignIsrMembers((T0,)))
    state = LeaderAndIsr(1, 5, (1, 2), EPOCH, 7)
    assert write_in(effects).groups == ((SetData(paths.partition_state("t", 0), znodes.encode_state(state), 7),),)
    effects = written(context, effects)
    told = sends(effects, LeaderAndIsrRequest)
    assert sorted(told) == [1, 2]
    row = rows_of(told[1])["t-0"]
    assert (row.leader, row.leader_epoch, row.isr) == (1, 5, (1, 2))
    assert violations(context) == []


@pytest.mark.parametrize(
    "isr, leader",
    [((1, 2), 1), ((3,), 3)],
    ids=["no stranger", "nobody else is in sync"],
)
def test_others_stay_as_they_are(isr: tuple[int, ...], leader: int) -> None:
    context = cluster(isr, leader)
    assert perform(context, RemoveForeignIsrMembers((T0,))) == []
    assert violations(context) == []


def test_stranger_that_leads_is_replaced() -> None:
    context = cluster((3, 2), 3)
    effects = perform(context, RemoveForeignIsrMembers((T0,)))
    nobody = LeaderAndIsr(LEADER_NONE, 5, (2,), EPOCH, 7)
    assert write_in(effects).groups == ((SetData(paths.partition_state("t", 0), znodes.encode_state(nobody), 7),),)
    effects = written(context, effects)
    another = LeaderAndIsr(2, 6, (2,), EPOCH, 8)
    assert write_in(effects).groups == ((SetData(paths.partition_state("t", 0), znodes.encode_state(another), 8),),)


def test_last_replica_stays_in_sync_when_it_goes_offline_and_a_stranger_led() -> None:
    context = cluster((3, 2), 3)
    effects = perform(context, ShrinkIsr(columns_of([PartitionReplica("t", 0, BrokerId(2))])))
    state = LeaderAndIsr(LEADER_NONE, 5, (2,), EPOCH, 7)
    assert write_in(effects).groups == ((SetData(paths.partition_state("t", 0), znodes.encode_state(state), 7),),)


def test_topic_that_is_being_deleted_is_left_alone() -> None:
    context = cluster((1, 3))
    queue_deletion(context.cluster, "t", NOW_MS)
    assert perform(context, RemoveForeignIsrMembers((T0, TopicPartition("unknown", 0)))) == []


def test_state_that_a_leader_wrote_with_a_stranger_is_put_right_when_it_is_read() -> None:
    context = cluster((1, 2))
    effects = perform(context, RefreshStates((T0,)))
    theirs = znodes.encode_state(LeaderAndIsr(1, 4, (1, 2, 3), EPOCH, 0))
    effects = answered(context, effects, Data(theirs, Stat(1, 9, 8, 0)))
    (group,) = write_in(effects).groups
    assert group == (
        SetData(paths.partition_state("t", 0), znodes.encode_state(LeaderAndIsr(1, 5, (1, 2), EPOCH, 8)), 8),
    )


def test_state_that_was_written_meanwhile_is_read_again() -> None:
    context = cluster((1, 3))
    effects = written(context, perform(context, RemoveForeignIsrMembers((T0,))), {0: ZkError.BAD_VERSION})
    assert read_in(effects).reads == (GetData(paths.partition_state("t", 0)),)


def test_refused_write_is_recorded() -> None:
    context = cluster((1, 3))
    effects = written(context, perform(context, RemoveForeignIsrMembers((T0,))), {0: ZkError.NO_AUTH})
    assert [record.data["why"] for record in refusals(effects)] == [f"writing its state: {NO_AUTH}"]


def test_replicas_are_told_of_the_isr_without_strangers_where_the_state_was_removed() -> None:
    context = cluster((1, 3))
    effects = written(context, perform(context, RemoveForeignIsrMembers((T0,))), {0: ZkError.NO_NODE})
    assert [record.data["why"] for record in refusals(effects)] == ["writing its state: NO_NODE"]
    assert violations(context) == []
    (row,) = rows_of(sends(effects, LeaderAndIsrRequest)[1]).values()
    assert (row.leader, row.leader_epoch, row.isr) == (1, 5, (1,))


def test_replica_that_goes_offline_takes_strangers_along() -> None:
    context = cluster((1, 2, 3))
    effects = perform(context, ShrinkIsr(columns_of([PartitionReplica("t", 0, BrokerId(2))])))
    assert write_in(effects).groups[0] == (
        SetData(paths.partition_state("t", 0), znodes.encode_state(LeaderAndIsr(1, 5, (1,), EPOCH, 7)), 7),
    )


def test_last_replica_in_sync_stays_and_a_stranger_does_not() -> None:
    context = cluster((1, 3))
    effects = perform(context, ShrinkIsr(columns_of([PartitionReplica("t", 0, BrokerId(1))])))
    assert write_in(effects).groups[0] == (
        SetData(paths.partition_state("t", 0), znodes.encode_state(LeaderAndIsr(LEADER_NONE, 5, (1,), EPOCH, 7)), 7),
    )


def test_leader_is_elected_without_strangers() -> None:
    context = cluster((2, 3), LEADER_NONE)
    effects = perform(context, ElectLeaders({"t": 0b1}))
    assert write_in(effects).groups[0] == (
        SetData(paths.partition_state("t", 0), znodes.encode_state(LeaderAndIsr(2, 5, (2,), EPOCH, 7)), 7),
    )
