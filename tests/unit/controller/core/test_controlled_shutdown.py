"""A broker that asks to stop: who leads afterwards, what it is told, and what never holds it up."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Context
from lethe.controller.core.effects import Effect, Record, Reply
from lethe.controller.core.events import BrokerRequested
from lethe.controller.core.mutation import queue_deletion, set_leader_and_isr
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import LeaderAndIsrRequest, StopReplicaRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import ControlledShutdownRequest, ControlledShutdownResponse, RemainingPartition
from lethe.protocol.vocabulary import NO_EPOCH, BrokerEpoch, BrokerId, LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper.operations import ZkError
from tests.unit.controller.core.stage import (
    EPOCH,
    add_topic,
    feed,
    in_charge,
    leading,
    refusals,
    sends,
    state_of,
    stops_of,
    write_in,
    written,
)

KEY = 5


def cluster(*topics: tuple[str, tuple[int, ...]], brokers: tuple[int, ...] = (1, 2, 3)) -> Context:
    context = leading(*brokers)
    for name, replicas in topics:
        add_topic(
            context,
            name,
            [replicas],
            led=True,
            partition_state=PartitionState.ONLINE,
            replica_state=ReplicaState.ONLINE,
        )
    return context


def ask(context: Context, broker: int, epoch: int | None = None) -> list[Effect]:
    request = ControlledShutdownRequest(BrokerId(broker), BrokerEpoch(100 + broker if epoch is None else epoch))
    return in_charge(context, feed(context, BrokerRequested(KEY, request, 3)))


def to_the_end(context: Context, effects: list[Effect]) -> list[Effect]:
    everything = list(effects)
    while context.awaiting_result:
        effects = written(context, effects)
        everything += effects
    return everything


def response(effects: list[Effect]) -> ControlledShutdownResponse:
    (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
    assert reply.key == KEY
    assert isinstance(reply.response, ControlledShutdownResponse)
    return reply.response


def test_what_it_leads_gets_another_leader_and_the_broker_may_go() -> None:
    context = cluster(("t", (1, 2, 3)))
    effects = to_the_end(context, ask(context, 1))
    assert response(effects) == ControlledShutdownResponse(ErrorCode.NONE)
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == LeaderAndIsr(2, 1, (2, 3), EPOCH, 1)
    assert sorted(sends(effects, LeaderAndIsrRequest)) == [1, 2, 3]
    assert context.cluster.shutting_down == {1: None}


def test_where_it_follows_it_is_stopped_before_the_isr_is_written_and_leaves_it() -> None:
    context = cluster(("t", (2, 1, 3)))
    first = ask(context, 1)
    assert stops_of(sends(first, StopReplicaRequest)[BrokerId(1)]) == {"t-0": (0, False)}
    write_in(first)
    after = written(context, first)
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == LeaderAndIsr(2, 1, (2, 3), EPOCH, 1)
    assert sorted(sends(after, LeaderAndIsrRequest)) == [2, 3]
    assert state_of(context, "t", 0, 1) is ReplicaState.OFFLINE
    assert response(after) == ControlledShutdownResponse(ErrorCode.NONE)


def test_many_partitions_are_one_write_for_the_led_and_one_for_the_followed() -> None:
    context = cluster(*((f"l{n}", (1, 2)) for n in range(50)), *((f"f{n}", (2, 1)) for n in range(50)))
    first = ask(context, 1)
    assert len(write_in(first).groups) == 50
    second = written(context, first)
    assert len(write_in(second).groups) == 50
    assert response(written(context, second)) == ControlledShutdownResponse(ErrorCode.NONE)


def test_partition_with_one_replica_never_holds_the_broker_up() -> None:
    context = cluster(("t", (1,)))
    effects = ask(context, 1)
    assert response(effects) == ControlledShutdownResponse(ErrorCode.NONE)
    assert not context.awaiting_result


def test_partition_without_another_member_of_the_isr_is_named_as_remaining() -> None:
    context = cluster(("t", (1, 2)))
    set_leader_and_isr(context.cluster, TopicPartition("t", 0), LeaderAndIsr(1, 4, (1,), EPOCH, 7))
    effects = to_the_end(context, ask(context, 1))
    assert response(effects) == ControlledShutdownResponse(ErrorCode.NONE, (RemainingPartition("t", 0),))
    assert [record.data["what"] for record in refusals(effects)] == ["electing a leader that is not shutting down"]


def test_topic_queued_for_deletion_never_holds_the_broker_up_and_is_left_alone() -> None:
    context = cluster(("t", (1, 2)), ("u", (2, 1)))
    queue_deletion(context.cluster, "t", 0)
    queue_deletion(context.cluster, "u", 0)
    effects = ask(context, 1)
    assert response(effects) == ControlledShutdownResponse(ErrorCode.NONE)
    assert not context.awaiting_result
    assert sends(effects, StopReplicaRequest) == {}


def test_controlled_shutdown_of_all_replicas_one_after_the_other() -> None:
    context = cluster(("t", (1, 2, 3)))
    remaining = [response(to_the_end(context, ask(context, broker))).remaining for broker in (3, 2, 1)]
    assert remaining == [(), (), (RemainingPartition("t", 0),)]
    leader_and_isr = context.cluster.topics["t"].partitions[0].leader_and_isr
    assert leader_and_isr is not None
    assert (leader_and_isr.leader, leader_and_isr.isr) == (1, (1,))


def test_asking_again_is_answered_again_and_recorded_once_as_leaving() -> None:
    context = cluster(("t", (1, 2)))
    first = to_the_end(context, ask(context, 1))
    again = to_the_end(context, ask(context, 1))
    assert response(first) == response(again) == ControlledShutdownResponse(ErrorCode.NONE)
    what = [
        effect.record.data["what"]
        for effect in (*first, *again)
        if isinstance(effect, Record) and effect.record.type is EventRecordType.BROKER
    ]
    assert what == ["shutting down", "relieved", "relieved"]


@pytest.mark.parametrize(
    "broker, epoch, error",
    [
        pytest.param(1, 100, ErrorCode.STALE_BROKER_EPOCH, id="stale epoch"),
        pytest.param(9, 109, ErrorCode.UNKNOWN_SERVER_ERROR, id="unknown broker"),
        pytest.param(9, NO_EPOCH, ErrorCode.BROKER_NOT_AVAILABLE, id="unknown broker without epoch"),
    ],
)
def test_controller_rejects(broker: int, epoch: int, error: ErrorCode) -> None:
    context = cluster(("t", (1, 2)))
    effects = ask(context, broker, epoch)
    assert response(effects) == ControlledShutdownResponse(error)
    assert context.cluster.shutting_down == {}
    assert [record.subject for record in refusals(effects)] == [f"broker/{broker}"]


@pytest.mark.parametrize("epoch", [NO_EPOCH, 101, 102])
def test_epoch_that_is_not_older_than_ours_is_accepted(epoch: int) -> None:
    context = cluster(("t", (1, 2)))
    assert response(to_the_end(context, ask(context, 1, epoch))).error == ErrorCode.NONE


def test_election_that_cannot_be_written_leaves_the_partition_with_the_broker() -> None:
    context = cluster(("t", (1, 2)))
    first = ask(context, 1)
    effects = written(context, first, {0: ZkError.NO_AUTH})
    assert response(effects).remaining == (RemainingPartition("t", 0),)
