"""Why a topic that is marked for deletion is not gone yet: one value per cause, which views only have to show.

A cause names the replica or broker that is waited for, what would have to happen, since when, how often it was tried,
the last error, and when it is tried again (None where that depends on the cause and not on time).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from controller.core.context import Context
from controller.core.deletion_memory import METADATA_CACHE, Deletion, HeldBy, Mark
from controller.core.topic import Partition
from controller.core.transitions import ReplicaState
from protocol.vocabulary import BrokerId, TopicPartition


class WaitingFor(enum.Enum):
    """What has to happen, in words an operator can act on."""

    BROKER_TO_RETURN = "the broker is not registered in ZooKeeper; start it with its disks"
    BROKER_TO_FINISH_SHUTDOWN = "the broker is shutting down and has not answered; if it goes, start it again"
    LOG_DIRECTORY = "the broker's log directory has failed; repair it and restart the broker"
    ANSWER = "the broker has been asked to delete the replica and has not answered"
    NEXT_TRY = "the broker answered with an error; it is asked again"
    OTHER_REPLICAS = "replicas of the topic are outstanding; this one follows when they have answered"
    TOMBSTONE_ANSWER = "the broker has been told that the topic is gone and has not answered"
    TURN = "the controller has not come to it yet"
    ZNODES = "the topic's znodes are being removed"
    READABLE_ZNODE = "the topic's znode cannot be understood; repair it, or have the topic deleted as it is"
    RESUMPTION = "deletions are paused"
    REASSIGNMENT = "a reassignment of the topic is ended first"
    DISABLED = "deletion is disabled (delete.topic.enable); the marker is being removed"
    MARKER_WITHOUT_TOPIC = "there is no such topic; the marker is being removed"
    HALF_DELETED = "no state of these partitions is known: half deleted, never led, or the topic is unreadable"
    NOT_CHOSEN = "this controller is here to delete other topics only"
    DONE = "nothing: the replica is deleted"


_HELD: Final[Mapping[HeldBy, WaitingFor]] = MappingProxyType(
    {
        HeldBy.PAUSED: WaitingFor.RESUMPTION,
        HeldBy.REASSIGNMENT: WaitingFor.REASSIGNMENT,
        HeldBy.UNREADABLE: WaitingFor.READABLE_ZNODE,
        HeldBy.DISABLED: WaitingFor.DISABLED,
        HeldBy.NO_TOPIC: WaitingFor.MARKER_WITHOUT_TOPIC,
        HeldBy.NOT_CHOSEN: WaitingFor.NOT_CHOSEN,
    }
)


@dataclass(frozen=True, slots=True)
class Wait:
    """One cause. `partition` and `broker` are None where the cause is not one replica or broker."""

    topic: str
    waiting_for: WaitingFor
    since_ms: int
    partition: int | None = None
    broker: BrokerId | None = None
    attempts: int = 0
    last_error: str | None = None
    next_try_ms: int | None = None


def waits(context: Context, topic: str) -> tuple[Wait, ...]:
    """Every cause for which this topic is not gone yet; empty where it is not marked for deletion."""
    deletion = context.deletions.get(topic)
    if deletion is not None:
        return tuple(wait for wait in _causes(context, topic, deletion) if wait.waiting_for is not WaitingFor.DONE)
    mark = context.marks.get(topic)
    return () if mark is None else (Wait(topic, _HELD[mark.held_by], mark.since_ms, last_error=mark.last_error),)


class Oldest(NamedTuple):
    """The marked topic that has waited longest, and the cause that a person would name first."""

    topic: str
    marked_since_ms: int
    """As `marked_since_ms` gives it."""
    reason: WaitingFor
    broker: BrokerId | None


_ROWS_LOOKED_AT: Final = 300
_TELLING: Final = (
    WaitingFor.BROKER_TO_RETURN,
    WaitingFor.LOG_DIRECTORY,
    WaitingFor.BROKER_TO_FINISH_SHUTDOWN,
    WaitingFor.NEXT_TRY,
    WaitingFor.TOMBSTONE_ANSWER,
    WaitingFor.ANSWER,
    WaitingFor.RESUMPTION,
)
"""Causes that say more than that other replicas are waited for, the most telling first."""


def marked_since_ms(context: Context, topic: str) -> int | None:
    """When the topic's marker was made; None where the topic is not marked."""
    deletion, mark = context.deletions.get(topic), context.marks.get(topic)
    if deletion is not None:
        return deletion.marked_at_ms
    return None if mark is None else _marked_since_ms(context, topic, mark)


def _marked_since_ms(context: Context, topic: str, mark: Mark) -> int:
    return context.marker_times.get(topic, mark.since_ms)


def oldest(context: Context) -> Oldest | None:
    """The oldest of all marked topics. Costs a comparison for each of them, and not more for a large one: of very many
    replicas the first ones speak for it, and those that something is known to be wrong with."""
    topic = _oldest_topic(context)
    if topic is None:
        return None
    deletion = context.deletions.get(topic)
    if deletion is None:
        mark = context.marks[topic]
        return Oldest(topic, _marked_since_ms(context, topic, mark), _HELD[mark.held_by], None)
    rows = [*islice(_causes(context, topic, deletion), _ROWS_LOOKED_AT), *_troubled(context, topic, deletion)]
    rows = [row for row in rows if row.waiting_for is not WaitingFor.DONE]
    if not rows:
        return Oldest(topic, deletion.marked_at_ms, WaitingFor.OTHER_REPLICAS, None)
    ranks = {reason: rank for rank, reason in enumerate(_TELLING)}
    first = min(rows, key=lambda row: ranks.get(row.waiting_for, len(ranks)))
    return Oldest(topic, deletion.marked_at_ms, first.waiting_for, first.broker)


