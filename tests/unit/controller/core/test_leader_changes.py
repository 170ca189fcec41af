"""Elections by each strategy: what is written, who is told, and what happens where somebody else was quicker."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Context
from lethe.controller.core.election import Strategy
from lethe.controller.core.mutation import queue_deletion, set_assignment, set_leader_and_isr
from lethe.controller.core.tasks_partitions import ElectLeaders
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.kafka.control import LeaderAndIsrRequest, UpdateMetadataRequest
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Data, SetData, Stat, ZkError
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.unit.controller.core.stage import (
    EPOCH,
    add_topic,
    answered,
    leading,
    perform,
    refusals,
    rows_of,
    sends,
    write_in,
    written,
)

T0 = TopicPartition("t", 0)
ONLY_T0 = {"t": 0b1}
OTHERS = [Strategy.REASSIGN, Strategy.PREFERRED, Strategy.CONTROLLED_SHUTDOWN]


def online(replicas: tuple[int, ...], leader: int, isr: tuple[int, ...], *brokers: int) -> Context:
    context = leading(*brokers)
    add_topic(
        context,
        "t",
        [replicas],
        led=True,
        partition_state=PartitionState.ONLINE,
        replica_state=ReplicaState.ONLINE,
    )
    set_leader_and_isr(context.cluster, T0, LeaderAndIsr(leader, 5, isr, EPOCH, 8))
    return context


def leader_and_isr(context: Context) -> LeaderAndIsr | None:
    return context.cluster.topics["t"].partitions[0].leader_and_isr


def test_online_to_online_by_the_preferred_strategy_raises_the_epoch_and_tells_all_assigned() -> None:
    context = online((1, 2), 2, (2, 1), 1, 2, 3)
    effects = perform(context, ElectLeaders(ONLY_T0, strategy=Strategy.PREFERRED))
    wanted = LeaderAndIsr(1, 6, (2, 1), EPOCH, 8)
    assert write_in(effects).groups == ((SetData(paths.partition_state("t", 0), znodes.encode_state(wanted), 8),),)
    told = sends(written(context, effects), LeaderAndIsrRequest)
    assert leader_and_isr(context) == wanted._replace(partition_epoch=9)
    assert sorted(told) == [1, 2]
    row = rows_of(told[BrokerId(1)])["t-0"]
    assert (row.leader, row.leader_epoch, row.partition_epoch, row.is_new) == (1, 6, 9, False)


def test_online_to_online_for_a_controlled_shutdown_leaves_the_leaving_out_and_tells_it_too() -> None:
    context = online((1, 2), 1, (1, 2), 1, 2)
    context.cluster.shutting_down[BrokerId(1)] = None
    effects = perform(context, ElectLeaders(ONLY_T0, strategy=Strategy.CONTROLLED_SHUTDOWN))
    told = sends(written(context, effects), LeaderAndIsrRequest)
    assert leader_and_isr(context) == LeaderAndIsr(2, 6, (2,), EPOCH, 9)
    assert sorted(told) == [1, 2]


def test_controlled_shutdown_tells_no_replica_whose_directory_has_failed() -> None:
    context = online((1, 2, 3), 1, (1, 2), 1, 2, 3)
    context.cluster.shutting_down[BrokerId(1)] = None
    context.cluster.offline_dirs[BrokerId(3)] = {T0: None}
    effects = perform(context, ElectLeaders(ONLY_T0, strategy=Strategy.CONTROLLED_SHUTDOWN))
    assert sorted(sends(written(context, effects), LeaderAndIsrRequest)) == [1, 2]


def test_reassign_tells_the_target_replicas_and_updates_everybody() -> None:
    context = online((3, 2, 1), 1, (1, 2, 3), 1, 2, 3, 4)
    set_assignment(context.cluster, T0, ReplicaAssignment((3, 2, 1), (3,), (1,)))
    after = written(context, perform(context, ElectLeaders(ONLY_T0, strategy=Strategy.REASSIGN)))
    assert leader_and_isr(context) == LeaderAndIsr(3, 6, (1, 2, 3), EPOCH, 9)
    assert sorted(sends(after, LeaderAndIsrRequest)) == [2, 3]
    assert sorted(sends(after, UpdateMetadataRequest)) == [1, 2, 3, 4]


@pytest.mark.parametrize("strategy", OTHERS)
def test_a_partition_that_nobody_may_lead_is_refused_and_stays_as_it_is(strategy: Strategy) -> None:
    context = online((1, 2), 2, (2,), 1, 2)
    context.cluster.shutting_down[BrokerId(2)] = None
    before = leader_and_isr(context)
    effects = perform(context, ElectLeaders(ONLY_T0, strategy=strategy))
    assert [record.subject for record in refusals(effects)] == ["topic/t"]
    assert leader_and_isr(context) == before
    assert not context.awaiting_result


@pytest.mark.parametrize("strategy", OTHERS)
def test_a_queued_topic_is_left_out(strategy: Strategy) -> None:
    context = online((1, 2), 2, (1, 2), 1, 2)
    queue_deletion(context.cluster, "t", 0)
    assert perform(context, ElectLeaders(ONLY_T0, strategy=strategy)) == []


def test_conflict_is_read_again_and_the_same_strategy_repeated() -> None:
    context = online((1, 2, 3), 2, (1, 2), 1, 2, 3)
    effects = perform(context, ElectLeaders(ONLY_T0, strategy=Strategy.PREFERRED))
    reading = written(context, effects, {0: ZkError.BAD_VERSION})
    theirs = LeaderAndIsr(2, 5, (1, 2, 3), EPOCH)
    again = answered(context, reading, Data(znodes.encode_state(theirs), Stat(1, 1, 12, 0)))
    assert write_in(again).groups[0][0] == SetData(
        paths.partition_state("t", 0), znodes.encode_state(LeaderAndIsr(1, 6, (1, 2, 3), EPOCH)), 12
    )
    written(context, again)
    assert leader_and_isr(context) == LeaderAndIsr(1, 6, (1, 2, 3), EPOCH, 13)


@pytest.mark.parametrize("strategy", OTHERS)
def test_an_election_that_could_not_be_written_changes_nothing(strategy: Strategy) -> None:
    context = online((1, 2, 3), 3, (1, 2, 3), 1, 2, 3)
    set_assignment(context.cluster, T0, ReplicaAssignment((1, 2, 3), (), (3,)))
    context.cluster.shutting_down[BrokerId(3)] = None
    before = leader_and_isr(context)
    after = written(context, perform(context, ElectLeaders(ONLY_T0, strategy=strategy)), {0: ZkError.NO_AUTH})
    assert leader_and_isr(context) == before
    assert [record.data["why"] for record in refusals(after)] == [f"writing its state: {NO_AUTH}"]
