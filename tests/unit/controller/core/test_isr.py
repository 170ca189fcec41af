"""AlterPartition, row by row of Kafka's order of precedence, and states that leaders wrote themselves."""

from __future__ import annotations

import uuid

import pytest

from lethe.controller.core.context import Context
from lethe.controller.core.effects import Effect, Reply
from lethe.controller.core.events import BrokerRequested
from lethe.controller.core.mutation import queue_deletion, set_leader_and_isr
from lethe.controller.core.tasks_requests import RefreshStates
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.kafka.control import LeaderAndIsrRequest, UpdateMetadataRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AlteredPartition,
    AlteredTopic,
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
)
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, LeaderAndIsr, RecoveryState, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Data, GetData, ReadFailed, SetData, Stat, ZkError
from tests.unit.controller.core.stage import (
    EPOCH,
    add_topic,
    answered,
    feed,
    in_charge,
    leading,
    perform,
    read_in,
    refusals,
    sends,
    updates_of,
    write_in,
    written,
)

KEY = 5
T0 = TopicPartition("t", 0)
ID = TopicId(uuid.UUID(int=77))
CURRENT = LeaderAndIsr(1, 4, (1, 2), EPOCH, 7)
VERSIONS = (0, 1, 2, 3)


def cluster(current: LeaderAndIsr = CURRENT) -> Context:
    context = leading(1, 2, 3)
    add_topic(
        context,
        "t",
        [(1, 2, 3)],
        topic_id=ID,
        led=True,
        partition_state=PartitionState.ONLINE,
        replica_state=ReplicaState.ONLINE,
    )
    set_leader_and_isr(context.cluster, T0, current)
    return context


def wants(
    isr: tuple[int, ...] = (1, 2, 3),
    *,
    partition: int = 0,
    leader_epoch: int = 4,
    partition_epoch: int = 7,
    recovery: int = RecoveryState.RECOVERED,
) -> AlterPartition:
    return AlterPartition(partition, leader_epoch, isr, recovery, partition_epoch)


def ask(context: Context, version: int, *rows: AlterPartition, broker: int = 1, epoch: int = 101) -> list[Effect]:
    topic = AlterPartitionTopic("t", None, rows) if version < 2 else AlterPartitionTopic(None, ID, rows)
    request = AlterPartitionRequest(BrokerId(broker), BrokerEpoch(epoch), (topic,))
    return in_charge(context, feed(context, BrokerRequested(KEY, request, version)))


def response(effects: list[Effect]) -> AlterPartitionResponse:
    (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
    assert isinstance(reply.response, AlterPartitionResponse)
    return reply.response


def only_row(effects: list[Effect]) -> AlteredPartition:
    ((_, _, (row,)),) = response(effects).topics
    return row


@pytest.mark.parametrize("version", VERSIONS)
def test_isr_is_written_and_everybody_told_and_the_leader_epoch_stays(version: int) -> None:
    context = cluster()
    effects = ask(context, version, wants((1, 2, 3)))
    wanted = LeaderAndIsr(1, 4, (1, 2, 3), EPOCH, 7)
    assert write_in(effects).groups == ((SetData(paths.partition_state("t", 0), znodes.encode_state(wanted), 7),),)
    assert write_in(effects).fence is not None
    after = written(context, effects)
    now = wanted._replace(partition_epoch=8)
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == now
    row = AlteredPartition(0, ErrorCode.NONE, 1, 4, (1, 2, 3), RecoveryState.RECOVERED, 8)
    topic = AlteredTopic("t", None, (row,)) if version < 2 else AlteredTopic(None, ID, (row,))
    assert response(after) == AlterPartitionResponse(ErrorCode.NONE, (topic,))
    told = sends(after, UpdateMetadataRequest)
    assert sorted(told) == [1, 2, 3]
    assert updates_of(told[BrokerId(2)])["t-0"].isr == (1, 2, 3)
    assert sends(after, LeaderAndIsrRequest) == {}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "broker, epoch",
    [pytest.param(1, 100, id="older"), pytest.param(1, 102, id="newer"), pytest.param(9, 109, id="unknown")],
)
def test_broker_epoch_must_be_the_one_we_know(version: int, broker: int, epoch: int) -> None:
    effects = ask(cluster(), version, wants(), broker=broker, epoch=epoch)
    assert response(effects) == AlterPartitionResponse(ErrorCode.STALE_BROKER_EPOCH)


