"""ISR changes that leaders report.

A leader of protocol 2.7-IV2 or later sends AlterPartition. The controller checks each partition in memory, in Kafka's
order of precedence, and writes the accepted ones in one write. Each write expects the partition epoch (the znode's
version) that the leader has sent. Verdicts without a write are answered after a fenced check that this controller is
still active. Leaders of older protocols write the state themselves and leave a notification: then the states are read
again.

The controller refuses more than Kafka's: a sender that is not the leader, an ISR without its leader, a replica that is
not assigned, and partitions of queued topics, which have no leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lethe.controller.core import requests
from lethe.controller.core.context import Context
from lethe.controller.core.leader_changes import take_in_state
from lethe.controller.core.mutation import set_leader_and_isr
from lethe.controller.core.partition_sets import by_topic, partition_columns
from lethe.controller.core.state_writes import is_stale, set_state, with_next_version
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_reassignment import ProgressReassignments
from lethe.controller.core.tasks_requests import (
    AlterPartitions,
    IsrsAltered,
    RefreshStates,
    RemoveForeignIsrMembers,
    StatesRefreshed,
)
from lethe.controller.core.topic import Partition
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.to_controller import (
    AlteredPartition,
    AlteredTopic,
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
)
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, RecoveryState, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import GetData, Operation, ReadOutcome, ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

FIRST_ALTER_PARTITION_WITH_TOPIC_IDS = 2

Verdict = LeaderAndIsr | ErrorCode
"""The partition's state, or the error that refuses the request for it."""


# --- AlterPartition -----------------------------------------------------------------------------------------------


def alter(step: StepContext, task: AlterPartitions) -> None:
    """Check every partition of the request, and write the accepted ISRs in one write."""
    context = step.context
    request = requests.asked(context, task.key, AlterPartitionRequest)
    version = context.cluster.unanswered[task.key].version
    problem = _problem(context, request)
    if problem is not None:
        step.refuse(f"broker/{request.broker_id}", "altering ISRs", error_name(problem))
        requests.answer(step, task.key, AlterPartitionResponse(problem))
        return
    partitions: list[TopicPartition] = []
    verdicts: list[Verdict | None] = []
    written: list[LeaderAndIsr] = []
    groups: list[tuple[Operation, ...]] = []
    for topic_partition, wanted in _asked(context, request, version):
        verdict = _verdict(context, request.broker_id, topic_partition, wanted, version)
        if verdict is None:
            state = LeaderAndIsr(
                request.broker_id,
                wanted.leader_epoch,
                wanted.new_isr,
                context.cluster.epoch,
                wanted.partition_epoch,
                wanted.recovery_state,
            )
            written.append(state)
            groups.append(set_state(topic_partition, state))
        partitions.append(topic_partition)
        verdicts.append(verdict)
    plan = IsrsAltered(task.key, tuple(partitions), tuple(verdicts), tuple(written))
    if groups:
        step.write(groups, plan)
    else:
        on_isrs_altered(step, plan, ())


def _problem(context: Context, request: AlterPartitionRequest) -> ErrorCode | None:
    """Return the error that refuses the request as a whole, or None."""
    broker = context.cluster.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    states = (wanted.recovery_state for topic in request.topics for wanted in topic.partitions)
    if any(state not in (RecoveryState.RECOVERED, RecoveryState.RECOVERING) for state in states):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return None


def _asked(
    context: Context, request: AlterPartitionRequest, version: int
) -> Iterator[tuple[TopicPartition, AlterPartition]]:
    """Yield the known partitions of the request; for a partition named twice, the last entry."""
    names = _names(context, request, version)
    rows: dict[TopicPartition, AlterPartition] = {}
    for topic in request.topics:
        name = _name(topic, names, version)
        if name is not None:
            rows.update((TopicPartition(name, wanted.partition), wanted) for wanted in topic.partitions)
    yield from rows.items()


Names = dict[object, str]


def _names(context: Context, request: AlterPartitionRequest, version: int) -> Names:
    """Return the names of the request's topics by topic id."""
    if version < FIRST_ALTER_PARTITION_WITH_TOPIC_IDS:
        return {}
    wanted = frozenset(topic.topic_id for topic in request.topics)
    return {
        topic.id: name for name, topic in context.cluster.topics.items() if topic.id is not None and topic.id in wanted
    }


def _name(topic: AlterPartitionTopic, names: Names, version: int) -> str | None:
    return topic.topic if version < FIRST_ALTER_PARTITION_WITH_TOPIC_IDS else names.get(topic.topic_id)


def _verdict(
    context: Context, broker: BrokerId, topic_partition: TopicPartition, wanted: AlterPartition, version: int
) -> Verdict | None:
    """Return the verdict without a write, or None: the ISR may be written. The first matching rule decides."""
    partition = context.cluster.partition(topic_partition)
    current = None if partition is None else partition.leader_and_isr
    if partition is None or current is None or context.cluster.is_queued(topic_partition.topic):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if wanted.partition_epoch > current.partition_epoch or wanted.leader_epoch > current.leader_epoch:
        # The leader has a later state than this controller: another controller must be active.
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    is_there_already = (broker, wanted.new_isr, wanted.recovery_state) == (
        current.leader,
        current.isr,
        current.recovery_state,
    )
    if is_there_already:
        return current
    if wanted.partition_epoch < current.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return _impossible(context, broker, partition, current, wanted, version)


