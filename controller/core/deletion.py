"""Topic deletion: from the queued topic until only the brokers' paced removal of bytes is left.

    phase           when                                        what is done
    --------------  ------------------------------------------  --------------------------------------------------
    `queued`        the marker was read (`marks`)               the topic stays in service
    `started`       nothing holds the topic back                partitions leave service; all brokers get the tombstone
                                                                (UpdateMetadata, leader -2); StopReplica twice for each
                                                                reachable replica, as in Kafka: stop, then delete
    `tombstoned`    no registered broker owes the tombstone
    `acknowledged`  every replica is DeletionSuccessful,        wait for answers to the tombstone
                    before or after `tombstoned`
    `removed`,      tombstones are answered, or one broker has  the znodes are removed (`removal`); a silent broker
    `done`          been silent for `tombstone_timeout_ms`      owes the answer from then on (`owed`)

A replica on a broker that is not registered may be *owed* (`debts_policy`): the deletion ends without it. Any other
unreachable replica makes the topic *ineligible*: no new round starts until a broker returns, a timer fires or
another cause has changed. The current round goes on for its other replicas. A broker that is shutting down still gets
requests, and its shutdown does not wait for them.

A replica is acknowledged by an answer without an error to a StopReplica with delete, from the broker incarnation that
was asked. A broker also answers NONE for a replica on a failed disk. So the same incarnation must have answered a
LeaderAndIsr for the replica before, without a storage error. If none was sent, the broker must prove after the
StopReplica that no log directory has failed (`evidence`).

Differences from Kafka, where a deletion would otherwise hang or be reported too early:

* An error is retried with growing waits, also an error of the whole request (stale epochs).
* The tombstone must be answered, not only queued.
* The ISR is not rewritten for replicas that are about to be deleted.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from lethe.controller.core import debts_policy, evidence, orders, owed, partition_machine, without_answer
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import (
    METADATA_CACHE,
    NOT_WAITED_FOR,
    Deletion,
    DeletionProblem,
    RetriedAction,
)
from lethe.controller.core.effects import EndTombstoneWaits, RetryDeletions
from lethe.controller.core.mutation import (
    acknowledge_deletion,
    count_retry,
    set_ineligible,
    start_deletion,
)
from lethe.controller.core.partition_sets import (
    Bits,
    ReplicaColumns,
    chosen,
    columns_of,
    without,
)
from lethe.controller.core.replica_machine import move
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_deletion import FailReplicaDeletions, RemoveTopics, ResumeDeletions
from lethe.controller.core.tasks_partitions import MovePartitions, MoveReplicas
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import EventRecordType, JsonValue
from lethe.protocol.vocabulary import BrokerId, PartitionReplica

MIN_WAIT_BETWEEN_LOOKS_MS: Final = 1_000
_INELIGIBLE: Final = (ReplicaState.DELETION_INELIGIBLE,)
_OFFLINE: Final = (ReplicaState.OFFLINE,)
_OWED: Final = (ReplicaState.DELETION_OWED,)
_STARTED_OR_OFFLINE: Final = (ReplicaState.DELETION_STARTED, ReplicaState.OFFLINE)


# --- resuming -----------------------------------------------------------------------------------------------------


def resume(step: StepContext, task: ResumeDeletions) -> None:
    """Finish, retry or start the deletion of each of these topics, with one batch for each of these actions."""
    context = step.context
    cluster = context.cluster
    finished, retrying, starting = [], [], []
    for name in task.topics:
        deletion = cluster.deletions.get(name)
        if deletion is None or name not in cluster.topics or name in cluster.removals.under_way:
            continue
        take_back(step, (name,))
        if cluster.paused is not None:
            if deletion.all_acknowledged:
                _note_acknowledged(step, name, deletion)
            continue
        if task.unblock:
            set_ineligible(cluster, deletion, False)
            deletion.retry_at_ms = None
            deletion.round_is_due = deletion.in_progress
        if deletion.all_acknowledged:
            _note_acknowledged(step, name, deletion)
            if tombstone_is_settled(step, name, deletion) and not deletion.ineligible:
                finished.append(name)
            continue
        if not deletion.in_progress and cluster.leaving is None:
            if deletion.by_state.get(ReplicaState.DELETION_INELIGIBLE, 0):
                retrying.append(name)
            if not deletion.ineligible or deletion.round_is_due:
                starting.append(name)
    if retrying:
        ineligible = _of_these(context, _assigned(context, retrying), _INELIGIBLE)
        move(step, MoveReplicas(ineligible, ReplicaState.OFFLINE))
    if starting:
        _start(step, starting)
    if finished:
        step.do(RemoveTopics(tuple(finished)))


def _note_acknowledged(step: StepContext, name: str, deletion: Deletion) -> None:
    if deletion.acknowledged_at_ms is None:
        acknowledge_deletion(step.context.cluster, deletion, step.now_ms)
        phase(step, name, "acknowledged", since_ms=deletion.started_at_ms or deletion.queued_at_ms)


def note_tombstoned(step: StepContext, name: str) -> None:
    """Record once that no registered broker owes an answer to the tombstone."""
    deletion = step.context.cluster.deletions[name]
    if deletion.started_at_ms is not None and deletion.tombstoned_at_ms is None and not deletion.owing_tombstone:
        deletion.tombstoned_at_ms = step.now_ms
        phase(step, name, "tombstoned", since_ms=deletion.started_at_ms)


def tombstone_is_settled(step: StepContext, name: str, deletion: Deletion) -> bool:
    """Return True if every broker has answered the tombstone, or the wait has reached its limit.

    Sends the tombstone again to brokers without an outstanding one. At the limit, False if a broker owes too many
    tombstones already."""
    context = step.context
    owing = deletion.owing_tombstone
    if not owing:
        return True
    unasked = [broker for broker, sent in owing.items() if sent.request_id not in context.cluster.outstanding]
    if unasked and not deletion.ineligible:
        batch = step.batch()
        batch.add_update_metadata(unasked, context.cluster.all_of((name,)))
        step.flush(batch)
    due_ms = _tombstone_wait_ends_at_ms(context, deletion)
    if due_ms is None:
        return False
    if due_ms <= step.now_ms:
        # The tombstone is in each of their channels, ahead of any later request about this name.
        return owed.have_room(context, owing)
    set_at_ms = context.timers.get(EndTombstoneWaits())
    if set_at_ms is None or due_ms < set_at_ms:
        step.set_timer(EndTombstoneWaits(), due_ms)
    return False


def _tombstone_wait_ends_at_ms(context: Context, deletion: Deletion) -> int | None:
    """Return when the wait for answers to the tombstone ends; None: never.

    It begins when every replica has acknowledged."""
    limit_ms = context.config.tombstone_timeout_ms
    if not limit_ms or deletion.acknowledged_at_ms is None or context.cluster.leaving is not None:
        return None
    return deletion.acknowledged_at_ms + limit_ms


def end_tombstone_waits(step: StepContext) -> None:
    """The timer fired: continue topics whose wait for the tombstone is over.

    The timer is set again for the others, at most once a second, so that the queue is not walked for each topic."""
    context = step.context
    due: list[str] = []
    later: list[int] = []
    for name, deletion in context.cluster.deletions.items():
        at_ms = _tombstone_wait_ends_at_ms(context, deletion)
        if at_ms is None:
            continue
        if at_ms <= step.now_ms:
            due.append(name)
        else:
            later.append(at_ms)
    if later:
        step.set_timer(EndTombstoneWaits(), max(min(later), step.now_ms + MIN_WAIT_BETWEEN_LOOKS_MS))
    if due:
        step.do(ResumeDeletions(tuple(due)))


# --- starting -----------------------------------------------------------------------------------------------------


def _start(step: StepContext, names: list[str]) -> None:
    """Run one round for all these topics: tombstone, stop, delete; one request of each kind for each broker."""
    context = step.context
    cluster = context.cluster
    unseen = [name for name in names if cluster.deletions[name].started_at_ms is None]
    _leave_service(step, unseen)
    left = _assigned(context, names)
    left = without(left, _of_these(context, left, NOT_WAITED_FOR))
    unasked = _send_tombstones(step, names, left)
    for name in names:
        deletion = cluster.deletions[name]
        deletion.attempts += 1
        deletion.round_is_due = False
        deletion.asked_at_ms = step.now_ms
    on_no_disk = chosen(left, lambda _, broker, bits: bits if cluster.is_advertised(broker) else 0)
    on_brokers = without(left, on_no_disk)
    alive = chosen(on_brokers, cluster.reachable)
    dead = without(on_brokers, alive)
    to_owe = debts_policy.not_awaited(context, dead)
    dead = without(dead, to_owe)
    for name in dead:
        set_ineligible(cluster, cluster.deletions[name], True)
    orders.wait_for(step, dead)
    without_answer.confirm(step, on_no_disk)
    without_answer.record_given_up(step, to_owe)
    move(step, MoveReplicas(without(to_owe, _of_these(context, to_owe, _OFFLINE)), ReplicaState.OFFLINE))
    move(step, MoveReplicas(to_owe, ReplicaState.DELETION_OWED))
    move(step, MoveReplicas(_of_these(context, dead, _OFFLINE), ReplicaState.DELETION_INELIGIBLE))
    move(step, MoveReplicas(alive, ReplicaState.OFFLINE))
    move(step, MoveReplicas(_of_these(context, alive, _OFFLINE), ReplicaState.DELETION_STARTED))
    evidence.look(step, unasked)
    # Nothing of these was asked of a broker, so no answer may come that would resume them.
    unanswered = dict.fromkeys((*on_no_disk, *to_owe))
    step.do(ResumeDeletions(tuple(name for name in unanswered if cluster.deletions[name].all_acknowledged)))


def _leave_service(step: StepContext, names: list[str]) -> None:
    """Set the partitions' states before `started_at_ms`, so that they are not counted as offline."""
    cluster = step.context.cluster
    partitions = cluster.all_of(names)
    partition_machine.move(step, MovePartitions(partitions, PartitionState.OFFLINE))
    partition_machine.move(step, MovePartitions(partitions, PartitionState.NON_EXISTENT))
    for name in names:
        deletion = cluster.deletions[name]
        start_deletion(cluster, deletion, step.now_ms)
        phase(step, name, "started", since_ms=deletion.queued_at_ms)


