"""Every pair of replica states, and what each legal transition tells the brokers and ZooKeeper."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import LogDirEvidence
from lethe.controller.core.mutation import enter_replica_state, queue_deletion, set_leader_and_isr, set_replica_state
from lethe.controller.core.partition_sets import columns_of
from lethe.controller.core.tasks import TakeOver
from lethe.controller.core.tasks_partitions import MoveReplicas
from lethe.controller.core.transitions import REPLICA_TRANSITIONS, ReplicaState
from lethe.protocol.kafka.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, PartitionReplica, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Data, ReadFailed, SetData, Stat, ZkError
from tests.unit.controller.core.stage import (
    EPOCH,
    add_topic,
    answered,
    leading,
    perform,
    refusals,
    rows_of,
    sends,
    state_of,
    stops_of,
    updates_of,
    write_in,
    written,
)

T0 = TopicPartition("t", 0)
REPLICA = PartitionReplica("t", 0, BrokerId(1))
ALONE = columns_of((REPLICA,))
S = ReplicaState
LEGAL = {
    S.NEW: {S.NON_EXISTENT},
    S.ONLINE: {S.NEW, S.ONLINE, S.OFFLINE, S.DELETION_INELIGIBLE},
    S.OFFLINE: {S.NEW, S.ONLINE, S.OFFLINE, S.DELETION_INELIGIBLE},
    S.DELETION_STARTED: {S.OFFLINE},
    S.DELETION_SUCCESSFUL: {S.DELETION_STARTED},
    S.DELETION_INELIGIBLE: {S.OFFLINE, S.DELETION_STARTED, S.DELETION_OWED},
    S.DELETION_OWED: {S.OFFLINE, S.DELETION_INELIGIBLE},
    S.NON_EXISTENT: {S.DELETION_SUCCESSFUL},
}
"""Written down a second time, Kafka's ReplicaStateMachine and DeletionOwed, to notice a change of the table."""
PAIRS = [pytest.param(a, b, id=f"{a.name} to {b.name}") for a in S for b in S]


def one_replica(state: ReplicaState, *, led: bool = False) -> Context:
    context = leading(1, 2)
    add_topic(context, "t", [(1, 2)], led=led)
    if state is not S.NON_EXISTENT:
        set_replica_state(context.cluster, REPLICA, state)
    return context


def test_table_is_kafkas() -> None:
    assert {target: set(sources) for target, sources in REPLICA_TRANSITIONS.items()} == LEGAL


@pytest.mark.parametrize("before, target", PAIRS)
def test_transition_of_a_replica_happens_where_kafka_allows_it_and_is_refused_elsewhere(
    before: ReplicaState, target: ReplicaState
) -> None:
    context = one_replica(before)
    effects = perform(context, MoveReplicas(ALONE, target))
    if before in LEGAL[target]:
        assert state_of(context, "t", 0, 1) is target
        assert refusals(effects) == []
    else:
        assert state_of(context, "t", 0, 1) is before
        (refusal,) = refusals(effects)
        assert refusal.data["what"] == f"{before.name} to {target.name}"
        assert context.last_request_id == 0


def test_illegal_one_among_many_is_refused_alone() -> None:
    context = leading(1, 2)
    add_topic(context, "t", [(1, 2)])
    other = PartitionReplica("t", 0, BrokerId(2))
    set_replica_state(context.cluster, REPLICA, S.DELETION_SUCCESSFUL)
    set_replica_state(context.cluster, other, S.ONLINE)
    effects = perform(context, MoveReplicas(columns_of((REPLICA, other)), S.OFFLINE))
    assert [state_of(context, "t", 0, n) for n in (1, 2)] == [S.DELETION_SUCCESSFUL, S.OFFLINE]
    assert len(refusals(effects)) == 1


def test_replica_of_an_unknown_topic_is_refused() -> None:
    context = leading(1)
    effects = perform(context, MoveReplicas(ALONE, S.NEW))
    assert len(refusals(effects)) == 1
    assert context.cluster.topics == {}


