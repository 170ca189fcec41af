"""StopReplica: stopping and deleting replicas, with Kafka 3.9's errors per partition.

Per partition, the first rule that applies:

    situation                                                     answer
    its name cannot be a directory's                              NONE: there can be nothing here to stop (recorded)
    named before in the same request                              the answer given there
    in an offline log directory                                   KAFKA_STORAGE_ERROR
    hosted, leader epoch in the request neither -1 nor -2 and
      below ours                                                  FENCED_LEADER_EPOCH
    delete with leader epoch -2 ("the topic is being deleted"),
      but the tombstone named another incarnation than the
      current one, which is here                                  FENCED_LEADER_EPOCH (recorded)
    delete is false                                               NONE, the directory stays
    no directory                                                  NONE
    another directory of it is in an offline log directory, and
      not known to be another incarnation's                       KAFKA_STORAGE_ERROR
    leader epoch -1, and a compare named another topic's id, or
      another directory of it is hosted with another topic's id   the directory stays (broker.core.duplicates)
    leader epoch -2, and a compare named the directory's id, not
      the tombstone                                               the directory stays: a debt's payment follows
    otherwise                                                     by broker.core.identity: renamed for deletion or set
                                                                  aside, then NONE; KAFKA_STORAGE_ERROR where that
                                                                  fails; UNKNOWN_SERVER_ERROR if the incarnation
                                                                  cannot be determined

The tombstone's row is for a request that outlives its connection: a controller whose request times out sends it again
on a new connection, and the first copy may be applied after the topic was deleted and created again. A controller
always sends the tombstone of the incarnation before it requests the deletion.

A deletion is acknowledged after the rename, which is atomic and durable; the bytes go later (broker.core.removal). A
repeated deletion finds no directory and answers NONE again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lethe.broker.core.duplicates import candidates, forget, is_other_incarnation, prefer_meant, require_proof
from lethe.broker.core.effects import (
    AskTopicIds,
    DiskOperation,
    Effect,
    PerformDisk,
    QuarantineDirectory,
    RenameForDeletion,
    Reply,
)
from lethe.broker.core.identity import StopVerdict, judge_deletion, judge_deletion_by_answer
from lethe.broker.core.inputs import DiskOutcome, TopicAbsence, TopicIdAnswer, TopicIdUnavailable
from lethe.broker.core.records import count_errors, record_answers, record_deletions, record_problem
from lethe.broker.core.replica import Replica, ReplicaState
from lethe.broker.core.roles import end_role
from lethe.broker.core.stages import Deletion, StopReplicaStage
from lethe.broker.core.state import AgentState, Tombstone
from lethe.broker.core.storage import fail_log_dir, keep_stray, owe_removal
from lethe.protocol.kafka.control import (
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicError,
)
from lethe.protocol.kafka.directory_names import deletion_name, partition_problem, stray_name
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import EPOCH_DURING_DELETE, NO_LEADER_EPOCH, BrokerEpoch, TopicId, TopicPartition


def begin(state: AgentState, token: int, request: StopReplicaRequest, broker_epoch: BrokerEpoch) -> list[Effect]:
    """Judge every partition. Then ask for ids, start the renames, or answer at once."""
    effects: list[Effect] = []
    errors: dict[TopicPartition, int] = {}
    deletions: list[Deletion] = []
    asked: dict[str, None] = {}
    for topic in request.topics:
        tombstone = state.current_tombstone(topic.topic, broker_epoch, request.controller_epoch)
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.topic, partition.partition)
            if topic_partition in errors:
                continue
            meant = _meant(state, topic_partition, partition, tombstone)
            prefer_meant(state, topic_partition, meant)
            replica = state.replicas.get(topic_partition)
            if replica is None and (problem := partition_problem(topic_partition)):
                effects.append(record_problem(state, "STOP_REPLICA", topic_partition, problem))
            errors[topic_partition] = _epoch_verdict(replica, partition)
            if (
                replica is not None
                and partition.delete
                and _targets_other_incarnation(state, topic_partition, replica, partition)
            ):
                problem = "the request deletes an earlier incarnation; the topic was created again since"
                effects.append(record_problem(state, "StopReplica", topic_partition, problem))
                errors[topic_partition] = ErrorCode.FENCED_LEADER_EPOCH
            if replica is None or errors[topic_partition] != ErrorCode.NONE:
                continue
            end_role(state, topic_partition)
            if not partition.delete:
                continue
            is_named = partition.leader_epoch != EPOCH_DURING_DELETE or tombstone is not None
            for deletion in _deletions(
                state, topic_partition, partition.leader_epoch, meant, errors, is_named=is_named
            ):
                deletions.append(deletion)
                if deletion.verdict is StopVerdict.ASK:
                    asked[topic.topic] = None
    stage = StopReplicaStage(token, request, broker_epoch, errors, tuple(deletions), tuple(asked))
    if asked:
        state.stage = stage
        return [*effects, AskTopicIds(stage.asked)]
    return effects + _rename_round(state, stage)


def resume_with_topic_ids(
    state: AgentState, stage: StopReplicaStage, answers: tuple[TopicIdAnswer, ...]
) -> list[Effect]:
    """Continue with the topic ids from ZooKeeper."""
    effects: list[Effect] = []
    by_topic = dict(zip(stage.asked, answers, strict=True))
    for topic, answer in by_topic.items():
        if not isinstance(answer, TopicAbsence | TopicIdUnavailable):
            state.incarnations[topic] = answer
    errors = dict(stage.errors)
    deletions: list[Deletion] = []
    for deletion in stage.deletions:
        topic_partition = deletion.topic_partition
        replica = _candidate(state, deletion)
        if replica.state is ReplicaState.OFFLINE:
            errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
            continue
        if deletion.verdict is StopVerdict.ASK:
            answer = by_topic[topic_partition.topic]
            verdict = require_proof(state, topic_partition, replica, judge_deletion_by_answer(replica, answer))
            deletion = deletion._replace(verdict=verdict)
            if isinstance(answer, TopicIdUnavailable):
                problem = f"the topic's id could not be read, and nothing was changed: {answer.reason}"
                effects.append(record_problem(state, "STOP_REPLICA", topic_partition, problem))
                errors[topic_partition] = ErrorCode.UNKNOWN_SERVER_ERROR
                continue
        deletions.append(deletion)
    return effects + _rename_round(state, replace(stage, errors=errors, deletions=tuple(deletions), asked=()))


def resume_after_disk(
    state: AgentState, stage: StopReplicaStage, outcomes: tuple[DiskOutcome, ...], now_ms: int
) -> list[Effect]:
    """Record the renames and answer."""
    effects: list[Effect] = []
    errors = dict(stage.errors)
    touched: dict[str, None] = {}
    meant = dict(_meant_in(state, stage))
    deleted: dict[TopicPartition, TopicId | None] = {}
    for operation, outcome in zip(stage.operations, outcomes, strict=True):
        if outcome.error is not None and outcome.log_dir_failed:
            effects += fail_log_dir(state, operation.log_dir, outcome.error)
    for deletion, operation, outcome in zip(stage.deletions, stage.operations, outcomes, strict=True):
        topic_partition = deletion.topic_partition
        touched[topic_partition.topic] = None
        if state.log_dirs[operation.log_dir] is not None:
            errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
        elif outcome.error is not None:
            errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
            effects.append(record_problem(state, "STOP_REPLICA", topic_partition, outcome.error))
        else:
            replica = forget(state, topic_partition, operation.log_dir)
            assert replica is not None
            if isinstance(operation, RenameForDeletion):
                deleted[topic_partition] = operation.topic_id
            effects += _record_rename(state, operation, replica, now_ms)
    for topic in touched:
        state.forget_incarnation_if_gone(topic)
    rows = [
        TopicError(topic.topic, partition.partition, errors[TopicPartition(topic.topic, partition.partition)])
        for topic in stage.request.topics
        for partition in topic.partitions
    ]
    effects.append(Reply(stage.token, StopReplicaResponse.of_rows(ErrorCode.NONE, tuple(rows))))
    effects.append(record_answers(state, stage.request, count_errors(row.error for row in rows)))
    return effects + record_deletions(state, stage.request, rows, meant, deleted)


def _deletions(
    state: AgentState,
    topic_partition: TopicPartition,
    leader_epoch: int,
    meant: TopicId | None,
    errors: dict[TopicPartition, int],
    *,
    is_named: bool,
) -> Iterator[Deletion]:
    """One deletion for each directory of the partition; a failed log directory may hold one of the deleted topic.

    `is_named`: the incarnation that the request means has been named. Where this registration has not taken in the
    tombstone, it is the remembered one, which may be an earlier one."""
    every = candidates(state, topic_partition)
    for each in every:
        if _stays(state, topic_partition, leader_epoch, meant, each):
            continue
        if each.state is not ReplicaState.OFFLINE and each.log_dir is not None:
            verdict = judge_deletion(each, meant)
            if verdict is StopVerdict.DELETE and meant is not None and not is_named:
                verdict = StopVerdict.ASK
            yield Deletion(topic_partition, each.log_dir, verdict)
        elif not is_other_incarnation(each, meant):
            errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR


def _stays(
    state: AgentState, topic_partition: TopicPartition, leader_epoch: int, meant: TopicId | None, replica: Replica
) -> bool:
    """Whether the directory is left: a payment is about what its compare named, and a topic's deletion is not."""
    compared = state.compared_id(topic_partition)
    if leader_epoch == NO_LEADER_EPOCH:
        hosted = candidates(state, topic_partition)[0]
        opened = hosted.topic_id if hosted.state is ReplicaState.HOSTED else None
        return is_other_incarnation(replica, opened if compared is None else compared)
    is_owed = compared is not None and replica.id_readable and replica.topic_id == compared
    return leader_epoch == EPOCH_DURING_DELETE and is_owed and meant not in (None, compared)


