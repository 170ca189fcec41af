"""Clients' requests that are written to ZooKeeper, and wait until brokers show it; each is answered once.

    what comes first                                                  answer
    ----------------------------------------------------------------  ----------------------------------------------
    every outcome is there                                            the response as it was given to `wait`
    the request's timeout is over; a timeout up to 0 is over at once  REQUEST_TIMED_OUT in the rows that still wait
    more than MAX_WAITING requests wait, or MAX_WAITING_ROWS of them  the same for the one that has waited for longest
    or MAX_WAITING_BYTES
    the term ends                                                     NOT_CONTROLLER in every row (`requests`)

Kafka waits for the metadata cache of the controller's own broker. This controller is no broker, so it waits for all
live ones: a client that asks any of them next sees what it was told. What was written stays written in any case: the
write checked the fence. So the answer needs no further check, as it does in `requests`.

    CreateTopics orders, timeout 30 s    written, all partitions led: broker 1 acknowledges, broker 2 is silent
        broker 2 acknowledges at 3 s     NONE
        broker 2 registers again         waits for the first UpdateMetadata to its new incarnation
        broker 2 leaves                  NONE
        none of that within 30 s         REQUEST_TIMED_OUT

A channel is first in, first out, and at the end of a step everything is queued that memory makes necessary. So the
partitions that have leaders then are shown by a broker that has answered all its UpdateMetadata requests up to the last
one of that moment. The same holds for tombstones: of a topic whose znodes another process has removed, the tombstones
are queued when the controller reads that.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from lethe.controller.core.client_wait_memory import (
    AwaitedOutcome,
    AwaitedResponse,
    ClientWait,
    LastSent,
    PartitionsLed,
    SentOutcomes,
    TopicDropped,
)
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context
from lethe.controller.core.effects import AnswerClients, HoldRequest
from lethe.controller.core.step_context import StepContext
from lethe.protocol.kafka.admin import (
    CreatedTopic,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
    GrownTopic,
)
from lethe.protocol.kafka.admin_partitions import ElectLeadersResponse, PartitionOutcome, TopicOutcome
from lethe.protocol.kafka.control import UpdateMetadataRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import LEADER_NONE, BrokerId

MAX_WAITING: Final = 1_000
"""A client chooses how long its request waits, 24 days at most, and may be gone meanwhile."""
MAX_WAITING_ROWS: Final = 200_000
MAX_WAITING_BYTES: Final = 8 * 1_048_576
"""In frames. A request is kept as long as it waits, and may take 72 times as much in memory."""
R = TypeVar("R", DeletedTopic, GrownTopic, PartitionOutcome)


def wait(
    step: StepContext, key: int, response: AwaitedResponse, outcomes: Iterable[AwaitedOutcome], timeout_ms: int
) -> None:
    """Answer the request with this response as soon as all outcomes are there; see above.

    Each outcome belongs to a row of the response without an error. Everything that the request needs is written."""
    waiting = ClientWait(response, step.now_ms + timeout_ms, dict.fromkeys(outcomes))
    if timeout_ms <= 0 or not waiting.pending:
        step.reply(key, _timed_out(waiting))
        return
    step.context.cluster.client_waits[key] = waiting
    step.emit(HoldRequest(key, timeout_ms))
    _end_oldest(step)
    _set_timer(step)


def look(step: StepContext) -> None:
    """Answer the requests whose outcomes are all there. To be called when a step has nothing else left to do."""
    waits = step.context.cluster.client_waits
    if not waits:
        return
    unanswered = _oldest_unanswered(step.context.cluster)
    for key, waiting in list(waits.items()):
        _update(step.context, waiting, unanswered)
        if not waiting.pending:
            step.reply(key, waiting.response)


def end_waits(step: StepContext) -> None:
    """The timer fired: answer the requests whose time is over."""
    waits = step.context.cluster.client_waits
    for key in [key for key, waiting in waits.items() if waiting.deadline_ms <= step.now_ms]:
        step.reply(key, _timed_out(waits[key]))
    _set_timer(step)


def _end_oldest(step: StepContext) -> None:
    """Answer the requests that have waited for longest, until the others are within the limits."""
    waits, unanswered = step.context.cluster.client_waits, step.context.cluster.unanswered
    rows = sum(_row_count(waiting.response) for waiting in waits.values())
    size = sum(unanswered[key].frame_bytes for key in waits)
    while len(waits) > MAX_WAITING or ((rows > MAX_WAITING_ROWS or size > MAX_WAITING_BYTES) and len(waits) > 1):
        key, waiting = next(iter(waits.items()))
        rows -= _row_count(waiting.response)
        size -= unanswered[key].frame_bytes
        step.reply(key, _timed_out(waiting))


def _row_count(response: AwaitedResponse) -> int:
    if isinstance(response, ElectLeadersResponse):
        return sum(len(topic.partitions) for topic in response.topics)
    return len(response.topics)


def note_refused(context: Context, broker: BrokerId, request_id: int, request: UpdateMetadataRequest) -> None:
    """The broker has answered this UpdateMetadata with an error: it does not show these topics."""
    waits = context.cluster.client_waits
    if not waits:
        return
    topics = frozenset(topic.topic for topic in request.topics)
    for awaited in (each for waiting in waits.values() for each in waiting.unacknowledged):
        sent = awaited.sent.get(broker)
        is_concerned = sent is not None and request_id <= sent.request_id
        if sent is not None and is_concerned and any(outcome.topic in topics for outcome in awaited.outcomes):
            awaited.sent[broker] = sent._replace(is_refused=True)


def _set_timer(step: StepContext) -> None:
    deadlines = [waiting.deadline_ms for waiting in step.context.cluster.client_waits.values()]
    if deadlines and step.context.timers.get(AnswerClients()) != min(deadlines):
        step.set_timer(AnswerClients(), min(deadlines))


# --- outcomes -----------------------------------------------------------------------------------------------------


def _update(context: Context, waiting: ClientWait, unanswered: Mapping[BrokerId, int]) -> None:
    """Drop the outcomes that are there."""
    cluster = context.cluster
    for outcome in [each for each in waiting.unsent if isinstance(each, TopicDropped) and _is_dropped(cluster, each)]:
        del waiting.unsent[outcome]
    for awaited in list(waiting.unacknowledged):
        if _is_acknowledged(context, awaited, unanswered):
            waiting.unacknowledged.remove(awaited)
            # A leader may be gone again: then the next one is waited for.
            waiting.unsent.update((each, None) for each in awaited.outcomes if not _is_sent(cluster, each))
    sent = {outcome: None for outcome in waiting.unsent if _is_sent(cluster, outcome)}
    if sent:
        awaited = SentOutcomes(sent)
        waiting.unsent = {each: None for each in waiting.unsent if each not in sent}
        if not _is_acknowledged(context, awaited, unanswered):
            waiting.unacknowledged.append(awaited)


def _is_sent(cluster: ClusterState, outcome: AwaitedOutcome) -> bool:
    """Return whether memory has the outcome, and brokers have been sent it."""
    return _is_gone(cluster, outcome) if isinstance(outcome, TopicDropped) else _is_led(cluster, outcome)


def _is_led(cluster: ClusterState, outcome: PartitionsLed) -> bool:
    """Return whether the partitions have their leaders, and brokers have been sent that."""
    topic = cluster.topics.get(outcome.topic)
    if topic is None or cluster.is_queued(outcome.topic):
        return False
    if outcome.topic_id is not None and topic.id != outcome.topic_id:
        return False
    if any(outcome.topic in owing.topics for broker, owing in cluster.owed.items() if broker in cluster.brokers):
        # Such a broker gets no other topic of that name before it has answered the tombstone.
        return False
    for number in outcome.partitions:
        partition = topic.partitions.get(number)
        state = None if partition is None else partition.leader_and_isr
        if state is None or state.leader == LEADER_NONE or outcome.leader not in (None, state.leader):
            return False
    return True


def _is_acknowledged(context: Context, awaited: SentOutcomes, unanswered: Mapping[BrokerId, int]) -> bool:
    """Return whether each live broker has answered what shows it these outcomes."""
    cluster = context.cluster
    is_complete = True
    for broker in cluster.brokers.values():
        if not cluster.is_live(broker.id):
            continue
        sent = awaited.sent.get(broker.id)
        if sent is None or sent.broker_epoch != broker.epoch:
            sent = awaited.sent[broker.id] = LastSent(broker.epoch, context.last_request_id)
        oldest = unanswered.get(broker.id)
        if sent.is_refused or (oldest is not None and oldest <= sent.request_id):
            is_complete = False
    return is_complete


def _is_dropped(cluster: ClusterState, outcome: TopicDropped) -> bool:
    """Return whether each live broker has answered the tombstone of the topic, which is queued for deletion."""
    name = outcome.topic
    topic = cluster.topics.get(name)
    if topic is None or topic.created_zxid != outcome.created_zxid or not cluster.is_queued(name):
        return False
    sent = cluster.deletions[name].tombstones
    return sent is not None and all(broker in sent.answered for broker in filter(cluster.is_live, cluster.brokers))


def _is_gone(cluster: ClusterState, outcome: TopicDropped) -> bool:
    """Return whether memory has no such topic, and no live broker owes its tombstone."""
    name = outcome.topic
    topic = cluster.topics.get(name)
    if topic is not None and topic.created_zxid == outcome.created_zxid:
        return False
    return not any(name in owing.topics for broker, owing in cluster.owed.items() if cluster.is_live(broker))


def _oldest_unanswered(cluster: ClusterState) -> dict[BrokerId, int]:
    """Return the oldest UpdateMetadata that each broker has not answered."""
    found: dict[BrokerId, int] = {}
    for request_id, sent in cluster.outstanding.items():
        if isinstance(sent.request, UpdateMetadataRequest):
            found.setdefault(sent.broker, request_id)
    return found


# --- answers ------------------------------------------------------------------------------------------------------


def _timed_out(waiting: ClientWait) -> AwaitedResponse:
    """Return the response with REQUEST_TIMED_OUT in the rows whose outcomes are not there."""
    topics = {outcome.topic: None for outcome in waiting.pending}
    match waiting.response:
        case CreateTopicsResponse(topics=created):
            return replace(waiting.response, topics=tuple(_late_creation(row, topics) for row in created))
        case DeleteTopicsResponse(topics=deleted):
            return replace(waiting.response, topics=tuple(_late(row, row.name in topics) for row in deleted))
        case CreatePartitionsResponse(topics=grown):
            return replace(waiting.response, topics=tuple(_late(row, row.name in topics) for row in grown))
        case ElectLeadersResponse(topics=elected):
            led = (outcome for outcome in waiting.pending if isinstance(outcome, PartitionsLed))
            late = {(outcome.topic, number): None for outcome in led for number in outcome.partitions}
            rows = (
                (topic, tuple(_late(row, (topic, row.partition) in late) for row in partitions))
                for topic, partitions in elected
            )
            return replace(waiting.response, topics=tuple(TopicOutcome(*each) for each in rows))


def _late(row: R, is_late: bool) -> R:
    return row._replace(error=ErrorCode.REQUEST_TIMED_OUT) if is_late and row.error == ErrorCode.NONE else row


def _late_creation(row: CreatedTopic, topics: Container[str]) -> CreatedTopic:
    """As Kafka's, the row keeps the topic's id, and tells nothing else of it."""
    if row.name not in topics or row.error != ErrorCode.NONE:
        return row
    return CreatedTopic(row.name, ErrorCode.REQUEST_TIMED_OUT, topic_id=row.topic_id)
