"""Clients' requests that wait for brokers: answered once, when everything is there or their time is over."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from lethe.controller.core import client_waits, owed
from lethe.controller.core.client_wait_memory import AwaitedOutcome, AwaitedResponse, PartitionsLed, TopicDropped
from lethe.controller.core.cluster_state import PendingRequest
from lethe.controller.core.context import Context
from lethe.controller.core.effects import AnswerClients, Effect, HoldRequest, Reply, Send, SetTimer
from lethe.controller.core.events import SessionLost, TimerFired, UpdateMetadataResponseReceived
from lethe.controller.core.invariants import memory_violations
from lethe.controller.core.mutation import queue_deletion, remove_topic, set_leader_and_isr
from lethe.controller.core.step_context import StepContext
from lethe.protocol.kafka.admin import (
    CreatableTopic,
    CreatedTopic,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
    GrownTopic,
)
from lethe.protocol.kafka.admin_partitions import ElectLeadersResponse, PartitionOutcome, TopicOutcome
from lethe.protocol.kafka.control import UpdateMetadataResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import AdminResponse
from lethe.protocol.vocabulary import LEADER_NONE, BrokerEpoch, BrokerId, TopicId, TopicPartition
from tests.fakes.one_controller import ANYONE
from tests.unit.controller.core.stage import NOW_MS, add_topic, broker, feed, leading

KEY = 7
REQUEST = CreateTopicsRequest((CreatableTopic("t", 1, 1), CreatableTopic("u", 1, 1)), 30_000)
CREATED = CreateTopicsResponse((CreatedTopic("t", 0, None, None, 1, 2), CreatedTopic("u", 36, "it exists")))
LED = PartitionsLed("t", None, (0,))
LATE = ErrorCode.REQUEST_TIMED_OUT


def cluster(*brokers: int) -> Context:
    """Topic t with a leader, which no broker has been sent; a client's request is unanswered."""
    context = leading(*brokers)
    add_topic(context, "t", [(1, 2)], led=True)
    context.cluster.unanswered[KEY] = PendingRequest(REQUEST, 7, ANYONE)
    return context


def at_end_of_step(step: StepContext) -> list[Effect]:
    client_waits.look(step)
    assert memory_violations(step.context) == []
    return step.effects


def begin(
    context: Context,
    *outcomes: AwaitedOutcome,
    response: AwaitedResponse = CREATED,
    timeout_ms: int = 30_000,
    shown_to: Sequence[int] = (1, 2),
) -> list[Effect]:
    """A step that sends these brokers topic t, and lets the client wait."""
    step = StepContext(context, NOW_MS)
    show(step, *shown_to)
    client_waits.wait(step, KEY, response, outcomes or (LED,), timeout_ms)
    return at_end_of_step(step)


def show(step: StepContext, *brokers: int) -> None:
    batch = step.batch()
    batch.add_update_metadata(brokers, step.context.cluster.all_of(("t",)))
    step.flush(batch)


def acknowledged(context: Context, number: int, error: int = 0, *, now_ms: int = NOW_MS) -> list[Effect]:
    """The broker answers its oldest request."""
    request_id, sent = next((each, sent) for each, sent in context.cluster.outstanding.items() if sent.broker == number)
    event = UpdateMetadataResponseReceived(sent.broker, sent.broker_epoch, request_id, UpdateMetadataResponse(error))
    return feed(context, event, now_ms=now_ms)


def answers(effects: Sequence[Effect]) -> list[AdminResponse]:
    return [effect.response for effect in effects if isinstance(effect, Reply)]  # type: ignore[misc]


def expired(context: Context, after_ms: int = 30_000) -> list[Effect]:
    return feed(context, TimerFired(AnswerClients()), now_ms=NOW_MS + after_ms)


def test_the_last_live_broker_that_acknowledges_ends_the_wait() -> None:
    context = cluster(1, 2)
    effects = begin(context)
    assert HoldRequest(KEY, 30_000) in effects
    assert SetTimer(AnswerClients(), NOW_MS + 30_000) in effects
    assert answers(acknowledged(context, 2)) == []
    assert answers(acknowledged(context, 1)) == [CREATED]
    assert context.cluster.client_waits == {}
    assert answers(expired(context)) == []


def test_what_still_waits_at_the_deadline_is_answered_with_a_timeout_and_the_rest_as_it_is() -> None:
    context = cluster(1, 2)
    begin(context)
    acknowledged(context, 2)
    assert answers(expired(context, 29_999)) == []
    late = CreateTopicsResponse((CreatedTopic("t", LATE), CreatedTopic("u", 36, "it exists")))
    assert answers(expired(context)) == [late]
    assert answers(acknowledged(context, 1)) == []


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_client_without_time_is_answered_at_once(timeout_ms: int) -> None:
    context = cluster(1, 2)
    (answer,) = answers(begin(context, timeout_ms=timeout_ms))
    assert [row.error for row in answer.topics] == [LATE, 36]  # type: ignore[union-attr]
    assert context.cluster.unanswered == {}