# --- startup ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("brokers, state", [((1, 2), S.ONLINE), ((2,), S.OFFLINE), ((), S.OFFLINE)])
def test_startup_puts_a_replica_online_or_offline_by_its_broker(brokers: tuple[int, ...], state: ReplicaState) -> None:
    context = leading(*brokers)
    add_topic(context, "t", [(1,)])
    answered(context, perform(context, TakeOver()), ReadFailed(ZkError.NO_NODE))
    assert state_of(context, "t", 0, 1) is state


# --- New ----------------------------------------------------------------------------------------------------------


def test_nonexistent_to_new_without_leadership_says_nothing() -> None:
    context = one_replica(S.NON_EXISTENT)
    perform(context, MoveReplicas(ALONE, S.NEW))
    assert context.last_request_id == 0


def test_nonexistent_to_new_with_a_leader_elsewhere_is_announced_as_new() -> None:
    context = one_replica(S.NON_EXISTENT)
    set_leader_and_isr(context.cluster, T0, LeaderAndIsr(2, 3, (2,), EPOCH))
    requests = sends(perform(context, MoveReplicas(ALONE, S.NEW)), LeaderAndIsrRequest)
    assert list(requests) == [1]
    assert rows_of(requests[1])["t-0"].is_new


def test_nonexistent_to_new_of_the_leader_itself_is_refused() -> None:
    context = one_replica(S.NON_EXISTENT, led=True)
    effects = perform(context, MoveReplicas(ALONE, S.NEW))
    assert state_of(context, "t", 0, 1) is S.NON_EXISTENT
    assert [record.data["why"] for record in refusals(effects)] == ["the replica already leads its partition"]


# --- Online -------------------------------------------------------------------------------------------------------


def test_new_to_online_says_nothing() -> None:
    context = one_replica(S.NEW, led=True)
    perform(context, MoveReplicas(ALONE, S.ONLINE))
    assert state_of(context, "t", 0, 1) is S.ONLINE
    assert context.last_request_id == 0


def test_new_to_online_of_a_replica_missing_from_the_assignment_adds_it() -> None:
    context = leading(1, 2)
    add_topic(context, "t", [(2,)])
    set_replica_state(context.cluster, REPLICA, S.NEW)
    perform(context, MoveReplicas(ALONE, S.ONLINE))
    assert context.cluster.topics["t"].partitions[0].assignment.replicas == (2, 1)


@pytest.mark.parametrize("before", [S.ONLINE, S.OFFLINE, S.DELETION_INELIGIBLE], ids=lambda s: s.name)
def test_to_online_tells_the_replica_whom_to_follow_as_not_new(before: ReplicaState) -> None:
    context = one_replica(before, led=True)
    effects = perform(context, MoveReplicas(ALONE, S.ONLINE))
    requests = sends(effects, LeaderAndIsrRequest)
    assert list(requests) == [1]
    row = rows_of(requests[1])["t-0"]
    assert (row.leader, row.leader_epoch, row.isr, row.is_new) == (1, 0, (1, 2), False)
    assert list(sends(effects, UpdateMetadataRequest)) == [1, 2]


def test_to_online_of_a_doomed_replica_is_announced_only_where_log_directories_prove_nothing() -> None:
    """Ours: the broker must say whether it can reach the replica. Kafka announces it wherever it had leadership."""
    context = one_replica(S.OFFLINE)
    assert sends(perform(context, MoveReplicas(ALONE, S.ONLINE)), LeaderAndIsrRequest) == {}
    queue_deletion(context.cluster, "t", 0)
    assert sends(perform(context, MoveReplicas(ALONE, S.ONLINE)), LeaderAndIsrRequest) == {}
    context.cluster.log_dir_evidence[REPLICA.broker] = LogDirEvidence(must_announce=True)
    requests = sends(perform(context, MoveReplicas(ALONE, S.ONLINE)), LeaderAndIsrRequest)
    row = rows_of(requests[1])["t-0"]
    assert (row.leader, row.leader_epoch, row.isr) == (-1, 0, (1, 2))


# --- Offline ------------------------------------------------------------------------------------------------------