def _candidate(state: AgentState, deletion: Deletion) -> Replica:
    """The candidate in that directory; while a StopReplica waits, nothing else renames one."""
    every = candidates(state, deletion.topic_partition)
    return next(each for each in every if each.log_dir == deletion.log_dir)


def _meant_in(state: AgentState, stage: StopReplicaStage) -> Iterator[tuple[TopicPartition, TopicId | None]]:
    for topic in stage.request.topics:
        tombstone = state.current_tombstone(topic.topic, stage.broker_epoch, stage.request.controller_epoch)
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.topic, partition.partition)
            yield topic_partition, _meant(state, topic_partition, partition, tombstone)


def _meant(
    state: AgentState, topic_partition: TopicPartition, partition: StopReplicaPartition, tombstone: Tombstone | None
) -> TopicId | None:
    """The incarnation to stop, if known: of the debt's compare, of the topic's tombstone, or the remembered one."""
    named: TopicId | None = None
    if partition.leader_epoch == NO_LEADER_EPOCH:
        named = state.compared_id(topic_partition)
    elif partition.leader_epoch == EPOCH_DURING_DELETE and tombstone is not None:
        named = tombstone.topic_id
    return state.incarnations.get(topic_partition.topic) if named is None else named


def _epoch_verdict(replica: Replica | None, partition: StopReplicaPartition) -> ErrorCode:
    if replica is None:
        return ErrorCode.NONE
    if replica.state is ReplicaState.OFFLINE:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if partition.leader_epoch in (NO_LEADER_EPOCH, EPOCH_DURING_DELETE):
        return ErrorCode.NONE
    if replica.state is ReplicaState.HOSTED and partition.leader_epoch < replica.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.NONE