def _send_tombstones(step: StepContext, names: list[str], left: ReplicaColumns) -> dict[BrokerId, dict[str, Bits]]:
    """Send the tombstone to all brokers, after LeaderAndIsr to brokers whose log directories cannot prove a deletion.

    Returns, by broker, those of the replicas `left` without a LeaderAndIsr: the log directories are to prove their
    deletion.
    """
    context = step.context
    cluster = context.cluster
    batch = step.batch()
    unasked: dict[BrokerId, dict[str, Bits]] = {}
    batch.add_update_metadata(cluster.brokers, cluster.all_of(names))
    for name, columns in left.items():
        for broker, bits in columns.items():
            silent = cluster.reachable(name, broker, bits) & ~cluster.announced(name, broker)
            if not silent:
                continue
            if cluster.must_announce(broker):
                batch.add_leader_and_isrs(name, silent, {broker: silent}, is_new=False)
            else:
                unasked.setdefault(broker, {})[name] = silent
    step.flush(batch)
    evidence.expect(context, unasked)
    return unasked


def _of_these(context: Context, replicas: ReplicaColumns, states: Container[ReplicaState]) -> ReplicaColumns:
    """Return those of these replicas that are in one of the states."""
    topics = context.cluster.topics
    known = {name: columns for name, columns in replicas.items() if name in topics}
    return chosen(known, lambda name, broker, bits: bits & topics[name].in_states(broker, states))