def test_new_to_offline_without_leadership_stops_it_and_tells_all_who_is_live() -> None:
    context = one_replica(S.NEW)
    effects = perform(context, MoveReplicas(ALONE, S.OFFLINE))
    assert stops_of(sends(effects, StopReplicaRequest)[1]) == {"t-0": (-1, False)}
    updates = sends(effects, UpdateMetadataRequest)
    assert list(updates) == [1, 2]
    assert updates_of(updates[1]) == {}


def test_online_to_offline_of_the_leader_leaves_the_isr_to_the_others_and_tells_them() -> None:
    context = one_replica(S.ONLINE, led=True)
    effects = perform(context, MoveReplicas(ALONE, S.OFFLINE))
    ((operation,),) = write_in(effects).groups
    assert isinstance(operation, SetData)
    assert (operation.path, operation.version) == (paths.partition_state("t", 0), 0)
    assert znodes.decode_state("t", 0, operation.data, 1) == LeaderAndIsr(-1, 1, (2,), EPOCH, 1)
    assert state_of(context, "t", 0, 1) is S.ONLINE, "nothing changes before the write is known to have succeeded"
    effects = written(context, effects)
    assert state_of(context, "t", 0, 1) is S.OFFLINE
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == LeaderAndIsr(-1, 1, (2,), EPOCH, 1)
    assert stops_of(sends(effects, StopReplicaRequest)[1]) == {"t-0": (1, False)}
    requests = sends(effects, LeaderAndIsrRequest)
    assert list(requests) == [2]
    assert rows_of(requests[2])["t-0"].leader == -1


def test_offline_replica_outside_the_isr_needs_no_write() -> None:
    context = one_replica(S.ONLINE)
    set_leader_and_isr(context.cluster, T0, LeaderAndIsr(2, 3, (2,), EPOCH, 9))
    effects = perform(context, MoveReplicas(ALONE, S.OFFLINE))
    assert not context.awaiting_result
    assert state_of(context, "t", 0, 1) is S.OFFLINE
    assert list(sends(effects, LeaderAndIsrRequest)) == [2]


def test_offline_replica_of_a_doomed_topic_rewrites_no_isr_and_tells_no_other_replica() -> None:
    """Ours: Kafka writes the state once for each member of the ISR; nobody will lead this partition again."""
    context = one_replica(S.ONLINE, led=True)
    queue_deletion(context.cluster, "t", 0)
    effects = perform(context, MoveReplicas(ALONE, S.OFFLINE))
    assert not context.awaiting_result
    assert stops_of(sends(effects, StopReplicaRequest)[1]) == {"t-0": (-2, False)}
    assert sends(effects, LeaderAndIsrRequest) == {}


def test_where_all_replicas_go_the_one_assigned_last_stays_in_the_isr() -> None:
    context = leading(1, 2)
    add_topic(context, "t", [(1, 2), (2, 1)], led=True)
    both = columns_of(PartitionReplica("t", number, BrokerId(broker)) for number in (0, 1) for broker in (1, 2))
    for broker, partitions in both["t"].items():
        enter_replica_state(context.cluster, {"t": {broker: partitions}}, S.ONLINE)
    written(context, perform(context, MoveReplicas(both, S.OFFLINE)))
    states = [partition.leader_and_isr for partition in context.cluster.topics["t"].partitions.values()]
    assert [None if state is None else state.isr for state in states] == [(2,), (1,)]


def test_both_replicas_offline_at_once_is_one_write_and_the_last_member_stays() -> None:
    """Ours: one merged write; Kafka makes one for each replica and ends with the same leader and ISR."""
    context = one_replica(S.ONLINE, led=True)
    other = PartitionReplica("t", 0, BrokerId(2))
    set_replica_state(context.cluster, other, S.ONLINE)
    effects = perform(context, MoveReplicas(columns_of((REPLICA, other)), S.OFFLINE))
    assert len(write_in(effects).groups) == 1
    written(context, effects)
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == LeaderAndIsr(-1, 1, (2,), EPOCH, 1)
    assert [state_of(context, "t", 0, n) for n in (1, 2)] == [S.OFFLINE, S.OFFLINE]


