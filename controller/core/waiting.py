"""Why a marked topic is not deleted yet: one value for each cause, ready for display.

A cause has the replica or broker that the topic waits for, what must happen, the beginning, the number of attempts, the
last error and the time of the next attempt (None if it depends on the cause, not on time).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.controller.core import debts_policy
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import METADATA_CACHE, PAUSES, Deletion, HeldTopic
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.cause_groups import NOT_WAITED_FOR
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, PartitionReplica, TopicPartition


@dataclass(frozen=True, slots=True)
class Wait:
    """One cause. `partition` and `broker` are None if the cause is not about one replica or broker."""

    topic: str
    waiting_for: CauseKind
    since_ms: int
    partition: int | None = None
    broker: BrokerId | None = None
    attempts: int = 0
    last_error: str | None = None
    """The latest answer of the broker or ZooKeeper, if it was an error."""
    next_try_ms: int | None = None
    last_error_ms: int | None = None
    """When the latest error was answered."""


def waits(context: Context, topic: str) -> tuple[Wait, ...]:
    """Return all causes why this topic is not deleted yet; empty if it is not marked."""
    deletion = context.cluster.deletions.get(topic)
    if deletion is not None:
        return tuple(wait for wait in _causes(context, topic, deletion) if wait.waiting_for not in NOT_WAITED_FOR)
    mark = context.cluster.marks.get(topic)
    return () if mark is None else (Wait(topic, mark.held_by, mark.since_ms, last_error=mark.last_error),)


class OldestWait(NamedTuple):
    """The marked topic that has waited longest, and its most informative cause."""

    topic: str
    marked_since_ms: int
    """Result of `marked_since_ms`."""
    reason: CauseKind
    broker: BrokerId | None


_ROWS_LOOKED_AT: Final = 300
_MARKED_AT_MS: Final = attrgetter("marked_at_ms")
_MOST_INFORMATIVE_FIRST: Final = (
    CauseKind.BROKER_TO_RETURN,
    CauseKind.CANNOT_BE_OWED,
    CauseKind.REGISTRATION_UNREADABLE,
    CauseKind.LOG_DIRECTORY,
    CauseKind.BROKER_TO_FINISH_SHUTDOWN,
    CauseKind.BROKER_REFUSES_EPOCH,
    CauseKind.BROKER_REFUSES_CONTROLLER,
    CauseKind.BROKER_NOT_SPOKEN,
    CauseKind.BROKER_ERROR,
    CauseKind.TOMBSTONE_ANSWER,
    CauseKind.ANSWER,
    *PAUSES,
)
"""Causes in order of display, the most informative first; the other causes follow."""


def marked_since_ms(context: Context, topic: str) -> int | None:
    """Return when the topic's marker was created; None if the topic is not marked."""
    deletion, mark = context.cluster.deletions.get(topic), context.cluster.marks.get(topic)
    if deletion is not None:
        return deletion.marked_at_ms
    return None if mark is None else _marked_since_ms(context, topic, mark)


def _marked_since_ms(context: Context, topic: str, mark: HeldTopic) -> int:
    return context.cluster.marker_times.get(topic, mark.since_ms)


def oldest(context: Context) -> OldestWait | None:
    """Return the oldest marked topic and its cause.

    The cost is one comparison for each marked topic. Of a large topic only the first replicas, and some with known
    problems, are examined."""
    topic = _oldest_topic(context)
    if topic is None:
        return None
    deletion = context.cluster.deletions.get(topic)
    if deletion is None:
        mark = context.cluster.marks[topic]
        return OldestWait(topic, _marked_since_ms(context, topic, mark), mark.held_by, None)
    first = first_wait(context, topic, _ROWS_LOOKED_AT)
    if first is None:
        return OldestWait(topic, deletion.marked_at_ms, CauseKind.OTHER_REPLICAS, None)
    return OldestWait(topic, deletion.marked_at_ms, first.waiting_for, first.broker)


def first_wait(context: Context, topic: str, at_most: int) -> Wait | None:
    """Return the most informative cause among the first `at_most` replicas and as many with problems, or None."""
    deletion = context.cluster.deletions.get(topic)
    if deletion is None:
        return next(iter(waits(context, topic)), None)
    rows = (*islice(_causes(context, topic, deletion), at_most), *_troubled(context, topic, deletion, at_most))
    ranks = {reason: rank for rank, reason in enumerate(_MOST_INFORMATIVE_FIRST)}
    waiting = (row for row in rows if row.waiting_for not in NOT_WAITED_FOR)
    return min(waiting, key=lambda row: ranks.get(row.waiting_for, len(ranks)), default=None)


