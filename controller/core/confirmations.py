"""Handles brokers' answers to LeaderAndIsr: which replicas their log directories hold, and which have failed.

A topic whose every row says NONE is one bit set from the wire to the memory of the controller. Rows are looked at one
by one for the other topics, and where the broker had a failed log directory.

    orders   0-49: NONE                    confirmed, all at once
    items    0: NONE, 1: STORAGE_ERROR     row by row: 0 is confirmed, 1 goes offline
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lethe.controller.core.context import Context
from lethe.controller.core.events import LeaderAndIsrResponseReceived
from lethe.controller.core.mutation import note_confirmations
from lethe.controller.core.partition_sets import Bits, bits_of
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import TakeReplicasOffline
from lethe.controller.core.topic import ReplicaConfirmation
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.journal import partition_ranges
from lethe.protocol.kafka.control import LeaderAndIsrRequest, LeaderAndIsrResponse, LeaderAndIsrTopic
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.partition_errors import PartitionErrors
from lethe.protocol.vocabulary import BrokerId, PartitionReplica, TopicPartition


def received(step: StepContext, event: LeaderAndIsrResponseReceived, request: LeaderAndIsrRequest) -> None:
    """Store for which replicas the broker's log directory has failed, and which ones it can access."""
    context = step.context
    broker = event.broker
    asked = {topic.topic: topic.topic_id for topic in request.topics if _lives(context, topic)}
    newly_offline: list[PartitionReplica] = []
    problems: dict[tuple[str, int], list[int]] = {}
    accessible: dict[str, Bits] = {}
    offline = context.cluster.offline_dirs.setdefault(broker, {})
    for topic, errors in answered_topics(request, event.response) if event.response.error == ErrorCode.NONE else ():
        if topic not in asked:
            continue
        if errors.has_error or offline:
            reached = bits_of(_accessible(context, broker, topic, errors, newly_offline, problems))
        else:
            # Without numbers that the topic does not have: a false one would make the bit set large.
            reached, _ = errors.among(context.cluster.topics[topic].numbers)
        accessible[topic] = accessible.get(topic, 0) | reached
    confirmed = ReplicaConfirmation(event.broker_epoch, event.request_id, confirmed=True)
    for topic, reached in accessible.items():
        # Without replicas that a later request announced, or that have failed by another row of this answer.
        reached &= context.cluster.topics[topic].announced(broker, lambda it: it.request_id == event.request_id)
        note_confirmations(context.cluster, topic, broker, reached, confirmed)
    if event.response.error != ErrorCode.NONE:
        _forget_announcement(context, broker, event.request_id, request)
    for (topic, error), numbers in problems.items():
        step.refuse(
            f"topic/{topic}", "LeaderAndIsr", error_name(error), broker=broker, partitions=partition_ranges(numbers)
        )
    if newly_offline:
        step.do(TakeReplicasOffline(tuple(newly_offline)))


def _accessible(
    context: Context,
    broker: BrokerId,
    topic: str,
    errors: PartitionErrors,
    newly_offline: list[PartitionReplica],
    problems: dict[tuple[str, int], list[int]],
) -> Iterator[int]:
    """Yield the partitions that the broker can access. Store the others as offline, and add to the lists."""
    known = context.cluster.topics[topic]
    offline = context.cluster.offline_dirs[broker]
    for number, error in errors.rows:
        if number not in known.partitions:
            continue
        if error == ErrorCode.KAFKA_STORAGE_ERROR:
            note_confirmations(context.cluster, topic, broker, 1 << number, None)
            if known.replica_state(number, broker) is ReplicaState.NON_EXISTENT:
                # The replica was moved away after the announcement.
                continue
            if (topic_partition := TopicPartition(topic, number)) not in offline:
                offline[topic_partition] = None
                newly_offline.append(PartitionReplica(topic, number, broker))
            continue
        if error == ErrorCode.NONE:
            offline.pop(TopicPartition(topic, number), None)
        elif error != ErrorCode.STALE_CONTROLLER_EPOCH:
            # STALE_CONTROLLER_EPOCH for a partition means that the broker has this leader epoch or a later one.
            problems.setdefault((topic, error), []).append(number)
        yield number


def answered_topics(
    request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> Iterator[tuple[str, PartitionErrors]]:
    """Yield each topic of the response with its errors.

    From version 5 on a response has topic ids only. A row without an id (of an unreadable topic that is being deleted)
    has just the partition's number. Such rows count for all requested topics without an id that have this partition, if
    there is one row for each and all have the same error. Otherwise they are dropped.
    """
    names = {topic.topic_id: topic.topic for topic in request.topics if topic.topic_id is not None}
    nameless: dict[int, list[int]] = {}
    for topic, topic_id, errors in response.topics:
        if topic is None and topic_id is not None:
            topic = names.get(topic_id)
        if topic is not None:
            yield topic, errors
        elif topic_id is None:
            for number, error in errors.rows:
                nameless.setdefault(number, []).append(error)
    asked = list(_asked_without_id(request)) if nameless else []
    times = Counter(number for _, number in asked)
    for topic, number in asked:
        found = nameless.get(number, [])
        if len(found) == times[number] and len(set(found)) == 1:
            yield topic, PartitionErrors.uniform((number,), found[0])


def _asked_without_id(request: LeaderAndIsrRequest) -> Iterator[tuple[str, int]]:
    for topic in request.topics:
        if topic.topic_id is None:
            yield from ((topic.topic, row.partition) for row in topic.partitions)


def _lives(context: Context, asked: LeaderAndIsrTopic) -> bool:
    """Return True if the topic is still the one in the request, and not a later one of the same name."""
    known = context.cluster.topics.get(asked.topic)
    return known is not None and known.id == asked.topic_id


def _forget_announcement(context: Context, broker: BrokerId, request_id: int, request: LeaderAndIsrRequest) -> None:
    """Drop the announcements of a request that was refused as a whole: it confirms no replica."""
    for name in (topic.topic for topic in request.topics if topic.topic in context.cluster.topics):
        refused = context.cluster.topics[name].announced(broker, lambda it: it.request_id == request_id)
        note_confirmations(context.cluster, name, broker, refused, None)