def _impossible(
    context: Context,
    broker: BrokerId,
    partition: Partition,
    current: LeaderAndIsr,
    wanted: AlterPartition,
    version: int,
) -> ErrorCode | None:
    """Return the error in the proposed ISR itself, or None. The leader has the present state."""
    recovering = wanted.recovery_state == RecoveryState.RECOVERING
    if recovering and (len(wanted.new_isr) > 1 or current.recovery_state == RecoveryState.RECOVERED):
        return ErrorCode.INVALID_REQUEST
    if current.leader != broker or broker not in wanted.new_isr:
        return ErrorCode.INVALID_REQUEST
    if any(b not in partition.assignment.replicas or not context.cluster.is_live(b) for b in wanted.new_isr):
        has_error = version >= FIRST_ALTER_PARTITION_WITH_TOPIC_IDS
        return ErrorCode.INELIGIBLE_REPLICA if has_error else ErrorCode.OPERATION_NOT_ATTEMPTED
    return None


def on_isrs_altered(step: StepContext, task: IsrsAltered, outcomes: Sequence[GroupOutcome]) -> None:
    """Store the written states, announce them and answer; read states again that others have written."""
    context = step.context
    results = iter(zip(task.written, outcomes, strict=True))
    verdicts: dict[TopicPartition, Verdict] = {}
    stale: list[TopicPartition] = []
    for topic_partition, verdict in zip(task.partitions, task.verdicts, strict=True):
        if verdict is not None:
            verdicts[topic_partition] = verdict
            continue
        state, outcome = next(results)
        if isinstance(outcome, GroupDone):
            verdicts[topic_partition] = now = with_next_version(state)
            set_leader_and_isr(context.cluster, topic_partition, now)
            continue
        verdicts[topic_partition] = _error_of(outcome)
        if is_stale(outcome):
            stale.append(topic_partition)
    request = requests.asked(context, task.key, AlterPartitionRequest)
    version = context.cluster.unanswered[task.key].version
    _record_refusals(step, request.broker_id, verdicts)
    response = _response(context, request, version, verdicts)
    _tell_everybody(step, task.partitions)
    _move_on(step, task.partitions)
    if stale:
        step.do(RefreshStates(tuple(stale)))
    if task.written:
        step.reply(task.key, response)
    else:
        requests.answer(step, task.key, response)


def _error_of(outcome: GroupOutcome) -> ErrorCode:
    match outcome:
        case GroupFailed(error=ZkError.BAD_VERSION):
            return ErrorCode.INVALID_UPDATE_VERSION
        case GroupFailed(error=ZkError.NO_NODE):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        case _:
            return ErrorCode.UNKNOWN_SERVER_ERROR


def _record_refusals(step: StepContext, broker: BrokerId, verdicts: dict[TopicPartition, Verdict]) -> None:
    refused: dict[ErrorCode, list[TopicPartition]] = {}
    for topic_partition, verdict in verdicts.items():
        if isinstance(verdict, ErrorCode):
            refused.setdefault(verdict, []).append(topic_partition)
    for error, partitions in refused.items():
        step.refuse_partitions(by_topic(partitions), f"altering the ISR as broker {broker} asked", error.name)


def _response(
    context: Context, request: AlterPartitionRequest, version: int, verdicts: dict[TopicPartition, Verdict]
) -> AlterPartitionResponse:
    """Return the response, with one row for each partition of the request, in its order."""
    names = _names(context, request, version)
    topics = []
    for topic in request.topics:
        name = _name(topic, names, version)
        numbers = dict.fromkeys(wanted.partition for wanted in topic.partitions)
        if name is None:
            rows = tuple(AlteredPartition(number, ErrorCode.UNKNOWN_TOPIC_ID) for number in numbers)
        else:
            rows = tuple(_row(number, verdicts[TopicPartition(name, number)]) for number in numbers)
        topics.append(AlteredTopic(topic.topic, topic.topic_id, rows))
    return AlterPartitionResponse(ErrorCode.NONE, tuple(topics))


def _row(number: int, verdict: Verdict) -> AlteredPartition:
    if isinstance(verdict, ErrorCode):
        return AlteredPartition(number, verdict)
    leader, leader_epoch, isr, _, partition_epoch, recovery_state = verdict
    return AlteredPartition(number, ErrorCode.NONE, leader, leader_epoch, isr, recovery_state, partition_epoch)


# --- what leaders wrote themselves --------------------------------------------------------------------------------


def refresh(step: StepContext, task: RefreshStates) -> None:
    """Read the states of these partitions in one read, except those of queued topics."""
    cluster = step.context.cluster
    partitions = tuple(
        tp for tp in task.partitions if cluster.partition(tp) is not None and not cluster.is_queued(tp.topic)
    )
    if partitions:
        step.read((GetData(paths.partition_state(*tp)) for tp in partitions), StatesRefreshed(partitions))


def on_states_refreshed(step: StepContext, task: StatesRefreshed, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the states, and send them to all brokers."""
    context = step.context
    for topic_partition, outcome in zip(task.partitions, outcomes, strict=True):
        problem = take_in_state(context, topic_partition, outcome)
        if problem is not None:
            step.refuse(f"partition/{topic_partition}", "reading its state again", problem)
    _tell_everybody(step, task.partitions)
    _move_on(step, task.partitions)
    step.do(RemoveForeignIsrMembers(task.partitions))


def _move_on(step: StepContext, partitions: Iterable[TopicPartition]) -> None:
    """Continue reassignments of these partitions: all their targets may be in the ISR now."""
    moving = tuple(tp for tp in partitions if tp in step.context.cluster.reassignments)
    if moving:
        step.do(ProgressReassignments(moving))


def _tell_everybody(step: StepContext, partitions: Iterable[TopicPartition]) -> None:
    """Send UpdateMetadata for those of these partitions that are in service, if any."""
    cluster = step.context.cluster
    told = [tp for tp in partitions if cluster.partition(tp) is not None and not cluster.is_queued(tp.topic)]
    if told:
        batch = step.batch()
        batch.add_update_metadata(cluster.brokers, partition_columns(told))
        step.flush(batch)