def _oldest_topic(context: Context) -> str | None:
    """Return the marked topic with the oldest marker.

    The queue is not in order of age: a failover queues by name, and a held topic is queued late. Each scrape calls this
    with up to 100,000 topics, so the loop makes no Python call for each queued topic."""
    deletions, marks = context.cluster.deletions, context.cluster.marks
    queued_ms = min(map(_MARKED_AT_MS, deletions.values()), default=None)
    held = min(marks, key=lambda name: _marked_since_ms(context, name, marks[name]), default=None)
    if held is not None and (queued_ms is None or _marked_since_ms(context, held, marks[held]) < queued_ms):
        return held
    return next((name for name, deletion in deletions.items() if deletion.marked_at_ms == queued_ms), None)


def _troubled(context: Context, topic: str, deletion: Deletion, at_most: int) -> Iterator[Wait]:
    """Yield the causes of up to `at_most` replicas with problems."""
    for number, broker in islice(deletion.problems, at_most):
        topic_partition = TopicPartition(topic, number)
        is_known = context.cluster.partition(topic_partition) is not None
        if is_known and _settled_as(context, topic_partition, broker) is None:
            yield _replica(context, deletion, topic_partition, BrokerId(broker))


def _settled_as(context: Context, topic_partition: TopicPartition, broker: int) -> CauseKind | None:
    """Return what is shown of a replica that the deletion does not wait for; None if it waits."""
    state = context.cluster.replica_state(PartitionReplica(*topic_partition, BrokerId(broker)))
    if state is ReplicaState.DELETION_OWED:
        return CauseKind.BROKER_GIVEN_UP if context.cluster.is_given_up(broker) else CauseKind.TO_BE_OWED
    return CauseKind.DONE if state is ReplicaState.DELETION_SUCCESSFUL else None


def all_rows(context: Context, topic: str) -> tuple[Wait, ...]:
    """Return `waits`, and rows of the replicas that are not waited for: `NOT_WAITED_FOR`."""
    deletion = context.cluster.deletions.get(topic)
    return waits(context, topic) if deletion is None else tuple(_causes(context, topic, deletion))


def marked_topics(context: Context) -> tuple[str, ...]:
    """Return all marked topics: the held ones, then the queue, oldest first."""
    return (*context.cluster.marks, *context.cluster.deletions)


def all_waits(context: Context, at_most: int | None = None) -> dict[str, tuple[Wait, ...]]:
    """Return the causes of all marked topics, or of the first `at_most`."""
    return {topic: waits(context, topic) for topic in marked_topics(context)[:at_most]}


def is_undisturbed(context: Context) -> bool:
    """Return whether no broker and no pause delays deletions. A queued topic without problems then waits only for its
    turn, for answers that were asked for, or for the removal of its znodes."""
    cluster = context.cluster
    return (
        cluster.paused is None
        and not cluster.shutting_down
        and not cluster.has_failures
        and all(broker in cluster.brokers for broker in cluster.waiting_replicas)
        and all(_refusal(context, broker, 0) is None for broker in cluster.brokers)
    )


def goes_on(context: Context, topic: str, since_ms: int) -> bool:
    """Return True for a queued topic that waits for nothing but its turn, or for something that began after `since_ms`,
    while `is_undisturbed` holds. `waits` tells of the others. The cost does not depend on the number of replicas."""
    deletion = context.cluster.deletions.get(topic)
    if deletion is None or deletion.problems or deletion.znode_problem is not None:
        return False
    if deletion.all_acknowledged:
        return (deletion.acknowledged_at_ms or deletion.queued_at_ms) > since_ms
    return not deletion.in_progress or (deletion.asked_at_ms or deletion.queued_at_ms) > since_ms


def _causes(context: Context, topic: str, deletion: Deletion) -> Iterator[Wait]:
    if deletion.all_acknowledged:
        yield from _after_acknowledgement(context, deletion, topic)
    for topic_partition, partition in context.cluster.partitions_of(topic):
        for broker in partition.assignment.replicas:
            settled = _settled_as(context, topic_partition, broker)
            if settled is not None:
                at_ms = deletion.asked_at_ms or deletion.queued_at_ms
                yield Wait(topic, settled, at_ms, topic_partition.partition, BrokerId(broker))
            else:
                yield _replica(context, deletion, topic_partition, BrokerId(broker))


