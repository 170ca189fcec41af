"""What is sent or written to have an ISR changed, and what each answer means."""

from __future__ import annotations

import pytest

from lethe.broker.core.effects import IsrChange
from lethe.broker.core.inputs import IsrOutcome, IsrVerdict
from lethe.broker.core.isr_update_paths import (
    accepted_partitions,
    alter_partition_request,
    alter_partition_version,
    judge_answer,
    judge_write,
    plan_write,
    unanswered,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import AlteredPartition, AlteredTopic, AlterPartition, AlterPartitionResponse
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, LeaderAndIsr, TopicId, TopicPartition
from lethe.protocol.zookeeper.operations import Data, ReadFailed, ReadOutcome, SetData, Stat, ZkError
from lethe.protocol.zookeeper.paths import partition_state
from lethe.protocol.zookeeper.znodes import TopicZnode, encode_state, encode_topic
from tests.unit.broker.core.driver import ME, X, Y

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
CHANGE = IsrChange(T0, X, 5, 7, (1, 2))


def test_one_request_names_each_topic_once() -> None:
    changes = [CHANGE, IsrChange(U0, None, 1, 2, (1, 3)), IsrChange(T1, X, 6, 8, (1, 3))]
    request = alter_partition_request(changes, ME, BrokerEpoch(77))
    assert (request.broker_id, request.broker_epoch) == (ME, 77)
    assert [(topic.topic, topic.topic_id, len(topic.partitions)) for topic in request.topics] == [
        ("t", X, 2),
        ("u", None, 1),
    ]
    assert request.topics[0].partitions[0] == AlterPartition(0, 5, (1, 2), 0, 7)


@pytest.mark.parametrize("topic_id,common,expected", [(X, 3, 3), (X, 0, 0), (None, 3, 1), (None, 0, 0)])
def test_without_topic_ids_topics_are_named_by_their_names(
    topic_id: TopicId | None, common: int, expected: int
) -> None:
    assert alter_partition_version([CHANGE, CHANGE._replace(topic_id=topic_id)], common) == expected


def answer(row: AlteredPartition, *, by_id: bool = False) -> AlterPartitionResponse:
    return AlterPartitionResponse(0, (AlteredTopic(None if by_id else "t", X if by_id else None, (row,)),))


@pytest.mark.parametrize("by_id", [False, True])
def test_the_committed_isr_of_the_answer_counts(by_id: bool) -> None:
    row = AlteredPartition(0, 0, ME, 5, (1, 3), 0, 9)
    assert judge_answer([CHANGE], ME, answer(row, by_id=by_id)) == (IsrOutcome(IsrVerdict.ACCEPTED, (1, 3), 9),)


@pytest.mark.parametrize("leader,epoch", [(2, 5), (1, 6)])
def test_a_success_for_another_leadership_is_none(leader: int, epoch: int) -> None:
    (found,) = judge_answer([CHANGE], ME, answer(AlteredPartition(0, 0, leader, epoch, (1, 2), 0, 9)))
    assert (found.verdict, found.reason) == (IsrVerdict.GIVEN_UP, f"broker {leader} leads under epoch {epoch}")


@pytest.mark.parametrize(
    "error,verdict",
    [
        (ErrorCode.OPERATION_NOT_ATTEMPTED, IsrVerdict.PUT_BACK),
        (ErrorCode.INELIGIBLE_REPLICA, IsrVerdict.PUT_BACK),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, IsrVerdict.GIVEN_UP),
        (ErrorCode.UNKNOWN_TOPIC_ID, IsrVerdict.GIVEN_UP),
        (ErrorCode.FENCED_LEADER_EPOCH, IsrVerdict.GIVEN_UP),
        (ErrorCode.INVALID_UPDATE_VERSION, IsrVerdict.GIVEN_UP),
        (ErrorCode.INVALID_REQUEST, IsrVerdict.GIVEN_UP),
        (ErrorCode.NOT_CONTROLLER, IsrVerdict.UNANSWERED),
        (ErrorCode.UNKNOWN_SERVER_ERROR, IsrVerdict.UNANSWERED),
        (12345, IsrVerdict.UNANSWERED),
    ],
)
def test_errors_of_partitions(error: int, verdict: IsrVerdict) -> None:
    (found,) = judge_answer([CHANGE], ME, answer(AlteredPartition(0, error)))
    assert found.verdict is verdict
    assert found.reason.startswith("the controller answered ")


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, 12345])
def test_an_error_of_the_whole_answer_answers_nobody(error: int) -> None:
    found = judge_answer([CHANGE, CHANGE], ME, AlterPartitionResponse(error))
    assert [each.verdict for each in found] == [IsrVerdict.UNANSWERED] * 2