def test_where_nothing_has_to_come_the_answer_does_not_wait() -> None:
    context = cluster(1)
    step = StepContext(context, NOW_MS)
    client_waits.wait(step, KEY, CREATED, (), 30_000)
    assert answers(at_end_of_step(step)) == [CREATED]


def test_a_partition_without_leader_is_waited_for() -> None:
    context = cluster(1)
    add_topic(context, "u", [(1,)])
    begin(context, LED, PartitionsLed("u", None, (0,)), shown_to=(1,))
    assert answers(acknowledged(context, 1)) == []
    assert [row.error for row in answers(expired(context))[0].topics] == [0, 36]  # type: ignore[union-attr]


def test_a_leader_that_is_lost_meanwhile_has_to_come_back() -> None:
    context = cluster(1)
    begin(context, shown_to=(1,))
    partition = context.cluster.topics["t"].partitions[0]
    state = partition.leader_and_isr
    assert state is not None
    set_leader_and_isr(context.cluster, TopicPartition("t", 0), state._replace(leader=LEADER_NONE))
    assert answers(acknowledged(context, 1)) == []
    step = StepContext(context, NOW_MS)
    set_leader_and_isr(context.cluster, TopicPartition("t", 0), state)
    show(step, 1)
    assert answers(at_end_of_step(step)) == []
    assert answers(acknowledged(context, 1)) == [CREATED]


@pytest.mark.parametrize("leader, done", [(1, True), (2, False)])
def test_the_leader_that_is_waited_for_has_to_lead(leader: int, done: bool) -> None:
    context = cluster(1)
    begin(context, PartitionsLed("t", None, (0,), leader), shown_to=(1,))
    assert bool(answers(acknowledged(context, 1))) is done


def test_an_earlier_or_later_topic_of_the_name_is_not_the_one_that_is_waited_for() -> None:
    context = cluster(1)
    begin(context, PartitionsLed("t", TopicId(uuid.UUID(int=5)), (0,)), shown_to=(1,))
    assert answers(acknowledged(context, 1)) == []


def test_a_broker_that_leaves_is_not_waited_for_and_a_new_incarnation_is() -> None:
    context = cluster(1, 2)
    begin(context)
    acknowledged(context, 1)
    step = StepContext(context, NOW_MS)
    context.cluster.brokers[BrokerId(2)] = broker(2, epoch=200)
    for request_id in [each for each, sent in context.cluster.outstanding.items() if sent.broker == 2]:
        del context.cluster.outstanding[request_id]
    show(step, 2)
    assert answers(at_end_of_step(step)) == []
    assert context.cluster.client_waits[KEY].unacknowledged[0].sent[BrokerId(2)].broker_epoch == BrokerEpoch(202)
    del context.cluster.brokers[BrokerId(2)]
    assert answers(at_end_of_step(StepContext(context, NOW_MS))) == [CREATED]


def test_a_broker_that_refuses_to_show_it_is_waited_for_until_the_deadline() -> None:
    context = cluster(1, 2)
    begin(context)
    assert answers(acknowledged(context, 1, ErrorCode.STALE_BROKER_EPOCH)) == []
    assert answers(acknowledged(context, 2)) == []
    assert [row.error for row in answers(expired(context))[0].topics] == [LATE, 36]  # type: ignore[union-attr]


def test_a_broker_that_refuses_something_else_shows_it() -> None:
    context = cluster(1)
    add_topic(context, "u", [(1,)], led=True)
    step = StepContext(context, NOW_MS)
    batch = step.batch()
    batch.add_update_metadata((1,), context.cluster.all_of(("u",)))
    step.flush(batch)
    begin(context, shown_to=(1,))
    assert answers(acknowledged(context, 1, ErrorCode.UNKNOWN_SERVER_ERROR)) == []
    assert answers(acknowledged(context, 1)) == [CREATED]


DELETED = DeleteTopicsResponse((DeletedTopic("t", None, 0), DeletedTopic("u", None, 3)))


def test_a_deleted_topic_waits_for_the_tombstone_of_each_live_broker() -> None:
    context = cluster(1, 2)
    dropped = TopicDropped("t", context.cluster.topics["t"].created_zxid)
    begin(context, dropped, response=DELETED, shown_to=())
    queue_deletion(context.cluster, "t", NOW_MS)
    step = StepContext(context, NOW_MS)
    show(step, 1, 2)
    assert answers(at_end_of_step(step)) == []
    assert answers(acknowledged(context, 1)) == []
    assert answers(acknowledged(context, 2)) == [DELETED]


def test_a_topic_without_znodes_is_waited_for_while_a_live_broker_owes_its_tombstone() -> None:
    context = cluster(1, 2)
    topic = context.cluster.topics["t"]
    begin(context, TopicDropped("t", topic.created_zxid), response=DELETED, shown_to=())
    queue_deletion(context.cluster, "t", NOW_MS)
    step = StepContext(context, NOW_MS)
    show(step, 1, 2)
    owed.note(step, "t")
    remove_topic(context.cluster, "t")
    assert answers(at_end_of_step(step)) == []
    assert answers(acknowledged(context, 1)) == []
    assert answers(acknowledged(context, 2)) == [DELETED]


