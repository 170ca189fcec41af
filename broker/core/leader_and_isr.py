"""LeaderAndIsr: which replicas this broker takes up, with Kafka 3.9's errors per partition.

Per partition, the first rule that applies:

    situation                                                        answer
    its name cannot be a directory's                                 INVALID_TOPIC_EXCEPTION
    named before in the same request                                 INVALID_REQUEST
    hosted, but in an offline log directory                          KAFKA_STORAGE_ERROR
    the directory is another incarnation's (broker.core.identity)    INCONSISTENT_TOPIC_ID, or it is quarantined
      ... a debt's compare, and some log directory is offline        KAFKA_STORAGE_ERROR: its replica may be there
    it is ambiguous which of its directories it is                   KAFKA_STORAGE_ERROR, INCONSISTENT_TOPIC_ID without
      (broker.core.duplicates)                                         a leader; nothing is touched
    leader epoch above ours (-1 where not hosted)                    taken up, NONE
      ... but this broker is not in the replica list                 UNKNOWN_TOPIC_OR_PARTITION
      ... but the partition epoch is below ours                      ignored, NONE
      ... not new, nothing on disk, some log directory offline       KAFKA_STORAGE_ERROR, nothing is created
      ... not new, nothing on disk, perhaps a debt's compare         NONE, nothing is created: no debt is left
    leader epoch below ours                                          STALE_CONTROLLER_EPOCH
    leader epoch ours, and only the request has a topic id           id written, NONE
    leader epoch ours, only the directory has one, follower          NONE
    leader epoch ours, otherwise                                     STALE_CONTROLLER_EPOCH

The work on disk is done in two rounds, so that nothing is created if a quarantine has failed: the first round
quarantines; the second creates, identifies and, if this broker leads, fills. A follower's replica stays empty
until it has caught up (broker.core.catch_up). A replica is hosted only after its round is known to have succeeded.
"""

from __future__ import annotations

from dataclasses import replace

from lethe.broker.core.duplicates import decide, forget, to_quarantine
from lethe.broker.core.effects import (
    AssignTopicId,
    CreateReplica,
    DiskOperation,
    Effect,
    FillReplica,
    PerformDisk,
    QuarantineDirectory,
    Reply,
)
from lethe.broker.core.identity import OpenVerdict, judge_opening
from lethe.broker.core.inputs import DiskOutcome
from lethe.broker.core.records import count_errors, record_answers, record_problem
from lethe.broker.core.replica import NO_CURRENT_LEADER_EPOCH, Replica, ReplicaState
from lethe.broker.core.roles import begin_role
from lethe.broker.core.stages import LeaderAndIsrStage, Opening
from lethe.broker.core.state import AgentState
from lethe.broker.core.storage import choose_log_dir, fail_log_dir, keep_stray, offline_replica
from lethe.protocol.kafka.control import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    TopicIdError,
)
from lethe.protocol.kafka.directory_names import partition_problem, stray_name
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import TopicPartition


def begin(state: AgentState, token: int, request: LeaderAndIsrRequest) -> list[Effect]:
    """Judge every partition. Start the first round, or answer at once if there is nothing to do on disk."""
    effects: list[Effect] = []
    errors: list[int] = []
    openings: list[Opening] = []
    seen: set[TopicPartition] = set()
    for topic in request.topics:
        _remember_incarnation(state, topic)
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.topic, partition.partition)
            if topic_partition in seen:
                errors.append(ErrorCode.INVALID_REQUEST)
                continue
            seen.add(topic_partition)
            if topic_partition not in state.replicas and (problem := partition_problem(topic_partition)):
                effects.append(record_problem(state, "LEADER_AND_ISR", topic_partition, problem))
                errors.append(ErrorCode.INVALID_TOPIC_EXCEPTION)
                continue
            if problem := _ambiguity(state, topic_partition, topic, partition):
                effects.append(record_problem(state, "LEADER_AND_ISR", topic_partition, problem))
                errors.append(_incarnation_unknown_error(partition))
                continue
            verdict = _judge(state, topic_partition, topic, partition)
            if isinstance(verdict, OpenVerdict):
                openings.append(Opening(len(errors), topic_partition, topic.topic_id, partition, verdict))
                errors.append(ErrorCode.NONE)
            else:
                errors.append(verdict)
    stage = LeaderAndIsrStage(token, request, tuple(errors), tuple(openings), (), (), setting_aside=True)
    return effects + _quarantine_round(state, stage)


def resume(state: AgentState, stage: LeaderAndIsrStage, outcomes: tuple[DiskOutcome, ...]) -> list[Effect]:
    """Go on after a round on disk."""
    if stage.setting_aside:
        return _after_quarantine(state, stage, outcomes)
    return _after_creation(state, stage, outcomes)