def test_a_partition_that_the_answer_does_not_name_is_unanswered() -> None:
    found = judge_answer([CHANGE, CHANGE._replace(topic_partition=T1)], ME, answer(AlteredPartition(1, 0, ME, 5, (1,))))
    assert [each.verdict for each in found] == [IsrVerdict.UNANSWERED, IsrVerdict.ACCEPTED]


# --- through ZooKeeper --------------------------------------------------------------------------------------------


def data(content: bytes, version: int = 0) -> Data:
    return Data(content, Stat(1, 1, version, 0))


def state_of(leader: int = 1, epoch: int = 5, isr: tuple[int, ...] = (1,), recovery: int = 0) -> Data:
    return data(encode_state(LeaderAndIsr(leader, epoch, isr, 3, 0, recovery)), 8)


TOPIC = data(encode_topic(TopicZnode({}, X)))


@pytest.mark.parametrize("recovery", [0, 1])
def test_the_state_is_written_back_with_the_larger_isr_expecting_what_was_read(recovery: int) -> None:
    planned = plan_write(CHANGE, ME, TOPIC, state_of(isr=(1, 3), recovery=recovery))
    written = encode_state(LeaderAndIsr(1, 5, (1, 3, 2), 3))
    assert planned == (SetData(partition_state("t", 0), written, 8), (1, 3, 2))


def test_an_earlier_write_of_ours_has_succeeded() -> None:
    assert plan_write(CHANGE, ME, TOPIC, state_of(isr=(1, 2))) == IsrOutcome(IsrVerdict.ACCEPTED, (1, 2), 8)


@pytest.mark.parametrize(
    "topic,state,verdict",
    [
        (ReadFailed(ZkError.NO_NODE), state_of(), IsrVerdict.GIVEN_UP),
        (TOPIC, ReadFailed(ZkError.NO_NODE), IsrVerdict.GIVEN_UP),
        (ReadFailed(ZkError.NO_AUTH), state_of(), IsrVerdict.UNANSWERED),
        (data(encode_topic(TopicZnode({}, Y))), state_of(), IsrVerdict.GIVEN_UP),
        (data(b"nonsense"), state_of(), IsrVerdict.GIVEN_UP),
        (TOPIC, data(b"nonsense"), IsrVerdict.GIVEN_UP),
        (TOPIC, data(b""), IsrVerdict.GIVEN_UP),
        (TOPIC, state_of(leader=2), IsrVerdict.GIVEN_UP),
        (TOPIC, state_of(epoch=6), IsrVerdict.GIVEN_UP),
    ],
)
def test_what_is_not_ours_is_not_written(topic: ReadOutcome, state: ReadOutcome, verdict: IsrVerdict) -> None:
    planned = plan_write(CHANGE, ME, topic, state)
    assert isinstance(planned, IsrOutcome)
    assert planned.verdict is verdict
    assert planned.reason


def test_a_topic_without_an_id_is_gone_by_its_leadership() -> None:
    assert not isinstance(plan_write(CHANGE, ME, data(encode_topic(TopicZnode({}, None))), state_of()), IsrOutcome)
    assert not isinstance(plan_write(CHANGE._replace(topic_id=None), ME, TOPIC, state_of()), IsrOutcome)


def test_refused_writes() -> None:
    assert judge_write(ZkError.BAD_VERSION) is None
    for error, verdict in ((ZkError.NO_NODE, IsrVerdict.GIVEN_UP), (ZkError.NO_AUTH, IsrVerdict.UNANSWERED)):
        refused = judge_write(error)
        assert refused is not None
        assert refused.verdict is verdict


def test_the_controller_is_notified_of_what_was_accepted() -> None:
    outcomes = [IsrOutcome(IsrVerdict.ACCEPTED), IsrOutcome(IsrVerdict.GIVEN_UP), None]
    assert accepted_partitions([CHANGE] * 3, outcomes) == [T0]
    assert [each.reason for each in unanswered([CHANGE], "why")] == ["why"]
    assert BrokerId(1) == ME
