"""Handles brokers' answers to control requests.

An answer is matched with its request by the request's id. The outstanding request has the partitions, epochs and delete
flags that the answer is about. An answer without an outstanding request (its broker has left, or it came twice) changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lethe.controller.core import (
    caches,
    client_waits,
    confirmations,
    debts,
    evidence,
    owed,
    pace,
    power,
    reassignment_end,
    tombstones,
    trash_disks,
    trash_out,
)
from lethe.controller.core.cluster_state import Outstanding
from lethe.controller.core.context import Context
from lethe.controller.core.deletion import note_problem, note_tombstoned
from lethe.controller.core.deletion_memory import METADATA_CACHE
from lethe.controller.core.events import (
    Answer,
    LeaderAndIsrResponseReceived,
    LogDirsDescribed,
    PartAnswered,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from lethe.controller.core.mutation import note_confirmations
from lethe.controller.core.partition_sets import Bits, ReplicaColumns, bits_of, columns_of, ranges_of, replicas_in
from lethe.controller.core.replica_machine import acknowledge
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ResignIfSettled, StandForElection
from lethe.controller.core.tasks_deletion import FailReplicaDeletions, ResumeDeletions
from lethe.controller.core.topic import Topic
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.journal import EventRecordType, JsonValue
from lethe.protocol.kafka.control import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.partition_errors import PartitionErrors
from lethe.protocol.kafka.queries import DescribeLogDirsRequest
from lethe.protocol.vocabulary import BrokerId, PartitionReplica, TopicPartition

UNPROVEN = "answered without having said that it can reach the replica"
_ACKNOWLEDGED: Final[Mapping[str, JsonValue]] = {
    "before": ReplicaState.DELETION_STARTED.name,
    "after": ReplicaState.DELETION_SUCCESSFUL.name,
}
NOT_LISTED = "the answer does not list the partition"


def received(step: StepContext, event: Answer) -> None:
    """Match the answer with its request, and handle it."""
    outstanding = _settle(step.context, event)
    if outstanding is None:
        if _was_dropped(step.context, event):
            return
        step.refuse(f"broker/{event.broker}", type(event).__name__, "no such request is outstanding for this broker")
        return
    if not isinstance(event, LogDirsDescribed):
        # DescribeLogDirs is a query: its answer does not show whether the broker obeys control requests.
        power.note_answer(step, event.broker, event.broker_epoch, event.response.error)
    if event.response.error != ErrorCode.NONE:
        step.refuse(f"broker/{event.broker}", type(event).__name__, error_name(event.response.error))
    if event.response.error == ErrorCode.STALE_CONTROLLER_EPOCH:
        # The broker has seen a higher epoch: check whether another controller leads, or the epoch must be raised.
        step.do(StandForElection())
    match event, outstanding.request:
        case LeaderAndIsrResponseReceived(), LeaderAndIsrRequest() as request:
            if not debts.compared(step, event, request):
                confirmations.received(step, event, request)
                debts.note_hosted(step, event, request)
        case UpdateMetadataResponseReceived(), UpdateMetadataRequest() as request:
            if event.response.error != ErrorCode.NONE:
                client_waits.note_refused(step.context, event.broker, event.request_id, request)
            _update_metadata(step, event, request)
            caches.answered(step, event)
        case StopReplicaResponseReceived(), StopReplicaRequest() as request:
            if not debts.deleted(step, event, request):
                _stop_replica(step, event, request)
        case LogDirsDescribed(), DescribeLogDirsRequest() as request:
            evidence.described(step, event)
            pace.described(step, event, request)
            trash_out.described(step, event)
            trash_disks.described(step, event)
        case _:
            step.refuse(f"broker/{event.broker}", type(event).__name__, "it answers a request of another kind")


def part_received(step: StepContext, event: PartAnswered) -> None:
    """Note that the broker is at work on a large request; the answer to the whole follows."""
    if _is_outstanding(step.context, event):
        power.note_answer(step, event.broker, event.broker_epoch, event.error)


def _settle(context: Context, event: Answer) -> Outstanding | None:
    return context.cluster.outstanding.pop(event.request_id) if _is_outstanding(context, event) else None


def _is_outstanding(context: Context, event: Answer | PartAnswered) -> bool:
    found = context.cluster.outstanding.get(event.request_id)
    return found is not None and found[:2] == (event.broker, event.broker_epoch)


def _was_dropped(context: Context, event: Answer) -> bool:
    """Return whether the request was dropped with the term or the broker's incarnation."""
    broker = context.cluster.brokers.get(event.broker)
    return not context.is_leading or broker is None or broker.epoch != event.broker_epoch