# --- judging ------------------------------------------------------------------------------------------------------


def _remember_incarnation(state: AgentState, topic: LeaderAndIsrTopic) -> None:
    if topic.topic_id is None:
        state.forget_incarnation(topic.topic)
        return
    compared = [partition.partition for partition in topic.partitions if _is_compare(state, partition)]
    if compared:
        state.compared.setdefault(topic.topic, {}).update(dict.fromkeys(compared, topic.topic_id))
    if len(compared) < len(topic.partitions):
        state.incarnations[topic.topic] = topic.topic_id


def _ambiguity(
    state: AgentState, topic_partition: TopicPartition, topic: LeaderAndIsrTopic, partition: LeaderAndIsrPartition
) -> str | None:
    """Return why the request does not identify one of several directories; None puts that one into `replicas`."""
    if state.settings.broker_id not in partition.replicas:
        return None
    counts_on_bytes = _counts_on_bytes(state, partition)
    has_leader = partition.leader >= 0
    return decide(state, topic_partition, topic.topic_id, counts_on_bytes=counts_on_bytes, has_leader=has_leader)


def _incarnation_unknown_error(partition: LeaderAndIsrPartition) -> ErrorCode:
    return ErrorCode.KAFKA_STORAGE_ERROR if partition.leader >= 0 else ErrorCode.INCONSISTENT_TOPIC_ID


def _counts_on_bytes(state: AgentState, partition: LeaderAndIsrPartition) -> bool:
    """Whether the cluster relies on the bytes that this broker stores of the partition."""
    broker_id = state.settings.broker_id
    return broker_id not in partition.replicas or (broker_id in partition.isr and not partition.is_new)


def _is_compare(state: AgentState, partition: LeaderAndIsrPartition) -> bool:
    """Whether a controller may ask so about a debt: the partition has no leader, and nothing but a replica here, in
    sync."""
    alone = (state.settings.broker_id,)
    return partition.leader < 0 and partition.replicas == alone and partition.isr == alone