def _oldest_topic(context: Context) -> str | None:
    """After a failover topics are queued in the order of their names, and one that was held is queued late."""
    ages = [(_marked_since_ms(context, name, mark), name) for name, mark in context.marks.items()]
    ages += [(deletion.marked_at_ms, name) for name, deletion in context.deletions.items()]
    return min(ages)[1] if ages else None


def _troubled(context: Context, topic: str, deletion: Deletion) -> Iterator[Wait]:
    """Some of the replicas that met a problem."""
    for number, broker in islice(deletion.problems, _ROWS_LOOKED_AT):
        topic_partition = TopicPartition(topic, number)
        partition = context.partition(topic_partition)
        if partition is not None and partition.replicas.get(broker) is not ReplicaState.DELETION_SUCCESSFUL:
            yield _replica(context, deletion, topic_partition, partition, BrokerId(broker))


def all_rows(context: Context, topic: str) -> tuple[Wait, ...]:
    """As `waits`, and the replicas that are deleted as well: these wait for nothing (`DONE`)."""
    deletion = context.deletions.get(topic)
    return waits(context, topic) if deletion is None else tuple(_causes(context, topic, deletion))


def marked_topics(context: Context) -> tuple[str, ...]:
    """Every topic that is marked for deletion: those that are held back, then the queue, oldest first."""
    return (*context.marks, *context.deletions)


def all_waits(context: Context, at_most: int | None = None) -> dict[str, tuple[Wait, ...]]:
    """The causes of every marked topic, or of the first so many of them."""
    return {topic: waits(context, topic) for topic in marked_topics(context)[:at_most]}


def _causes(context: Context, topic: str, deletion: Deletion) -> Iterator[Wait]:
    if deletion.all_acknowledged:
        yield from _after_acknowledgement(context, deletion, topic)
    for topic_partition, partition in context.partitions_of(topic):
        for broker in partition.assignment.replicas:
            if partition.replicas.get(broker) is ReplicaState.DELETION_SUCCESSFUL:
                at_ms = deletion.asked_at_ms or deletion.queued_at_ms
                yield Wait(topic, WaitingFor.DONE, at_ms, topic_partition.partition, BrokerId(broker))
            else:
                yield _replica(context, deletion, topic_partition, partition, BrokerId(broker))


def _after_acknowledgement(context: Context, deletion: Deletion, topic: str) -> Iterator[Wait]:
    since_ms = deletion.acknowledged_at_ms or deletion.queued_at_ms
    owing = deletion.owing_tombstone
    for broker in owing:
        problem = deletion.problems.get((METADATA_CACHE, broker))
        yield Wait(
            topic,
            WaitingFor.TOMBSTONE_ANSWER,
            since_ms,
            broker=broker,
            attempts=problem.attempts if problem else 1,
            last_error=problem.what if problem else None,
            next_try_ms=None if context.paused else deletion.retry_at_ms,
        )
    if not owing:
        problem = deletion.znode_problem
        yield Wait(
            topic,
            WaitingFor.ZNODES if context.paused is None else WaitingFor.RESUMPTION,
            since_ms,
            attempts=problem.attempts if problem else 1,
            last_error=problem.what if problem else None,
            next_try_ms=None if context.paused else deletion.retry_at_ms,
        )


def _replica(
    context: Context, deletion: Deletion, topic_partition: TopicPartition, partition: Partition, broker: BrokerId
) -> Wait:
    problem = deletion.problems.get((topic_partition.partition, broker))
    waiting_for, since_ms = _reason(context, deletion, topic_partition, partition, broker)
    return Wait(
        topic_partition.topic,
        waiting_for,
        since_ms,
        topic_partition.partition,
        broker,
        problem.attempts if problem else deletion.attempts,
        problem.what if problem else None,
        deletion.retry_at_ms if waiting_for is WaitingFor.NEXT_TRY else None,
    )


def _reason(
    context: Context, deletion: Deletion, topic_partition: TopicPartition, partition: Partition, broker: BrokerId
) -> tuple[WaitingFor, int]:
    queued_ms = deletion.queued_at_ms
    if broker not in context.brokers:
        # Nobody waited for the broker before the topic was to be deleted.
        return WaitingFor.BROKER_TO_RETURN, max(context.gone_since_ms.get(broker, context.elected_at_ms), queued_ms)
    if broker in context.shutting_down:
        return WaitingFor.BROKER_TO_FINISH_SHUTDOWN, queued_ms
    if topic_partition in context.offline_dirs.get(broker, {}):
        return WaitingFor.LOG_DIRECTORY, queued_ms
    if partition.replicas.get(broker) is ReplicaState.DELETION_STARTED:
        return WaitingFor.ANSWER, deletion.asked_at_ms or queued_ms
    if context.paused is not None:
        return WaitingFor.RESUMPTION, max(context.paused.since_ms or queued_ms, queued_ms)
    problem = deletion.problems.get((topic_partition.partition, broker))
    if problem is not None:
        return WaitingFor.NEXT_TRY, problem.since_ms
    if deletion.in_progress:
        return WaitingFor.OTHER_REPLICAS, queued_ms
    return WaitingFor.TURN, queued_ms