# --- UpdateMetadata -----------------------------------------------------------------------------------------------


def _update_metadata(step: StepContext, event: UpdateMetadataResponseReceived, request: UpdateMetadataRequest) -> None:
    """Settle tombstones that the broker has acknowledged; schedule a retry for those that it refused."""
    context = step.context
    cluster = context.cluster
    settled: list[str] = []
    owed.answered(step, event, request)
    names = [topic.topic for topic in request.topics] if cluster.deletions else []
    for shared, topics in tombstones.by_round(cluster.deletions, names):
        if shared is None or not tombstones.is_answered_by(shared, event):
            continue
        if event.response.error != ErrorCode.NONE:
            for name in topics:
                cache = PartitionReplica(name, METADATA_CACHE, event.broker)
                note_problem(step, cache, error_name(event.response.error))
            continue
        tombstones.note_answered(shared, event.broker)
        for name in topics:
            if cluster.deletions[name].problems:
                cluster.deletions[name].problems.pop((METADATA_CACHE, event.broker), None)
        if shared.owing:
            continue
        for name in topics:
            note_tombstoned(step, name)
            if cluster.deletions[name].all_acknowledged:
                settled.append(name)
    if cluster.leaving is not None:
        context.tasks.append(ResignIfSettled())
    if settled:
        step.do(ResumeDeletions(tuple(settled)))


# --- StopReplica --------------------------------------------------------------------------------------------------


def _stop_replica(step: StepContext, event: StopReplicaResponseReceived, request: StopReplicaRequest) -> None:
    """Settle the partitions that were to be deleted: each succeeded, failed with a reason, or waits for proof.

    A request without partitions is a fence, whose answer settles those that waited."""
    if not request.topics:
        settled, problem = evidence.fenced(step, event)
        for request_id, replicas in settled:
            if problem is not None:
                _settle_deletions(step, event, request_id, {}, dict.fromkeys(replicas, problem))
                continue
            topics = {name: on[event.broker] for name, on in columns_of(replicas).items()}
            _settle_deletions(step, event, request_id, topics, {})
        return
    _moved_away(step, event, request)
    asked = _asked_to_delete(step.context, event, request)
    if not asked:
        return
    if event.response.error != ErrorCode.NONE:
        problem = error_name(event.response.error)
        _settle_deletions(step, event, event.request_id, {}, dict.fromkeys(_of(event.broker, asked), problem))
        return
    deleted, failed = _verdicts(step.context, event, asked)
    _settle_deletions(step, event, event.request_id, deleted, failed)


def _verdicts(
    context: Context, event: StopReplicaResponseReceived, asked: Mapping[str, Bits]
) -> tuple[dict[str, Bits], dict[PartitionReplica, str]]:
    """Return the replicas whose deletion the answer proves, and the problems of others; not those that await proof."""
    broker = event.broker
    said: dict[str, Bits] = {}
    wrong: dict[str, Bits] = {}
    failed: dict[PartitionReplica, str] = {}
    for topic in event.response.topics:
        name = topic.topic
        if name is None or name not in asked:
            continue
        without_error, with_error = topic.errors.among(asked[name])
        said[name] = said.get(name, 0) | without_error
        if with_error:
            wrong[name] = wrong.get(name, 0) | with_error
            failed |= _problems(name, topic.errors, broker, with_error)
    deleted: dict[str, Bits] = {}
    awaiting: dict[str, Bits] = {}
    for name, bits in asked.items():
        left = bits & ~wrong.get(name, 0)
        answered = said.get(name, 0) & left
        if unlisted := left & ~answered:
            failed |= dict.fromkeys(_of(broker, {name: unlisted}), NOT_LISTED)
        by_look = answered & evidence.awaited(context, name, broker, event.broker_epoch, event.request_id)
        proven = answered & _proven(context.cluster.topics[name], event)
        if by_look:
            awaiting[name] = by_look
        if proven:
            deleted[name] = proven
        if unproven := answered & ~by_look & ~proven:
            note_confirmations(context.cluster, name, broker, unproven, None)
            failed |= dict.fromkeys(_of(broker, {name: unproven}), UNPROVEN)
    held = tuple(_of(broker, awaiting))
    if held and not evidence.await_proof(context, event, held):
        failed |= dict.fromkeys(held, evidence.NO_LOOK)
    return deleted, failed


def _problems(
    topic: str, errors: PartitionErrors, broker: BrokerId, wrong: Bits
) -> Iterator[tuple[PartitionReplica, str]]:
    """Yield the errors of these partitions of the topic, in the order of the answer."""
    for number, error in errors.rows:
        if error != ErrorCode.NONE and number >= 0 and wrong >> number & 1:
            yield PartitionReplica(topic, number, broker), error_name(error)


