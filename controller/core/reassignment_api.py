"""Clients' requests about reassignments: AlterPartitionReassignments and ListPartitionReassignments (KIP-455).

`reassignment` does the work, as for `/admin/reassign_partitions`. The answer comes when the topics' znodes have the new
targets, before the replicas are copied.

    row                                                        result
    ---------------------------------------------------------  -----------------------------------------------------
    replicas                                                   a reassignment to them, also in place of another one:
                                                               the origin stays the same
    null                                                       the origin is the target again, with the replicas that
                                                               the target had too at the front, as in Kafka
    null, nothing moves                                        NO_REASSIGNMENT_IN_PROGRESS
    null, the target leads                                     the same: the former replicas are being deleted
    no replicas, repeated, negative or dead brokers            INVALID_REPLICA_ASSIGNMENT, in Kafka's words
    a controller among the replicas                            the same, in our words
    the replicas to be deleted would be the only ones with     the same; Kafka deletes them. The znode's entries are
    all records                                                held until the ISR has another one
    another number of replicas than the policy allows          POLICY_VIOLATION (`topic_policy`)
    unknown or queued topic, unknown partition                 UNKNOWN_TOPIC_OR_PARTITION

The later request wins: entries of the znode for the same partitions are removed first, as Kafka does, because the next
controller would follow them again. While a topic in the znode is being removed, it must not be written
(`reassignment_requests`): the request waits for the outcome.

Listed is what the topics' znodes say. A reassignment ends there when brokers have deleted what was moved away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from lethe.controller.core import requests
from lethe.controller.core.context import Context
from lethe.controller.core.reassignment import WOULD_LOSE_RECORDS, start_write, would_lose_records
from lethe.controller.core.reassignment_requests import controller_among, write_requested
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_clients import (
    NO_PARTITION,
    AlteredRows,
    AlterReassignments,
    AnswerAlterReassignments,
    ListReassignments,
    RefusedPartition,
    SupersededRead,
    SupersededRemoved,
)
from lethe.controller.core.tasks_reassignment import StartReassignments, Target
from lethe.protocol.client_rows import RowRefused, check_size
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MovingPartition,
    MovingTopic,
    named_partitions,
    topic_outcomes,
)
from lethe.protocol.kafka.errors import UNEXPECTED, ErrorCode
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Data, Exists, GetData, Present, Read, ReadOutcome, ZkError, read_error
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

_WHAT = "altering reassignments as a client requested"
_NOTHING_MOVES = RefusedPartition(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
_HAS_ARRIVED = RefusedPartition(
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    "The partition has its target replicas, and the former ones are being deleted.",
)
_NOT_WRITTEN = RefusedPartition(ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)


# --- altering -----------------------------------------------------------------------------------------------------


def alter(step: StepContext, task: AlterReassignments) -> None:
    """Check each partition of the request; read the entries of the znode that the accepted ones replace, and whether
    their topics are there: a partition that has its replicas already gets no write that would find out."""
    context = step.context
    request = requests.asked(context, task.key, AlterPartitionReassignmentsRequest)
    rows = _judged(context, request)
    if rows.targets:
        topics = _topics(rows)
        reads: list[Read] = [GetData(paths.reassign_partitions()), *(Exists(paths.topic(name)) for name in topics)]
        step.read(reads, SupersededRead(task.key, rows))
    else:
        step.do(AnswerAlterReassignments(task.key, rows))


def _topics(rows: AlteredRows) -> tuple[str, ...]:
    return tuple(dict.fromkeys(target.topic_partition.topic for target in rows.targets))


def _judged(context: Context, request: AlterPartitionReassignmentsRequest) -> AlteredRows:
    targets: dict[str, list[Target]] = {}
    refused: dict[TopicPartition, RefusedPartition] = {}
    for topic_partition, replicas in _asked(request).items():
        judged = _judge(context, topic_partition, replicas)
        if isinstance(judged, Target):
            targets.setdefault(topic_partition.topic, []).append(judged)
        else:
            refused[topic_partition] = judged
    for topic, mine in list(targets.items()):
        try:
            check_size((start_write(context, topic, mine),))
        except RowRefused as problem:
            refused |= {each.topic_partition: RefusedPartition(problem.error, problem.message) for each in mine}
            del targets[topic]
    return AlteredRows(tuple(chain.from_iterable(targets.values())), refused)


def _asked(request: AlterPartitionReassignmentsRequest) -> dict[TopicPartition, tuple[int, ...] | None]:
    """Return the rows of the request; of a partition that it names twice, the last one, as in Kafka."""
    return {TopicPartition(topic, row.partition): row.replicas for topic, rows in request.topics for row in rows}


def _judge(
    context: Context, topic_partition: TopicPartition, replicas: tuple[int, ...] | None
) -> Target | RefusedPartition:
    """Return the target of a partition, or why it gets none. The order of the checks is Kafka's."""
    cluster = context.cluster
    partition = cluster.partition(topic_partition)
    if replicas is not None:
        assigned = () if partition is None else partition.assignment.origin
        problem = _problem(context, replicas, assigned)
        if problem is not None:
            return RefusedPartition(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    elif partition is None or not partition.assignment.is_being_reassigned:
        return _HAS_ARRIVED if topic_partition in cluster.reassignments else _NOTHING_MOVES
    if partition is None or cluster.is_queued(topic_partition.topic):
        return NO_PARTITION
    target = partition.assignment.origin if replicas is None else replicas
    problem = controller_among(context, target)
    if problem is None and would_lose_records(partition, partition.assignment.reassign_to(target)):
        problem = WOULD_LOSE_RECORDS
    if problem is not None:
        return RefusedPartition(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    if len(target) != len(partition.assignment.origin):
        problem = context.config.topic_policy.of_replication_factor(topic_partition.topic, len(target))
        if problem is not None:
            return RefusedPartition(ErrorCode.POLICY_VIOLATION, problem)
    return Target(topic_partition, target)


def _problem(context: Context, replicas: tuple[int, ...], origin: tuple[int, ...]) -> str | None:
    """Return what Kafka says of replicas that it does not accept, or None. It writes lists as Scala does."""
    if not replicas:
        return "Empty replica list specified in partition reassignment."
    if len(frozenset(replicas)) != len(replicas):
        return f"Duplicate replica ids in partition reassignment replica list: {_as_scala('ArrayBuffer', replicas)}"
    if any(replica < 0 for replica in replicas):
        return f"Invalid broker id in replica list: {_as_scala('ArrayBuffer', replicas)}"
    adding = tuple(replica for replica in replicas if replica not in origin)
    cluster = context.cluster
    if all(cluster.is_live(replica) for replica in adding):
        return None
    live = sorted(broker for broker in cluster.brokers if cluster.is_live(broker))
    return (
        "Replica assignment has brokers that are not alive. Replica list: "
        f"{_as_scala('ArrayBuffer', adding)}, live broker list: {_as_scala('Set', live)}"
    )


def _as_scala(kind: str, brokers: Iterable[int]) -> str:
    return f"{kind}({', '.join(map(str, brokers))})"


def on_superseded_read(step: StepContext, task: SupersededRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Remove the entries of these partitions, then start; wait while a topic of the list is being removed."""
    topics = _topics(task.rows)
    for path, found in zip((paths.reassign_partitions(), *map(paths.topic, topics)), outcomes, strict=True):
        if (error := read_error(found)) is not None:
            _give_up(step, task.key, task.rows, f"reading {path}: {error.name}")
            return
    outcome, *found_topics = outcomes
    gone = frozenset(name for name, found in zip(topics, found_topics, strict=True) if not isinstance(found, Present))
    rows = _without(gone, task.rows) if gone else task.rows
    if not rows.targets:
        step.do(AnswerAlterReassignments(task.key, rows))
        return
    asked = _requested(outcome)
    accepted = frozenset(target.topic_partition for target in rows.targets)
    left = {topic_partition: replicas for topic_partition, replicas in asked.items() if topic_partition not in accepted}
    removals = step.context.cluster.removals
    if len(left) == len(asked) or not isinstance(outcome, Data):
        _start(step, task.key, rows)
    elif any(topic_partition.topic in removals.under_way for topic_partition in asked):
        removals.alterations.append(task.key)
    else:
        step.write([(write_requested(left, outcome.stat.version),)], SupersededRemoved(task.key, rows))


def _without(topics: frozenset[str], rows: AlteredRows) -> AlteredRows:
    """Return the rows with the targets of these topics refused: their znodes are gone."""
    kept = tuple(target for target in rows.targets if target.topic_partition.topic not in topics)
    gone = {each.topic_partition: NO_PARTITION for each in rows.targets if each.topic_partition.topic in topics}
    return AlteredRows(kept, {**rows.refused, **gone})


def _requested(outcome: ReadOutcome) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the entries of the znode. One that cannot be understood has none: its own reader removes it."""
    try:
        return dict(znodes.decode_reassignment(outcome.data)) if isinstance(outcome, Data) else {}
    except znodes.MalformedZnode:
        return {}


def on_superseded_removed(step: StepContext, task: SupersededRemoved, outcome: GroupOutcome) -> None:
    """Start the reassignments; after a conflict, look at the request and the znode again."""
    if isinstance(outcome, GroupDone):
        _start(step, task.key, task.rows)
    elif isinstance(outcome, GroupFailed) and outcome.error in (ZkError.BAD_VERSION, ZkError.NO_NODE):
        step.do(AlterReassignments(task.key))
    else:
        why = outcome.error.name if isinstance(outcome, GroupFailed) else "not known"
        _give_up(step, task.key, task.rows, f"shortening {paths.reassign_partitions()}: {why}")


def _give_up(step: StepContext, key: int, rows: AlteredRows, why: str) -> None:
    for target in rows.targets:
        step.refuse(f"partition/{target.topic_partition}", _WHAT, why)
    refused = {target.topic_partition: _NOT_WRITTEN for target in rows.targets}
    step.do(AnswerAlterReassignments(key, AlteredRows((), {**rows.refused, **refused})))


def _start(step: StepContext, key: int, rows: AlteredRows) -> None:
    for target in rows.targets:
        known = step.context.cluster.reassignments.get(target.topic_partition)
        if known is not None:
            # It was for the entry of the znode that this request replaces.
            known.held_target = None
    step.do(StartReassignments(rows.targets, may_wait=False), AnswerAlterReassignments(key, rows))


def answer(step: StepContext, task: AnswerAlterReassignments) -> None:
    """Answer with each partition once, in the order of the request."""
    context = step.context
    request = requests.asked(context, task.key, AlterPartitionReassignmentsRequest)
    targets = dict(task.rows.targets)
    rows: list[tuple[TopicPartition, int, str | None]] = []
    for topic_partition in _asked(request):
        refused = task.rows.refused.get(topic_partition)
        if refused is None:
            refused = _failure(context, topic_partition, targets[topic_partition])
        rows.append((topic_partition, *((ErrorCode.NONE, None) if refused is None else refused)))
    requests.answer(step, task.key, AlterPartitionReassignmentsResponse(topic_outcomes(rows)))


def _failure(context: Context, topic_partition: TopicPartition, target: tuple[int, ...]) -> RefusedPartition | None:
    """Return why the target was not written, or None. Memory has it only after the write has succeeded."""
    partition = context.cluster.partition(topic_partition)
    if partition is None or context.cluster.is_queued(topic_partition.topic):
        return NO_PARTITION
    return None if partition.assignment.target == target else _NOT_WRITTEN


# --- listing ------------------------------------------------------------------------------------------------------


def list_reassignments(step: StepContext, task: ListReassignments) -> None:
    """Answer with the reassignments in progress: all, or those of the named partitions."""
    request = requests.asked(step.context, task.key, ListPartitionReassignmentsRequest)
    topics: dict[str, list[MovingPartition]] = {}
    for topic, row in _moving(step.context, request):
        topics.setdefault(topic, []).append(row)
    rows = tuple(MovingTopic(name, tuple(mine)) for name, mine in topics.items())
    requests.answer(step, task.key, ListPartitionReassignmentsResponse(rows))


def _moving(context: Context, request: ListPartitionReassignmentsRequest) -> Iterator[tuple[str, MovingPartition]]:
    moving = context.cluster.reassignments
    for topic_partition in moving if request.topics is None else named_partitions(request.topics):
        known = moving.get(topic_partition)
        if known is not None and known.written.is_being_reassigned:
            yield topic_partition.topic, MovingPartition(topic_partition.partition, *known.written)