def test_unknown_topic_id() -> None:
    context = cluster()
    unknown = TopicId(uuid.UUID(int=78))
    request = AlterPartitionRequest(
        BrokerId(1), BrokerEpoch(101), (AlterPartitionTopic(None, unknown, (wants(), wants(partition=1))),)
    )
    effects = in_charge(context, feed(context, BrokerRequested(KEY, request, 2)))
    rows = tuple(AlteredPartition(number, ErrorCode.UNKNOWN_TOPIC_ID) for number in (0, 1))
    assert response(effects).topics == (AlteredTopic(None, unknown, rows),)
    assert sends(effects, UpdateMetadataRequest) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_partition(version: int) -> None:
    assert only_row(ask(cluster(), version, wants(partition=9))).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", VERSIONS)
def test_partition_of_a_topic_that_is_being_deleted(version: int) -> None:
    context = cluster()
    queue_deletion(context.cluster, "t", 0)
    effects = ask(context, version, wants())
    assert only_row(effects).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not context.awaiting_result
    assert sends(effects, UpdateMetadataRequest) == {}


RECOVERING = CURRENT._replace(isr=(1,), recovery_state=RecoveryState.RECOVERING)
PRECEDENCE = [
    pytest.param(CURRENT, wants(partition_epoch=8), ErrorCode.NOT_CONTROLLER, id="later partition epoch"),
    pytest.param(CURRENT, wants(leader_epoch=5), ErrorCode.NOT_CONTROLLER, id="later leader epoch"),
    pytest.param(
        CURRENT, wants(leader_epoch=3, partition_epoch=8), ErrorCode.NOT_CONTROLLER, id="later wins over fenced"
    ),
    pytest.param(CURRENT, wants(leader_epoch=3), ErrorCode.FENCED_LEADER_EPOCH, id="earlier leader epoch"),
    pytest.param(
        CURRENT, wants(leader_epoch=3, partition_epoch=6), ErrorCode.FENCED_LEADER_EPOCH, id="fenced wins over version"
    ),
    pytest.param(CURRENT, wants(partition_epoch=6), ErrorCode.INVALID_UPDATE_VERSION, id="earlier partition epoch"),
    pytest.param(
        CURRENT,
        wants((1,), partition_epoch=6, recovery=1),
        ErrorCode.INVALID_UPDATE_VERSION,
        id="version before recovery",
    ),
    pytest.param(RECOVERING, wants((1, 2), recovery=1), ErrorCode.INVALID_REQUEST, id="recovering with two"),
    pytest.param(CURRENT, wants((1,), recovery=1), ErrorCode.INVALID_REQUEST, id="back to recovering"),
    pytest.param(CURRENT, wants(()), ErrorCode.INVALID_REQUEST, id="empty"),
    pytest.param(CURRENT, wants((2, 3)), ErrorCode.INVALID_REQUEST, id="without the leader"),
    pytest.param(
        CURRENT._replace(leader=2), wants((1, 2, 3)), ErrorCode.INVALID_REQUEST, id="asked by one that does not lead"
    ),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("current, wanted, error", PRECEDENCE)
def test_first_rule_that_applies_decides(
    version: int, current: LeaderAndIsr, wanted: AlterPartition, error: ErrorCode
) -> None:
    context = cluster(current)
    effects = ask(context, version, wanted)
    assert only_row(effects) == AlteredPartition(0, error)
    assert not context.awaiting_result
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == current
    assert [record.data["why"] for record in refusals(effects)] == [error.name]
    assert sorted(sends(effects, UpdateMetadataRequest)) == [1, 2, 3]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partition_epoch", [0, 6, 7])
def test_idempotent_alter_partition(version: int, partition_epoch: int) -> None:
    context = cluster()
    effects = ask(context, version, wants((1, 2), partition_epoch=partition_epoch))
    assert only_row(effects) == AlteredPartition(0, ErrorCode.NONE, 1, 4, (1, 2), RecoveryState.RECOVERED, 7)
    assert not context.awaiting_result


@pytest.mark.parametrize(
    "version, error",
    [
        (0, ErrorCode.OPERATION_NOT_ATTEMPTED),
        (1, ErrorCode.OPERATION_NOT_ATTEMPTED),
        (2, ErrorCode.INELIGIBLE_REPLICA),
        (3, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_broker_that_is_away_leaving_or_not_assigned_is_not_added_to_the_isr(version: int, error: ErrorCode) -> None:
    context = cluster()
    del context.cluster.brokers[BrokerId(3)]
    assert only_row(ask(context, version, wants((1, 2, 3)))).error == error
    context = cluster()
    context.cluster.shutting_down[BrokerId(3)] = None
    assert only_row(ask(context, version, wants((1, 2, 3)))).error == error
    context = cluster()
    assert only_row(ask(context, version, wants((1, 2, 4)))).error == error


def test_recovery_ends_when_the_leader_says_so() -> None:
    context = cluster(RECOVERING)
    written(context, ask(context, 3, wants((1,))))
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == LeaderAndIsr(1, 4, (1,), EPOCH, 8)


def test_recovery_state_that_nobody_knows_spoils_the_request() -> None:
    effects = ask(cluster(), 1, wants(recovery=7))
    assert response(effects) == AlterPartitionResponse(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_many_partitions_are_one_write_and_the_answer_keeps_their_order() -> None:
    context = leading(1, 2)
    add_topic(context, "t", [(1, 2)] * 100, led=True, topic_id=ID)
    rows = [wants((1,), partition=n, leader_epoch=0, partition_epoch=n % 2) for n in range(100)]
    effects = ask(context, 3, *rows)
    assert len(write_in(effects).groups) == 50
    ((_, _, answers),) = response(written(context, effects)).topics
    assert [row.partition for row in answers] == list(range(100))
    assert {row.error for row in answers[0::2]} == {ErrorCode.NONE}
    assert {row.error for row in answers[1::2]} == {ErrorCode.NOT_CONTROLLER}


def test_partition_named_twice_is_written_once_as_said_last() -> None:
    context = cluster()
    effects = ask(context, 3, wants((1, 2, 3)), wants((1,)))
    assert len(write_in(effects).groups) == 1
    row = only_row(written(context, effects))
    assert row.isr == (1,)


@pytest.mark.parametrize(
    "error, answer",
    [
        (ZkError.BAD_VERSION, ErrorCode.INVALID_UPDATE_VERSION),
        (ZkError.NO_NODE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ZkError.NO_AUTH, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_write_that_fails_changes_nothing(error: ZkError, answer: ErrorCode) -> None:
    context = cluster()
    after = written(context, ask(context, 3, wants()), {0: error})
    assert only_row(after).error == answer
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == CURRENT


def test_after_a_conflict_the_state_is_read_again() -> None:
    context = cluster()
    after = written(context, ask(context, 3, wants()), {0: ZkError.BAD_VERSION})
    assert read_in(after).reads == (GetData(paths.partition_state("t", 0)),)
    theirs = LeaderAndIsr(1, 4, (1,), EPOCH)
    told = answered(context, after, Data(znodes.encode_state(theirs), Stat(1, 1, 9, 0)))
    assert context.cluster.topics["t"].partitions[0].leader_and_isr == theirs._replace(partition_epoch=9)
    assert updates_of(sends(told, UpdateMetadataRequest)[BrokerId(3)])["t-0"].isr == (1,)


# --- what leaders wrote themselves --------------------------------------------------------------------------------


def test_states_are_read_again_in_one_go_and_everybody_told() -> None:
    context = cluster()
    add_topic(context, "u", [(2, 3)], led=True)
    effects = perform(context, RefreshStates((T0, TopicPartition("u", 0), TopicPartition("gone", 0))))
    assert [read.path for read in read_in(effects).reads] == [
        paths.partition_state("t", 0),
        paths.partition_state("u", 0),
    ]
    t, u = LeaderAndIsr(1, 4, (1,), EPOCH), LeaderAndIsr(2, 0, (2,), EPOCH)
    outcomes = [Data(znodes.encode_state(state), Stat(1, 1, 9, 0)) for state in (t, u)]
    told = sends(answered(context, effects, *outcomes), UpdateMetadataRequest)
    assert sorted(told) == [1, 2, 3]
    assert {name: row.isr for name, row in updates_of(told[BrokerId(1)]).items()} == {"t-0": (1,), "u-0": (2,)}
    assert sends(effects, LeaderAndIsrRequest) == {}


def test_state_of_a_queued_topic_is_nobodys_business() -> None:
    context = cluster()
    queue_deletion(context.cluster, "t", 0)
    assert perform(context, RefreshStates((T0,))) == []


def test_state_that_cannot_be_read_is_shown_and_the_others_go_on() -> None:
    context = cluster()
    add_topic(context, "u", [(2, 3)], led=True)
    effects = perform(context, RefreshStates((T0, TopicPartition("u", 0))))
    state = znodes.encode_state(LeaderAndIsr(2, 0, (2,), EPOCH))
    after = answered(context, effects, ReadFailed(ZkError.NO_NODE), Data(state, Stat(1, 1, 9, 0)))
    assert [record.subject for record in refusals(after)] == ["partition/t-0"]
    assert context.cluster.topics["u"].partitions[0].leader_and_isr == LeaderAndIsr(2, 0, (2,), EPOCH, 9)