def _targets_other_incarnation(
    state: AgentState, topic_partition: TopicPartition, replica: Replica, partition: StopReplicaPartition
) -> bool:
    """Whether the request deletes the topic but the tombstone named another incarnation than the one here."""
    tombstone = state.tombstoned.get(topic_partition.topic)
    current = state.incarnations.get(topic_partition.topic)
    return (
        partition.leader_epoch == EPOCH_DURING_DELETE
        and tombstone is not None
        and tombstone.topic_id is not None
        and replica.topic_id == current
        and current is not None
        and tombstone.topic_id != current
    )


def _rename_round(state: AgentState, stage: StopReplicaStage) -> list[Effect]:
    operations: list[DiskOperation] = []
    for deletion in stage.deletions:
        replica = _candidate(state, deletion)
        unique = state.make_unique()
        if deletion.verdict is StopVerdict.DELETE:
            new_name = deletion_name(deletion.topic_partition, unique)
            operations.append(RenameForDeletion(deletion.log_dir, deletion.topic_partition, replica.topic_id, new_name))
        else:
            new_name = stray_name(deletion.topic_partition, unique)
            operations.append(QuarantineDirectory(deletion.log_dir, deletion.topic_partition, new_name))
    stage = replace(stage, operations=tuple(operations))
    if not operations:
        return resume_after_disk(state, stage, (), 0)
    state.stage = stage
    return [PerformDisk(stage.operations)]


def _record_rename(state: AgentState, operation: DiskOperation, replica: Replica, now_ms: int) -> list[Effect]:
    match operation:
        case RenameForDeletion():
            owe_removal(state, operation, replica, now_ms)
            return []
        case QuarantineDirectory():
            reason = "StopReplica asked to delete another incarnation of the topic"
            return [keep_stray(state, operation, replica, reason)]
        case _:
            raise AssertionError(f"StopReplica performs no {operation}")