def test_a_topic_that_nobody_deletes_is_answered_at_the_deadline() -> None:
    context = cluster(1)
    begin(context, TopicDropped("t", context.cluster.topics["t"].created_zxid), response=DELETED, shown_to=())
    late = DeleteTopicsResponse((DeletedTopic("t", None, LATE), DeletedTopic("u", None, 3)))
    assert answers(expired(context)) == [late]


def test_a_later_topic_of_the_name_does_not_hold_up_the_end_of_the_earlier_one() -> None:
    context = cluster(1)
    begin(context, TopicDropped("t", context.cluster.topics["t"].created_zxid + 1), response=DELETED, shown_to=())
    assert context.cluster.client_waits == {}


@pytest.mark.parametrize(
    "response, late",
    [
        (
            CreatePartitionsResponse((GrownTopic("t", 0), GrownTopic("u", 37, "why"))),
            CreatePartitionsResponse((GrownTopic("t", LATE), GrownTopic("u", 37, "why"))),
        ),
        (
            ElectLeadersResponse((TopicOutcome("t", (PartitionOutcome(0, 0), PartitionOutcome(1, 0))),)),
            ElectLeadersResponse((TopicOutcome("t", (PartitionOutcome(0, LATE), PartitionOutcome(1, 0))),)),
        ),
    ],
    ids=["CreatePartitions", "ElectLeaders"],
)
def test_only_rows_that_wait_are_late(response: AwaitedResponse, late: AwaitedResponse) -> None:
    context = cluster(1)
    begin(context, response=response, shown_to=(1,))
    assert answers(expired(context)) == [late]


def test_the_end_of_the_term_ends_the_wait() -> None:
    context = cluster(1)
    begin(context, shown_to=(1,))
    (answer,) = answers(feed(context, SessionLost("gone")))
    assert [row.error for row in answer.topics] == [ErrorCode.NOT_CONTROLLER] * 2  # type: ignore[union-attr]
    assert context.cluster.client_waits == {}


def test_the_earliest_deadline_has_the_timer() -> None:
    context = cluster(1)
    begin(context, shown_to=(1,))
    context.cluster.unanswered[8] = PendingRequest(REQUEST, 7, ANYONE)
    step = StepContext(context, NOW_MS + 5)
    client_waits.wait(step, 8, CREATED, (LED,), 10)
    assert SetTimer(AnswerClients(), NOW_MS + 15) in step.effects
    effects = expired(context, 15)
    assert [effect.key for effect in effects if isinstance(effect, Reply)] == [8]
    assert SetTimer(AnswerClients(), NOW_MS + 30_000) in effects
    assert not any(isinstance(effect, Send) for effect in effects)


def test_of_too_many_requests_the_one_that_has_waited_for_longest_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_waits, "MAX_WAITING", 2)
    context = cluster(1)
    step = StepContext(context, NOW_MS)
    for key in (7, 8, 9, 10):
        context.cluster.unanswered[key] = PendingRequest(REQUEST, 7, ANYONE)
        client_waits.wait(step, key, CREATED, (LED,), 2**31 - 1 - key)
    assert list(context.cluster.client_waits) == [9, 10]
    answered = [effect for effect in step.effects if isinstance(effect, Reply)]
    assert [effect.key for effect in answered] == [7, 8]
    assert all(effect.response.topics[0].error == LATE for effect in answered)  # type: ignore[union-attr]
    assert memory_violations(context) == []


def test_of_requests_that_are_too_large_together_the_one_that_has_waited_for_longest_is_answered() -> None:
    context = cluster(1)
    step = StepContext(context, NOW_MS)
    for key in (7, 8, 9):
        half = client_waits.MAX_WAITING_BYTES // 2
        context.cluster.unanswered[key] = PendingRequest(REQUEST, 7, ANYONE, frame_bytes=half)
        client_waits.wait(step, key, CREATED, (LED,), 30_000)
    assert list(context.cluster.client_waits) == [8, 9]


@pytest.mark.parametrize(
    "response, rows",
    [
        (CREATED, 2),
        (ElectLeadersResponse((TopicOutcome("t", tuple(PartitionOutcome(each, 0) for each in range(3))),)), 3),
    ],
)
def test_of_too_many_rows_the_last_request_may_have_all(
    monkeypatch: pytest.MonkeyPatch, response: AwaitedResponse, rows: int
) -> None:
    monkeypatch.setattr(client_waits, "MAX_WAITING_ROWS", rows)
    context = cluster(1)
    step = StepContext(context, NOW_MS)
    for key in (7, 8):
        context.cluster.unanswered[key] = PendingRequest(REQUEST, 7, ANYONE)
        client_waits.wait(step, key, response, (LED,), 30_000)
    assert list(context.cluster.client_waits) == [8]
    monkeypatch.setattr(client_waits, "MAX_WAITING_ROWS", rows - 1)
    context.cluster.unanswered[9] = PendingRequest(REQUEST, 7, ANYONE)
    client_waits.wait(step, 9, response, (LED,), 30_000)
    assert list(context.cluster.client_waits) == [9]