def _assigned(context: Context, names: Iterable[str]) -> ReplicaColumns:
    return {name: context.cluster.topics[name].assigned() for name in names}


def take_back(step: StepContext, names: Iterable[str]) -> None:
    """Wait again for owed replicas whose broker has registered, or that are no longer to be owed or given up.

    If the topic's znodes are being removed, nothing changes: their debts are written."""
    context = step.context
    cluster = context.cluster
    kept = (name for name in names if name not in cluster.removals.under_way)
    some = [name for name in kept if cluster.deletions[name].by_state.get(ReplicaState.DELETION_OWED)]
    if not some:
        return
    before = _of_these(context, _assigned(context, some), _OWED)
    back = without(before, debts_policy.not_awaited(context, before))
    move(step, MoveReplicas(back, ReplicaState.DELETION_INELIGIBLE))
    for name in back:
        acknowledge_deletion(cluster, cluster.deletions[name], None)


# --- failing ------------------------------------------------------------------------------------------------------


def fail(step: StepContext, task: FailReplicaDeletions) -> None:
    """Mark these replicas, unless acknowledged, as owed, or them and their topics as ineligible for deletion; continue
    the topics."""
    context = step.context
    cluster = context.cluster
    queued = tuple(
        replica
        for replica in task.replicas
        if cluster.is_queued(replica.topic) and cluster.replica_state(replica) not in NOT_WAITED_FOR
    )
    topics = tuple(dict.fromkeys(replica.topic for replica in queued))
    if not topics:
        return
    failed = columns_of(queued)
    gone = debts_policy.not_awaited(context, failed)
    move(step, MoveReplicas(_of_these(context, failed, _STARTED_OR_OFFLINE), ReplicaState.DELETION_INELIGIBLE))
    move(step, MoveReplicas(_of_these(context, gone, _INELIGIBLE), ReplicaState.DELETION_OWED))
    without_answer.record_given_up(step, gone)
    waiting = without(failed, gone)
    for name in waiting:
        set_ineligible(cluster, cluster.deletions[name], True)
    if not task.returned:
        orders.wait_for(step, waiting)
    # A topic that has waited for the broker, as for a failed disk, does not wait for it any more.
    step.do(ResumeDeletions(tuple(name for name in topics if name not in waiting), unblock=True))
    step.do(ResumeDeletions(tuple(waiting)))


