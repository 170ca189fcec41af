"""Every pair of partition states, first leaders and elections as the partition state machine makes them."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Context
from lethe.controller.core.mutation import enter_partition_state, queue_deletion, set_leader_and_isr
from lethe.controller.core.partition_machine import enter
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_deletion import ResumeDeletions
from lethe.controller.core.tasks_partitions import BringOnline, MovePartitions
from lethe.controller.core.transitions import PARTITION_TRANSITIONS, PartitionState, ReplicaState
from lethe.protocol.kafka.control import LeaderAndIsrRequest
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Data, GetData, ReadFailed, SetData, Stat, ZkError
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
ONLY_T0 = {"t": 0b1}
S = PartitionState
KAFKA = {
    S.NEW: {S.NON_EXISTENT},
    S.ONLINE: {S.NEW, S.ONLINE, S.OFFLINE},
    S.OFFLINE: {S.NEW, S.ONLINE, S.OFFLINE},
    S.NON_EXISTENT: {S.OFFLINE},
}
"""Written down a second time, from Kafka's PartitionStateMachine, so that a change of the table is noticed."""


def one_partition(state: PartitionState, *brokers: int, led: bool = False) -> Context:
    context = leading(*(brokers or (1, 2)))
    add_topic(context, "t", [(1, 2)], led=led, partition_state=state)
    return context


def now_is(context: Context) -> PartitionState:
    return context.cluster.partition_state(T0)


def test_table_is_kafkas() -> None:
    assert {target: set(sources) for target, sources in PARTITION_TRANSITIONS.items()} == KAFKA


@pytest.mark.parametrize("before, target", [pytest.param(a, b, id=f"{a.name} to {b.name}") for a in S for b in S])
def test_transition_of_a_partition_happens_where_kafka_allows_it_and_is_refused_elsewhere(
    before: PartitionState, target: PartitionState
) -> None:
    context = one_partition(before)
    step = StepContext(context, NOW_MS)
    enter(step, ONLY_T0, target)
    legal = before in KAFKA[target]
    assert now_is(context) is (target if legal else before)
    assert len(refusals(step.effects)) == (0 if legal else 1)


def test_partition_of_an_unknown_topic_is_refused() -> None:
    effects = perform(leading(1), MovePartitions(ONLY_T0, S.NEW))
    assert [record.data["what"] for record in refusals(effects)] == ["NON_EXISTENT to NEW"]


@pytest.mark.parametrize("state", [S.NON_EXISTENT, S.ONLINE], ids=lambda s: s.name)
def test_bringing_online_concerns_new_and_offline_partitions_only(state: PartitionState) -> None:
    context = one_partition(state, led=state is S.ONLINE)
    assert perform(context, BringOnline(ONLY_T0)) == perform(context, BringOnline()) == []


@pytest.mark.parametrize("state", [S.NEW, S.OFFLINE], ids=lambda s: s.name)
def test_bringing_online_leaves_doomed_topics_alone(state: PartitionState) -> None:
    context = one_partition(state, led=state is S.OFFLINE)
    queue_deletion(context.cluster, "t", NOW_MS)
    assert perform(context, BringOnline()) == []


# --- New to Online ------------------------------------------------------------------------------------------------


def test_new_to_online_writes_the_state_and_tells_the_isr_that_it_is_new() -> None:
    context = one_partition(S.NEW, 2)
    effects = written(context, perform(context, BringOnline(ONLY_T0)))
    first = LeaderAndIsr(2, 0, (2,), EPOCH)
    assert write_in(effects).groups == (
        (
            Create(paths.topic_partition("t", 0), None),
            Create(paths.partition_state("t", 0), znodes.encode_state(first)),
        ),
    )
    effects = written(context, effects)
    assert now_is(context) is S.ONLINE
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == first
    row = rows_of(sends(effects, LeaderAndIsrRequest)[2])["t-0"]
    assert (row.leader, row.isr, row.leader_epoch, row.partition_epoch, row.is_new) == (2, (2,), 0, 0, True)


