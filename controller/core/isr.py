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
from lethe.controller.core.agenda_reassignment import ProgressReassignments
from lethe.controller.core.agenda_requests import (
    AlterPartitions,
    DropStrangers,
    IsrsAltered,
    RefreshStates,
    StatesRefreshed,
)
from lethe.controller.core.context import Context
from lethe.controller.core.leadership import is_stale, set_state, take_in_state, with_next_version
from lethe.controller.core.mutation import set_leadership
from lethe.controller.core.topic import Partition
from lethe.controller.core.turn import Turn
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


def alter(turn: Turn, task: AlterPartitions) -> None:
    """Check every partition of the request, and write the accepted ISRs in one write."""
    context = turn.context
    request = requests.asked(context, task.key, AlterPartitionRequest)
    version = context.cluster.unanswered[task.key].version
    problem = _problem(context, request)
    if problem is not None:
        turn.refuse(f"broker/{request.broker_id}", "altering ISRs", error_name(problem))
        requests.answer(turn, task.key, AlterPartitionResponse(problem))
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
        turn.write(groups, plan)
    else:
        altered(turn, plan, ())


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
    current = None if partition is None else partition.leadership
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


def altered(turn: Turn, task: IsrsAltered, outcomes: Sequence[GroupOutcome]) -> None:
    """Store the written states, announce them and answer; read states again that others have written."""
    context = turn.context
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
            set_leadership(context.cluster, topic_partition, now)
            continue
        verdicts[topic_partition] = _error_of(outcome)
        if is_stale(outcome):
            stale.append(topic_partition)
    request = requests.asked(context, task.key, AlterPartitionRequest)
    version = context.cluster.unanswered[task.key].version
    _record_refusals(turn, request.broker_id, verdicts)
    response = _response(context, request, version, verdicts)
    _tell_everybody(turn, task.partitions)
    _move_on(turn, task.partitions)
    if stale:
        turn.do(RefreshStates(tuple(stale)))
    if task.written:
        turn.reply(task.key, response)
    else:
        requests.answer(turn, task.key, response)


def _error_of(outcome: GroupOutcome) -> ErrorCode:
    match outcome:
        case GroupFailed(error=ZkError.BAD_VERSION):
            return ErrorCode.INVALID_UPDATE_VERSION
        case GroupFailed(error=ZkError.NO_NODE):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        case _:
            return ErrorCode.UNKNOWN_SERVER_ERROR


def _record_refusals(turn: Turn, broker: BrokerId, verdicts: dict[TopicPartition, Verdict]) -> None:
    refused: dict[ErrorCode, list[TopicPartition]] = {}
    for topic_partition, verdict in verdicts.items():
        if isinstance(verdict, ErrorCode):
            refused.setdefault(verdict, []).append(topic_partition)
    for error, partitions in refused.items():
        turn.refuse_partitions(partitions, f"altering the ISR as broker {broker} asked", error.name)


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


def refresh(turn: Turn, task: RefreshStates) -> None:
    """Read the states of these partitions in one read, except those of queued topics."""
    cluster = turn.context.cluster
    partitions = tuple(
        tp for tp in task.partitions if cluster.partition(tp) is not None and not cluster.is_queued(tp.topic)
    )
    if partitions:
        turn.read((GetData(paths.partition_state(*tp)) for tp in partitions), StatesRefreshed(partitions))


def refreshed(turn: Turn, task: StatesRefreshed, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the states, and send them to all brokers."""
    context = turn.context
    for topic_partition, outcome in zip(task.partitions, outcomes, strict=True):
        problem = take_in_state(context, topic_partition, outcome)
        if problem is not None:
            turn.refuse(f"partition/{topic_partition}", "reading its state again", problem)
    _tell_everybody(turn, task.partitions)
    _move_on(turn, task.partitions)
    turn.do(DropStrangers(task.partitions))


def _move_on(turn: Turn, partitions: Iterable[TopicPartition]) -> None:
    """Continue reassignments of these partitions: all their targets may be in the ISR now."""
    moving = tuple(tp for tp in partitions if tp in turn.context.cluster.reassignments)
    if moving:
        turn.do(ProgressReassignments(moving))


def _tell_everybody(turn: Turn, partitions: Iterable[TopicPartition]) -> None:
    """Send UpdateMetadata for those of these partitions that are in service, if any."""
    cluster = turn.context.cluster
    told = [tp for tp in partitions if cluster.partition(tp) is not None and not cluster.is_queued(tp.topic)]
    if told:
        batch = turn.batch()
        batch.add_update_metadata(cluster.brokers, told)
        turn.flush(batch)
