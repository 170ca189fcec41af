"""Debts: deletions that this broker missed, carried out before it serves.

While a broker is away, a controller may end a topic's deletion, and then writes what this broker still has of the topic
under `/lethe/debts/<broker>`. The agent reads that at its start and deletes the directories itself. What is unclear
stays, for the controller to settle:

    the debt                                                    what the agent does
    names no topic id                                           nothing
    has the id of a topic that exists                           nothing
    the topic's znode cannot be read, or has no id              nothing
    a topic of its name is in the trash, or the trash is unseen nothing
    otherwise                                                   renames the directories of its partitions that have its
                                                                id, as for any deletion

A debt is settled when none of its partitions has a directory left that may be of that incarnation: one with its id,
with an unreadable one, or with none. While a log directory is offline no debt is settled, as it may hold a replica.
Directories of other incarnations are not touched.
"""

from __future__ import annotations

from collections.abc import Iterator

from lethe.broker.core.duplicates import candidates, forget
from lethe.broker.core.effects import Effect, PerformDisk, RenameForDeletion, SettleDebts
from lethe.broker.core.inputs import DebtsRead, DiskOutcome, FoundDebt, TopicAbsence, TopicIdUnavailable
from lethe.broker.core.records import record_debts, record_paid, record_problem
from lethe.broker.core.replica import ReplicaState
from lethe.broker.core.stages import DebtStage
from lethe.broker.core.state import AgentState
from lethe.broker.core.storage import fail_log_dir, owe_removal
from lethe.protocol.kafka.directory_names import deletion_name
from lethe.protocol.vocabulary import TopicPartition


def on_debts_read(state: AgentState, read: DebtsRead) -> list[Effect]:
    """Start the renames; exactly one SettleDebts follows, at once where there is nothing to rename."""
    if state.settings.acknowledge_only or state.stage is not None:
        # A controller is sending requests already: it settles them too.
        return [SettleDebts(())]
    payable = tuple(found for found in read.debts if _is_payable(found))
    operations = tuple(operation for found in payable for operation in _renames(state, found))
    stage = DebtStage(read.debts, payable, operations)
    if not operations:
        return _settle(state, stage)
    state.stage = stage
    return [PerformDisk(operations)]


def resume(state: AgentState, stage: DebtStage, outcomes: tuple[DiskOutcome, ...], now_ms: int) -> list[Effect]:
    """Take what became of the renames, and settle what is paid."""
    effects: list[Effect] = []
    for operation, outcome in zip(stage.operations, outcomes, strict=True):
        if outcome.error is not None:
            effects.append(record_problem(state, "PAY_DEBT", operation.topic_partition, outcome.error))
            if outcome.log_dir_failed:
                effects += fail_log_dir(state, operation.log_dir, outcome.error)
        elif state.log_dirs[operation.log_dir] is None:
            replica = forget(state, operation.topic_partition, operation.log_dir)
            assert replica is not None
            owe_removal(state, operation, replica, now_ms)
    return effects + _settle(state, stage)


def _is_payable(found: FoundDebt) -> bool:
    if found.topic_id is None or found.may_be_in_trash:
        return False
    match found.living:
        case TopicAbsence.NO_TOPIC:
            return True
        case TopicAbsence.NO_ID | TopicIdUnavailable():
            return False
        case living:
            return living != found.topic_id


def _renames(state: AgentState, found: FoundDebt) -> Iterator[RenameForDeletion]:
    for partition in found.partitions:
        topic_partition = TopicPartition(found.topic, partition)
        for each in candidates(state, topic_partition):
            is_its_own = each.id_readable and each.topic_id == found.topic_id
            if is_its_own and each.log_dir is not None and each.state is not ReplicaState.OFFLINE:
                new_name = deletion_name(topic_partition, state.make_unique())
                yield RenameForDeletion(each.log_dir, topic_partition, each.topic_id, new_name)


def _settle(state: AgentState, stage: DebtStage) -> list[Effect]:
    settled = tuple(found for found in stage.payable if _is_settled(state, found))
    effects: list[Effect] = [SettleDebts(settled), *(record_paid(state, found) for found in settled)]
    if stage.debts:
        effects.append(record_debts(state, len(stage.debts), len(settled), len(stage.operations)))
    return effects


def _is_settled(state: AgentState, found: FoundDebt) -> bool:
    if state.has_offline_log_dir:
        return False
    return all(
        each.id_readable and each.topic_id is not None and each.topic_id != found.topic_id
        for partition in found.partitions
        for each in candidates(state, TopicPartition(found.topic, partition))
    )