def _proven(topic: Topic, event: StopReplicaResponseReceived) -> Bits:
    """Return the replicas that the same incarnation of the broker had confirmed before it was asked to delete them."""
    epoch, asked_by = event.broker_epoch, event.request_id
    return topic.announced(
        event.broker, lambda it: it.confirmed and it.broker_epoch == epoch and it.request_id < asked_by
    )


def _of(broker: BrokerId, topics: Mapping[str, Bits]) -> Iterator[PartitionReplica]:
    return replicas_in({name: {broker: bits} for name, bits in topics.items()})


def _settle_deletions(
    step: StepContext,
    event: StopReplicaResponseReceived,
    request_id: int,
    deleted: Mapping[str, Bits],
    failed: Mapping[PartitionReplica, str],
) -> None:
    """Apply the verdicts on a request to delete these replicas of the broker."""
    broker, deletions = event.broker, step.context.cluster.deletions
    for replica, problem in failed.items():
        note_problem(step, replica, problem)
    succeeded = acknowledge(step, {name: {broker: bits} for name, bits in deleted.items()})
    for name, columns in succeeded.items():
        for key in [key for key in deletions[name].problems if key[1] == broker and key[0] >= 0]:
            if columns[broker] >> key[0] & 1:
                del deletions[name].problems[key]
    _record(step, event, request_id, succeeded, failed)
    step.do(FailReplicaDeletions(tuple(failed)), ResumeDeletions(tuple(succeeded)))


def _moved_away(step: StepContext, event: StopReplicaResponseReceived, request: StopReplicaRequest) -> None:
    """Settle the deletion of replicas that a reassignment has moved away."""
    moving = step.context.cluster.reassignments
    if not moving:
        return
    rows = ((topic.topic, row) for topic in request.topics for row in topic.partitions)
    pairs = ((TopicPartition(topic, row.partition), row.delete) for topic, row in rows)
    asked = [topic_partition for topic_partition, delete in pairs if delete and topic_partition in moving]
    if not asked:
        return
    if event.response.error != ErrorCode.NONE:
        verdicts: dict[TopicPartition, str | None] = dict.fromkeys(asked, error_name(event.response.error))
    else:
        verdicts = dict.fromkeys(asked, NOT_LISTED)
        for topic, number, error in event.response.rows:
            topic_partition = TopicPartition(topic, number)
            if topic_partition in verdicts:
                verdicts[topic_partition] = None if error == ErrorCode.NONE else error_name(error)
    reassignment_end.answered(step, event.broker, verdicts)


def _asked_to_delete(
    context: Context, event: StopReplicaResponseReceived, request: StopReplicaRequest
) -> dict[str, Bits]:
    """Return the replicas that this request was to delete and that are not settled otherwise, by topic."""
    found: dict[str, Bits] = {}
    for topic in request.topics:
        known = context.cluster.topics.get(topic.topic)
        if known is None or not context.cluster.is_queued(topic.topic):
            continue
        started = known.in_states(event.broker, (ReplicaState.DELETION_STARTED,))
        overtaken = known.announced(event.broker, lambda it: it.request_id >= event.request_id)
        # Replicas that were announced after this request was sent: the request was then for an earlier topic of that
        # name, or was repeated, and the answer to the later one counts. Counting this answer as a failure could repeat
        # both requests without end.
        if asked := bits_of(row.partition for row in topic.partitions if row.delete) & started & ~overtaken:
            found[topic.topic] = asked
    return found


def _record(
    step: StepContext,
    event: StopReplicaResponseReceived,
    request_id: int,
    succeeded: ReplicaColumns,
    failed: Mapping[PartitionReplica, str],
) -> None:
    rows = [(name, ErrorCode.NONE.name, columns[event.broker]) for name, columns in succeeded.items()]
    by_problem: dict[tuple[str, str], Bits] = {}
    for replica, problem in failed.items():
        key = (replica.topic, problem)
        by_problem[key] = by_problem.get(key, 0) | 1 << replica.partition
    rows += [(name, problem, bits) for (name, problem), bits in by_problem.items()]
    for topic, result, bits in rows:
        step.record(
            EventRecordType.ACK,
            f"topic/{topic}",
            topic_id=step.id_of(topic),
            broker=event.broker,
            broker_epoch=event.broker_epoch,
            request_id=request_id,
            partitions=ranges_of(bits),
            result=result,
            **(_ACKNOWLEDGED if result == ErrorCode.NONE.name else {}),
        )