def test_new_stays_new_where_the_state_cannot_be_created() -> None:
    context = one_partition(S.NEW)
    effects = written(context, written(context, perform(context, BringOnline(ONLY_T0))), {0: ZkError.NO_NODE})
    assert now_is(context) is S.NEW
    assert context.last_request_id == 0
    assert [record.data["why"] for record in refusals(effects)] == ["writing its state: NO_NODE"]


def test_new_stays_new_where_a_state_exists_already() -> None:
    """The partition's own znode may be left over; its state may not."""
    context = one_partition(S.NEW)
    effects = written(context, written(context, perform(context, BringOnline(ONLY_T0))), {0: ZkError.NODE_EXISTS})
    (group,) = write_in(effects).groups
    assert [operation.path for operation in group] == [paths.partition_state("t", 0)]
    effects = written(context, effects, {0: ZkError.NODE_EXISTS})
    assert now_is(context) is S.NEW
    assert sends(effects, LeaderAndIsrRequest) == {}


def test_new_stays_new_without_a_live_replica() -> None:
    context = one_partition(S.NEW, 3)
    effects = written(context, perform(context, BringOnline(ONLY_T0)))
    assert now_is(context) is S.NEW
    assert [record.data["why"] for record in refusals(effects)] == ["no assigned replica is on a live broker"]


# --- Offline to Online --------------------------------------------------------------------------------------------


def test_offline_to_online_elects_from_the_isr_without_asking_for_configuration() -> None:
    context = one_partition(S.OFFLINE, 1, 2)
    set_leader_and_isr(context.cluster, T0, LeaderAndIsr(-1, 5, (2,), EPOCH, 7))
    effects = perform(context, BringOnline(ONLY_T0))
    ((operation,),) = write_in(effects).groups
    assert isinstance(operation, SetData)
    assert operation.version == 7
    effects = written(context, effects)
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == LeaderAndIsr(2, 6, (2,), EPOCH, 8)
    requests = sends(effects, LeaderAndIsrRequest)
    assert list(requests) == [1, 2], "all live replicas are told, not only the ISR"
    assert not rows_of(requests[1])["t-0"].is_new
    assert rows_of(requests[1])["t-0"].partition_epoch == 8
    assert now_is(context) is S.ONLINE


@pytest.mark.parametrize("ibp, recovering", [("3.1", 0), ("3.2", 1), ("3.9", 1)])
def test_offline_to_online_uncleanly_marks_recovery_where_the_protocol_knows_it(ibp: str, recovering: int) -> None:
    context = leading(2, ibp=InterBrokerProtocol.parse(ibp))
    add_topic(context, "t", [(1, 2)], partition_state=S.OFFLINE)
    set_leader_and_isr(context.cluster, T0, LeaderAndIsr(-1, 5, (1,), EPOCH, 7))
    effects = perform(context, BringOnline(ONLY_T0))
    assert read_in(effects).reads == (GetData(paths.config_topic("t")),)
    config = znodes.encode_config({"unclean.leader.election.enable": "true"})
    effects = written(context, answered(context, effects, Data(config, Stat(1, 1, 0, 0))))
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == LeaderAndIsr(2, 6, (2,), EPOCH, 8, recovering)
    assert (context.elections, context.unclean_elections) == (1, 1)
    (told,) = refusals(effects)
    assert (told.subject, told.data) == (
        "topic/t",
        {
            "what": "electing a leader that was in sync",
            "why": "none of the ISR [1] is alive: 2 leads, and what it had not fetched is lost",
            "partitions": "0",
        },
    )