def test_offline_with_a_stale_version_reads_again_and_repeats() -> None:
    context = one_replica(S.ONLINE, led=True)
    effects = written(context, perform(context, MoveReplicas(ALONE, S.OFFLINE)), {0: ZkError.BAD_VERSION})
    assert state_of(context, "t", 0, 1) is S.ONLINE
    found = Data(znodes.encode_state(LeaderAndIsr(2, 4, (2, 1), EPOCH)), Stat(1, 1, 8, 0))
    effects = answered(context, effects, found)
    ((operation,),) = write_in(effects).groups
    assert isinstance(operation, SetData)
    assert operation.version == 8
    written(context, effects)
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == LeaderAndIsr(2, 5, (2,), EPOCH, 9)
    assert state_of(context, "t", 0, 1) is S.OFFLINE


@pytest.mark.parametrize(
    "found",
    [
        ReadFailed(ZkError.NO_AUTH),
        Data(b"?", Stat(1, 1, 1, 0)),
        Data(znodes.encode_state(LeaderAndIsr(2, 4, (2,), EPOCH))[:-1] + b" ", Stat(1, 1, 1, 0)),
        Data(
            znodes.encode_state(LeaderAndIsr(2, 4, (2,), EPOCH)).replace(
                b'"controller_epoch":32', b'"controller_epoch":33'
            ),
            Stat(1, 1, 1, 0),
        ),
    ],
    ids=["unreadable", "malformed", "cut off", "of a later controller"],
)
def test_offline_fails_for_a_state_that_cannot_be_taken_in(found: Data | ReadFailed) -> None:
    context = one_replica(S.ONLINE, led=True)
    effects = written(context, perform(context, MoveReplicas(ALONE, S.OFFLINE)), {0: ZkError.BAD_VERSION})
    effects = answered(context, effects, found)
    assert state_of(context, "t", 0, 1) is S.ONLINE
    assert [record.data["what"] for record in refusals(effects)] == ["reading its state again"]
    assert not context.awaiting_result


def test_offline_where_the_state_was_removed_meanwhile_as_there_is_no_isr_to_leave() -> None:
    """Ours: Kafka leaves the replica as it was; its reassignment would wait for it until the next controller."""
    context = one_replica(S.ONLINE, led=True)
    effects = written(context, perform(context, MoveReplicas(ALONE, S.OFFLINE)), {0: ZkError.BAD_VERSION})
    effects = answered(context, effects, ReadFailed(ZkError.NO_NODE))
    assert state_of(context, "t", 0, 1) is S.OFFLINE
    assert [record.data["what"] for record in refusals(effects)] == ["reading its state again"]
    assert stops_of(sends(effects, StopReplicaRequest)[1]) == {"t-0": (0, False)}


# --- deletion -----------------------------------------------------------------------------------------------------


def test_offline_to_deletion_started_asks_for_deletion() -> None:
    context = one_replica(S.OFFLINE, led=True)
    effects = perform(context, MoveReplicas(ALONE, S.DELETION_STARTED))
    assert stops_of(sends(effects, StopReplicaRequest)[1]) == {"t-0": (0, True)}


@pytest.mark.parametrize(
    "before, target",
    [
        (S.OFFLINE, S.DELETION_INELIGIBLE),
        (S.DELETION_STARTED, S.DELETION_INELIGIBLE),
        (S.DELETION_STARTED, S.DELETION_SUCCESSFUL),
        (S.DELETION_SUCCESSFUL, S.NON_EXISTENT),
    ],
)
def test_the_other_transitions_of_a_deletion_say_nothing(before: ReplicaState, target: ReplicaState) -> None:
    context = one_replica(before, led=True)
    effects = perform(context, MoveReplicas(ALONE, target))
    assert context.last_request_id == 0
    assert refusals(effects) == []


def test_successful_to_nonexistent_takes_the_replica_out_of_the_assignment() -> None:
    context = one_replica(S.DELETION_SUCCESSFUL)
    perform(context, MoveReplicas(ALONE, S.NON_EXISTENT))
    topic = context.cluster.topics["t"]
    assert topic.partitions[0].assignment.replicas == (2,)
    assert topic.replicas == {}