def note_problem(step: StepContext, replica: PartitionReplica, what: str) -> None:
    """Store why a replica was not deleted, and schedule a retry of its topic.

    The partition METADATA_CACHE stands for the broker's metadata cache, which did not drop the topic."""
    deletion = step.context.cluster.deletions[replica.topic]
    key = (replica.partition, replica.broker)
    deletion.problems[key] = problem = DeletionProblem.met(deletion.problems.get(key), what, step.now_ms)
    count_retry(
        step.context, RetriedAction.TOMBSTONE if replica.partition == METADATA_CACHE else RetriedAction.REPLICA, what
    )
    retry_later(step, replica.topic, problem.attempts)


def retry_later(step: StepContext, name: str, attempts: int) -> None:
    """Schedule a retry of the topic, after a wait that doubles with each attempt."""
    context = step.context
    config = context.config
    wait_ms = BackOff(config.retry_min_ms, config.retry_max_ms).wait_ms(attempts)
    deletion = context.cluster.deletions[name]
    due_ms = step.now_ms + wait_ms
    deletion.retry_at_ms = due_ms if deletion.retry_at_ms is None else min(deletion.retry_at_ms, due_ms)
    set_at_ms = context.timers.get(RetryDeletions())
    if set_at_ms is None or deletion.retry_at_ms < set_at_ms:
        step.set_timer(RetryDeletions(), deletion.retry_at_ms)


def retries_due(step: StepContext) -> None:
    """The timer fired: retry topics that are due, and set the timer for the others."""
    cluster = step.context.cluster
    if cluster.paused is not None:
        # Every topic is retried when the pause ends.
        return
    due: list[tuple[str, int]] = []
    later: list[tuple[str, int]] = []
    for name, deletion in cluster.deletions.items():
        if deletion.retry_at_ms is not None:
            (due if deletion.retry_at_ms <= step.now_ms else later).append((name, deletion.retry_at_ms))
    if later:
        step.set_timer(RetryDeletions(), min(at_ms for _, at_ms in later))
    if due:
        step.do(ResumeDeletions(tuple(name for name, _ in due), unblock=True))


def phase(step: StepContext, name: str, what: str, *, since_ms: int, **data: JsonValue) -> None:
    """Record that a deletion has reached a phase, and the time since `since_ms`."""
    topic = step.context.cluster.topics.get(name)
    step.record(
        EventRecordType.DELETION_PHASE,
        f"topic/{name}",
        phase=what,
        took_ms=step.now_ms - since_ms,
        topic_id=step.id_of(name),
        partitions=len(topic.partitions) if topic else 0,
        replicas=topic.replica_count if topic else 0,
        **data,
    )