@pytest.mark.parametrize(
    "found, default, elected",
    [
        (ReadFailed(ZkError.NO_NODE), False, False),
        (ReadFailed(ZkError.NO_NODE), True, True),
        (ReadFailed(ZkError.NO_AUTH), True, False),
        (Data(b"?", Stat(1, 1, 0, 0)), True, False),
        (Data(znodes.encode_config({}), Stat(1, 1, 0, 0)), True, True),
        (Data(znodes.encode_config({"unclean.leader.election.enable": "false"}), Stat(1, 1, 0, 0)), True, False),
    ],
    ids=["none", "none, default on", "not readable", "malformed", "empty, default on", "off, default on"],
)
def test_unclean_election_where_configuration_or_default_allows_it(
    found: Data | ReadFailed, default: bool, elected: bool
) -> None:
    context = leading(2, unclean=default)
    add_topic(context, "t", [(1, 2)], partition_state=S.OFFLINE)
    set_leader_and_isr(context.cluster, T0, LeaderAndIsr(-1, 5, (1,), EPOCH, 7))
    answered(context, perform(context, BringOnline(ONLY_T0)), found)
    assert context.awaiting_result is elected
    assert now_is(context) is S.OFFLINE


def test_offline_stays_offline_where_the_write_fails() -> None:
    context = one_partition(S.OFFLINE, 1, 2, led=True)
    effects = written(context, perform(context, BringOnline(ONLY_T0)), {0: ZkError.NO_NODE})
    assert now_is(context) is S.OFFLINE
    assert sends(effects, LeaderAndIsrRequest) == {}


def test_offline_stays_offline_where_the_state_is_gone_when_it_is_read_again() -> None:
    context = one_partition(S.OFFLINE, 1, 2, led=True)
    effects = written(context, perform(context, BringOnline(ONLY_T0)), {0: ZkError.BAD_VERSION})
    answered(context, effects, ReadFailed(ZkError.NO_NODE))
    assert now_is(context) is S.OFFLINE
    assert not context.awaiting_result


def test_every_election_raises_the_leader_epoch_also_where_the_leader_stays() -> None:
    context = one_partition(S.OFFLINE, 1, 2, led=True)
    written(context, perform(context, BringOnline(ONLY_T0)))
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == LeaderAndIsr(1, 1, (1, 2), EPOCH, 1)


@pytest.mark.parametrize("state", [S.NEW, S.OFFLINE], ids=lambda s: s.name)
def test_failed_directory_concerns_its_own_partition_and_no_other_with_the_same_replicas(state: PartitionState) -> None:
    context = leading(1, 2)
    add_topic(context, "t", [(1, 2)] * 3, led=state is S.OFFLINE, partition_state=state)
    context.cluster.offline_dirs[BrokerId(1)] = {TopicPartition("t", 1): None}
    effects = perform(context, BringOnline())
    written(context, written(context, effects) if state is S.NEW else effects)
    assert [known.leader for _, _, known in context.cluster.topics["t"].leaders(0b111)] == [1, 2, 1]


# --- the count of offline partitions ------------------------------------------------------------------------------


def four_offline() -> Context:
    context = leading(1, 2)
    add_topic(context, "t", [(1, 2)] * 4, led=True, partition_state=S.NEW, replica_state=ReplicaState.ONLINE)
    perform(context, MovePartitions({"t": 0b1111}, S.OFFLINE))
    return context


def test_offline_partitions_are_counted() -> None:
    context = four_offline()
    assert context.cluster.offline_partitions == 4
    written(context, perform(context, BringOnline()))
    assert context.cluster.offline_partitions == 0


def test_offline_partitions_of_topics_whose_deletion_has_started_are_not_counted() -> None:
    context = one_partition(S.ONLINE, led=True)
    queue_deletion(context.cluster, "t", NOW_MS)
    context.cluster.deletions["t"].started_at_ms = NOW_MS
    perform(context, MovePartitions(ONLY_T0, S.OFFLINE))
    perform(context, MovePartitions(ONLY_T0, S.NON_EXISTENT))
    assert context.cluster.offline_partitions == 0


def test_offline_partitions_leave_the_count_when_their_deletion_starts() -> None:
    context = four_offline()
    queue_deletion(context.cluster, "t", NOW_MS)
    assert context.cluster.offline_partitions == 4
    perform(context, ResumeDeletions(("t",)))
    assert context.cluster.offline_partitions == 0
    enter_partition_state(context.cluster, ONLY_T0, S.NON_EXISTENT)
    assert context.cluster.offline_partitions == 0