def _after_acknowledgement(context: Context, deletion: Deletion, topic: str) -> Iterator[Wait]:
    cluster = context.cluster
    since_ms = deletion.acknowledged_at_ms or deletion.queued_at_ms
    owing = deletion.owing_tombstone
    for broker in owing:
        problem = deletion.problems.get((METADATA_CACHE, broker))
        refusal = _refusal(context, broker, since_ms)
        yield Wait(
            topic,
            *(refusal or (CauseKind.TOMBSTONE_ANSWER, since_ms)),
            broker=broker,
            attempts=problem.attempts if problem else 1,
            last_error=problem.what if problem else None,
            next_try_ms=None if cluster.paused else deletion.retry_at_ms,
            last_error_ms=problem.last_ms if problem else None,
        )
    if not owing:
        problem = deletion.znode_problem
        yield Wait(
            topic,
            CauseKind.ZNODES if cluster.paused is None else cluster.paused.held_by,
            since_ms,
            attempts=problem.attempts if problem else 1,
            last_error=problem.what if problem else None,
            next_try_ms=None if cluster.paused else deletion.retry_at_ms,
            last_error_ms=problem.last_ms if problem else None,
        )


def _replica(context: Context, deletion: Deletion, topic_partition: TopicPartition, broker: BrokerId) -> Wait:
    problem = deletion.problems.get((topic_partition.partition, broker))
    waiting_for, since_ms = _reason(context, deletion, topic_partition, broker)
    last_error, last_error_ms = (problem.what, problem.last_ms) if problem else (None, None)
    if waiting_for is CauseKind.REGISTRATION_UNREADABLE:
        unusable = context.cluster.quarantined_brokers[broker]
        last_error, last_error_ms = unusable.reason, unusable.since_ms
    elif waiting_for is CauseKind.CANNOT_BE_OWED:
        last_error = debts_policy.obstacle(context, topic_partition.topic)
    return Wait(
        topic_partition.topic,
        waiting_for,
        since_ms,
        topic_partition.partition,
        broker,
        problem.attempts if problem else deletion.attempts,
        last_error,
        deletion.retry_at_ms if waiting_for is CauseKind.BROKER_ERROR else None,
        last_error_ms,
    )


def _reason(
    context: Context, deletion: Deletion, topic_partition: TopicPartition, broker: BrokerId
) -> tuple[CauseKind, int]:
    cluster = context.cluster
    queued_ms = deletion.queued_at_ms
    if broker not in cluster.brokers:
        if (unusable := cluster.quarantined_brokers.get(broker)) is not None:
            return CauseKind.REGISTRATION_UNREADABLE, max(unusable.since_ms, queued_ms)
        # The wait cannot begin before the topic was queued.
        name = topic_partition.topic
        is_ordered = debts_policy.is_ordered(context, name) and cluster.is_absent(broker)
        cause = (
            CauseKind.CANNOT_BE_OWED
            if is_ordered and debts_policy.obstacle(context, name)
            else CauseKind.BROKER_TO_RETURN
        )
        return cause, max(cluster.gone_since_ms.get(broker, cluster.elected_at_ms), queued_ms)
    if broker in cluster.shutting_down:
        return CauseKind.BROKER_TO_FINISH_SHUTDOWN, queued_ms
    if topic_partition in cluster.offline_dirs.get(broker, {}):
        return CauseKind.LOG_DIRECTORY, queued_ms
    refusal = _refusal(context, broker, queued_ms)
    if refusal is not None:
        return refusal
    if cluster.replica_state(PartitionReplica(*topic_partition, broker)) is ReplicaState.DELETION_STARTED:
        return CauseKind.ANSWER, deletion.asked_at_ms or queued_ms
    if cluster.paused is not None:
        return cluster.paused.held_by, max(cluster.paused.since_ms, queued_ms)
    problem = deletion.problems.get((topic_partition.partition, broker))
    if problem is not None:
        return CauseKind.BROKER_ERROR, problem.since_ms
    if deletion.in_progress:
        return CauseKind.OTHER_REPLICAS, queued_ms
    return CauseKind.TURN, queued_ms


def _refusal(context: Context, broker: BrokerId, queued_ms: int) -> tuple[CauseKind, int] | None:
    """Return the cause and its beginning if the broker refuses all requests of this controller, else None."""
    registered = context.cluster.brokers.get(broker)
    if registered is not None and not context.is_reachable(registered):
        return CauseKind.BROKER_NOT_SPOKEN, queued_ms
    last = context.cluster.last_answers.get(broker)
    kind = None if last is None else _REFUSALS.get(last.error)
    return None if last is None or kind is None else (kind, last.since_ms)


_REFUSALS: Final[Mapping[int, CauseKind]] = MappingProxyType(
    {
        ErrorCode.STALE_CONTROLLER_EPOCH: CauseKind.BROKER_REFUSES_EPOCH,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: CauseKind.BROKER_REFUSES_CONTROLLER,
    }
)