def _judge(
    state: AgentState, topic_partition: TopicPartition, topic: LeaderAndIsrTopic, partition: LeaderAndIsrPartition
) -> OpenVerdict | ErrorCode:
    """How to open the partition, or the error (NONE: there is nothing to do)."""
    replica = state.replicas.get(topic_partition)
    broker_id = state.settings.broker_id
    is_member = broker_id in partition.replicas
    identity = OpenVerdict.OPEN
    if replica is not None:
        if replica.state is ReplicaState.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR
        counts_on_bytes = _counts_on_bytes(state, partition)
        is_new = partition.is_new and is_member
        identity = judge_opening(replica, topic.topic_id, counts_on_bytes=counts_on_bytes, is_new=is_new)
        if identity is OpenVerdict.INCONSISTENT:
            may_be_there = state.has_offline_log_dir and _is_compare(state, partition)
            return ErrorCode.KAFKA_STORAGE_ERROR if may_be_there else ErrorCode.INCONSISTENT_TOPIC_ID
        if identity is OpenVerdict.ASSIGN_ID and state.has_offline_log_dir and _may_be_foreign(replica, partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
    hosted = replica is not None and replica.state is ReplicaState.HOSTED and identity is not OpenVerdict.REPLACE
    current_epoch = replica.leader_epoch if replica is not None and hosted else NO_CURRENT_LEADER_EPOCH
    if partition.leader_epoch > current_epoch:
        if not is_member:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if replica is not None and hosted and partition.partition_epoch < replica.partition_epoch:
            return ErrorCode.NONE
        if replica is None and not partition.is_new and state.has_offline_log_dir:
            state.put_replica(topic_partition, offline_replica(topic_partition, state))
            return ErrorCode.KAFKA_STORAGE_ERROR
        if replica is None and not partition.is_new and _is_compare(state, partition):
            return ErrorCode.NONE
        return identity
    if partition.leader_epoch < current_epoch or replica is None or not hosted:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    if topic.topic_id is not None and replica.topic_id is None:
        return OpenVerdict.ASSIGN_ID
    if topic.topic_id is None and replica.topic_id is not None and partition.leader != broker_id:
        return ErrorCode.NONE
    return ErrorCode.STALE_CONTROLLER_EPOCH


def _may_be_foreign(replica: Replica, partition: LeaderAndIsrPartition) -> bool:
    """Whether a directory without an id, not opened in this run, may be a foreign copy, with the replica itself in a
    failed log directory. False for a new partition. Bytes that a living partition counts on are trusted; those of a
    partition without a leader may be deleted next."""
    if replica.state is ReplicaState.HOSTED or partition.is_new:
        return False
    return replica.files == 0 or partition.leader < 0


# --- first round: quarantining -----------------------------------------------------------------------------------


def _quarantine_round(state: AgentState, stage: LeaderAndIsrStage) -> list[Effect]:
    operations: list[DiskOperation] = []
    performed_for: list[int] = []
    for index, opening in enumerate(stage.openings):
        is_compare = _is_compare(state, opening.partition)
        unwanted = to_quarantine(state, opening.topic_partition, opening.topic_id, is_compare=is_compare)
        replica = state.replicas.get(opening.topic_partition)
        if opening.verdict is OpenVerdict.REPLACE and replica is not None:
            unwanted = (replica, *unwanted)
        for each in unwanted:
            if each.log_dir is not None:
                new_name = stray_name(opening.topic_partition, state.make_unique())
                operations.append(QuarantineDirectory(each.log_dir, opening.topic_partition, new_name))
                performed_for.append(index)
    return _perform(state, replace(stage, operations=tuple(operations), performed_for=tuple(performed_for)))


def _after_quarantine(state: AgentState, stage: LeaderAndIsrStage, outcomes: tuple[DiskOutcome, ...]) -> list[Effect]:
    effects = _failed_log_dirs(state, stage, outcomes)
    errors = list(stage.errors)
    for index, operation, outcome in zip(stage.performed_for, stage.operations, outcomes, strict=True):
        opening = stage.openings[index]
        assert isinstance(operation, QuarantineDirectory)
        if outcome.error is not None or state.log_dirs[operation.log_dir] is not None:
            if outcome.error is not None and state.log_dirs[operation.log_dir] is None:
                effects.append(record_problem(state, "LEADER_AND_ISR", opening.topic_partition, outcome.error))
            if opening.verdict is OpenVerdict.REPLACE:
                errors[opening.row] = ErrorCode.KAFKA_STORAGE_ERROR
            continue
        replica = forget(state, opening.topic_partition, operation.log_dir)
        assert replica is not None
        effects.append(keep_stray(state, operation, replica, "LeaderAndIsr named another incarnation of the topic"))
    left = tuple(o for o in stage.openings if errors[o.row] == ErrorCode.NONE)
    return effects + _creation_round(state, replace(stage, errors=tuple(errors), openings=left))


# --- second round: creating and identifying -----------------------------------------------------------------------


def _creation_round(state: AgentState, stage: LeaderAndIsrStage) -> list[Effect]:
    operations: list[DiskOperation] = []
    performed_for: list[int] = []
    errors = list(stage.errors)
    planned = {log_dir: state.replicas_of_log_dir.get(log_dir, 0) for log_dir in state.live_log_dirs}
    for index, opening in enumerate(stage.openings):
        replica = state.replicas.get(opening.topic_partition)
        if replica is not None and replica.state is ReplicaState.OFFLINE:
            errors[opening.row] = ErrorCode.KAFKA_STORAGE_ERROR
            continue
        if replica is None:
            log_dir = choose_log_dir(planned)
            if log_dir is None or _may_be_elsewhere(state, opening):
                state.put_replica(opening.topic_partition, offline_replica(opening.topic_partition, state))
                errors[opening.row] = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            planned[log_dir] += 1
            wanted = _operations(state, opening, None, log_dir)
        else:
            wanted = _operations(state, opening, replica, replica.log_dir)
        operations += wanted
        performed_for += [index] * len(wanted)
    return _perform(
        state,
        replace(
            stage,
            errors=tuple(errors),
            operations=tuple(operations),
            performed_for=tuple(performed_for),
            setting_aside=False,
        ),
    )


def _operations(
    state: AgentState, opening: Opening, replica: Replica | None, log_dir: str | None
) -> list[DiskOperation]:
    """The disk operations for this replica; `replica` is None if there is none yet."""
    assert log_dir is not None
    wanted: list[DiskOperation] = []
    topic_id = opening.topic_id if replica is None else replica.topic_id
    if replica is None:
        wanted.append(CreateReplica(log_dir, opening.topic_partition, topic_id))
    elif opening.verdict is OpenVerdict.ASSIGN_ID and opening.topic_id is not None:
        topic_id = opening.topic_id
        wanted.append(AssignTopicId(log_dir, opening.topic_partition, topic_id))
    if opening.partition.leader == state.settings.broker_id and (replica is None or not replica.filled):
        wanted.append(FillReplica(log_dir, opening.topic_partition, topic_id))
    return wanted


def _after_creation(state: AgentState, stage: LeaderAndIsrStage, outcomes: tuple[DiskOutcome, ...]) -> list[Effect]:
    effects = _failed_log_dirs(state, stage, outcomes)
    errors = list(stage.errors)
    for index, operation, outcome in zip(stage.performed_for, stage.operations, outcomes, strict=True):
        opening = stage.openings[index]
        if errors[opening.row] == ErrorCode.NONE and _has_failed(state, opening, operation, outcome, effects):
            errors[opening.row] = ErrorCode.KAFKA_STORAGE_ERROR
        elif outcome.error is None and state.log_dirs[operation.log_dir] is None:
            _record_disk_outcome(state, operation, outcome)
    for opening in stage.openings:
        replica = state.replicas.get(opening.topic_partition)
        if replica is None or replica.state is ReplicaState.OFFLINE:
            errors[opening.row] = ErrorCode.KAFKA_STORAGE_ERROR
        elif errors[opening.row] == ErrorCode.NONE:
            state.put_replica(opening.topic_partition, _hosted(replica, opening.partition))
            begin_role(state, opening.topic_partition)
    rows = tuple(_rows(stage.request, errors))
    effects.append(Reply(stage.token, LeaderAndIsrResponse.of_rows(ErrorCode.NONE, rows)))
    effects.append(record_answers(state, stage.request, count_errors(row.error for row in rows)))
    return effects


def _record_disk_outcome(state: AgentState, operation: DiskOperation, outcome: DiskOutcome) -> None:
    """Record the result of a disk operation, independent of whether the partition is opened in the end."""
    topic_partition = operation.topic_partition
    replica = state.replicas.get(topic_partition)
    match operation:
        case CreateReplica(log_dir, _, topic_id):
            made = Replica(ReplicaState.LOADED, log_dir, topic_id, True, outcome.size_bytes, outcome.files)
            state.put_replica(topic_partition, made)
        case AssignTopicId(topic_id=topic_id) if replica is not None:
            size_bytes = replica.size_bytes + outcome.size_bytes
            state.put_replica(topic_partition, replica._replace(topic_id=topic_id, size_bytes=size_bytes))
        case FillReplica() if replica is not None:
            filled = replica.filled_with(outcome.size_bytes, outcome.files, outcome.segment_bytes)
            state.put_replica(topic_partition, filled)
        case _:
            # Creating the replica failed, so there is no replica to record on.
            return


def _hosted(replica: Replica, partition: LeaderAndIsrPartition) -> Replica:
    return replica._replace(
        state=ReplicaState.HOSTED,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=partition.isr,
        assignment=partition.replicas,
    )


def _may_be_elsewhere(state: AgentState, opening: Opening) -> bool:
    """Whether the replica may lie in an unreadable log directory, so that none may be created. A quarantined directory
    of another incarnation proves nothing: it may be a restored copy."""
    return state.has_offline_log_dir and not opening.partition.is_new


# --- both rounds --------------------------------------------------------------------------------------------------


def _perform(state: AgentState, stage: LeaderAndIsrStage) -> list[Effect]:
    """Start the round; continue at once if it is empty."""
    if not stage.operations:
        return resume(state, stage, ())
    state.stage = stage
    return [PerformDisk(stage.operations)]


def _failed_log_dirs(state: AgentState, stage: LeaderAndIsrStage, outcomes: tuple[DiskOutcome, ...]) -> list[Effect]:
    """Take the log directories offline that failed in this round, before any result is recorded."""
    effects: list[Effect] = []
    for operation, outcome in zip(stage.operations, outcomes, strict=True):
        if outcome.error is not None and outcome.log_dir_failed:
            effects += fail_log_dir(state, operation.log_dir, outcome.error)
    return effects


def _has_failed(
    state: AgentState, opening: Opening, operation: DiskOperation, outcome: DiskOutcome, effects: list[Effect]
) -> bool:
    """Whether the operation failed, or its log directory has since: then the replica is offline. A log directory is
    recorded once, not once for each of its replicas."""
    if state.log_dirs[operation.log_dir] is not None:
        state.put_replica(opening.topic_partition, offline_replica(opening.topic_partition, state))
        return True
    if outcome.error is not None:
        effects.append(record_problem(state, "LEADER_AND_ISR", opening.topic_partition, outcome.error))
    return outcome.error is not None


def _rows(request: LeaderAndIsrRequest, errors: list[int]) -> list[TopicIdError]:
    numbered = iter(errors)
    return [
        TopicIdError(topic.topic, topic.topic_id, partition.partition, next(numbered))
        for topic in request.topics
        for partition in topic.partitions
    ]
