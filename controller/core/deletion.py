"""Topic deletion: from the marker to the moment when nothing is left but the brokers' paced removal of bytes.

Theory of operation. A marked topic is *queued*. It is *started* as soon as nothing forbids it: its partitions leave
service, every broker is sent the tombstone (UpdateMetadata with leader -2), and every replica on a registered broker is
stopped and then deleted (StopReplica twice, as Kafka does); a broker that is shutting down is asked while it is there,
and its shutdown does not wait for that. Replicas that cannot be reached make the topic
*ineligible*: nothing more is sent for it until what it waits for has changed, a broker's return or a timer. Its other
replicas are deleted meanwhile. When every replica is DeletionSuccessful and every broker that was sent the tombstone
has answered it, the znodes go (`removal`). They also go when a broker has kept the topic waiting for
`tombstone_timeout_ms` with nothing but that answer: the broker owes it then (`owed`).

What counts as an acknowledgement: an answer to a request of ours that asked for deletion of that partition, from the
broker incarnation it was sent to, without an error. Brokers answer NONE also for what lies on a failed disk. So the
same incarnation must have answered a LeaderAndIsr for that replica before, without a storage error; or, where it was
sent none, must show behind the StopReplica that none of its log directories has failed (`evidence`).

Differences from Kafka, each for a deletion that would otherwise hang or lie: an error answered, also one for the
whole request (stale epochs), is tried again with growing waits; the tombstone must have been answered, not only
queued; the ISR is not rewritten for replicas that are about to be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lethe.controller.core import evidence, owed, partition_machine
from lethe.controller.core.agenda_deletion import FailReplicaDeletions, RemoveTopics, ResumeDeletions
from lethe.controller.core.agenda_partitions import MovePartitions, MoveReplicas
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import METADATA_CACHE, Deletion, Problem, RetryOf
from lethe.controller.core.effects import EndTombstoneWaits, RetryDeletions
from lethe.controller.core.mutation import (
    acknowledge_deletion,
    count_retry,
    set_ineligible,
    set_replica_state,
    start_deletion,
)
from lethe.controller.core.replica_machine import move
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.controller.core.turn import Turn
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import FactType, JsonValue, partition_ranges
from lethe.protocol.vocabulary import BrokerId, PartitionReplica, TopicPartition

MIN_WAIT_BETWEEN_LOOKS_MS: Final = 1_000
_STARTED_OR_OFFLINE = (ReplicaState.DELETION_STARTED, ReplicaState.OFFLINE)


# --- resuming -----------------------------------------------------------------------------------------------------


def resume(turn: Turn, task: ResumeDeletions) -> None:
    """Finish, retry or start each of these topics, as its replicas allow; all of them in one batch per kind."""
    cluster = turn.context.cluster
    finished, retrying, starting = [], [], []
    for name in task.topics:
        deletion = cluster.deletions.get(name)
        if deletion is None or name not in cluster.topics:
            continue
        if cluster.paused is not None:
            if deletion.all_acknowledged:
                _note_acknowledged(turn, name, deletion)
            continue
        if task.unblock:
            set_ineligible(cluster, deletion, False)
            deletion.retry_at_ms = None
            deletion.round_is_due = deletion.in_progress
        if deletion.all_acknowledged:
            _note_acknowledged(turn, name, deletion)
            if _tombstone_is_settled(turn, name, deletion) and not deletion.ineligible:
                finished.append(name)
            continue
        if not deletion.in_progress and cluster.leaving is None:
            if deletion.by_state.get(ReplicaState.DELETION_INELIGIBLE, 0):
                retrying.append(name)
            if not deletion.ineligible or deletion.round_is_due:
                starting.append(name)
    if retrying:
        ineligible = [
            replica
            for name in retrying
            for replica in cluster.replicas_of(name)
            if cluster.replica_state(replica) is ReplicaState.DELETION_INELIGIBLE
        ]
        move(turn, MoveReplicas(tuple(ineligible), ReplicaState.OFFLINE))
    if starting:
        _start(turn, starting)
    if finished:
        turn.do(RemoveTopics(tuple(finished)))


def _note_acknowledged(turn: Turn, name: str, deletion: Deletion) -> None:
    if deletion.acknowledged_at_ms is None:
        acknowledge_deletion(turn.context.cluster, deletion, turn.now_ms)
        phase(turn, name, "acknowledged", since_ms=deletion.started_at_ms or deletion.queued_at_ms)


def note_tombstoned(turn: Turn, name: str) -> None:
    """Record once that no registered broker owes an answer to the tombstone any more."""
    deletion = turn.context.cluster.deletions[name]
    if deletion.started_at_ms is not None and deletion.tombstoned_at_ms is None and not deletion.owing_tombstone:
        deletion.tombstoned_at_ms = turn.now_ms
        phase(turn, name, "tombstoned", since_ms=deletion.started_at_ms)


def _tombstone_is_settled(turn: Turn, name: str, deletion: Deletion) -> bool:
    """True when no cache can show the topic any more, or the wait for that has lasted as long as it may; sends the
    tombstone again where no answer is on its way."""
    context = turn.context
    owing = deletion.owing_tombstone
    if not owing:
        return True
    unasked = [broker for broker in owing if deletion.tombstones[broker].request_id not in context.cluster.outstanding]
    if unasked and not deletion.ineligible:
        batch = turn.batch()
        batch.add_update_metadata(unasked, (tp for tp, _ in context.cluster.partitions_of(name)))
        turn.flush(batch)
    due_ms = _tombstone_wait_ends_at_ms(context, deletion)
    if due_ms is None:
        return False
    if due_ms <= turn.now_ms:
        # Each of them has the tombstone in its channel now, before whatever is to be said of the name later.
        return owed.have_room(context, owing)
    set_at_ms = context.timers.get(EndTombstoneWaits())
    if set_at_ms is None or due_ms < set_at_ms:
        turn.set_timer(EndTombstoneWaits(), due_ms)
    return False


def _tombstone_wait_ends_at_ms(context: Context, deletion: Deletion) -> int | None:
    """Counted from when nothing but answers to the tombstone was waited for; None: it does not end by itself."""
    limit_ms = context.config.tombstone_timeout_ms
    if not limit_ms or deletion.acknowledged_at_ms is None or context.cluster.leaving is not None:
        return None
    return deletion.acknowledged_at_ms + limit_ms


def end_tombstone_waits(turn: Turn) -> None:
    """The timer fired: go on with topics whose silent brokers have been waited for long enough.

    It is set for the others not more often than once a second, so that the queue is not walked for each of them."""
    context = turn.context
    due: list[str] = []
    later: list[int] = []
    for name, deletion in context.cluster.deletions.items():
        at_ms = _tombstone_wait_ends_at_ms(context, deletion)
        if at_ms is None:
            continue
        if at_ms <= turn.now_ms:
            due.append(name)
        else:
            later.append(at_ms)
    if later:
        turn.set_timer(EndTombstoneWaits(), max(min(later), turn.now_ms + MIN_WAIT_BETWEEN_LOOKS_MS))
    if due:
        turn.do(ResumeDeletions(tuple(due)))


# --- starting -----------------------------------------------------------------------------------------------------


def _start(turn: Turn, names: list[str]) -> None:
    """One round for all these topics: tombstone, stop, delete; a request of each kind per broker."""
    context = turn.context
    cluster = context.cluster
    unseen = [name for name in names if cluster.deletions[name].started_at_ms is None]
    _leave_service(turn, unseen)
    unasked = _send_tombstones(turn, names)
    alive: list[PartitionReplica] = []
    dead: list[PartitionReplica] = []
    on_no_disk: list[PartitionReplica] = []
    for name in names:
        deletion = cluster.deletions[name]
        deletion.attempts += 1
        deletion.round_is_due = False
        deletion.asked_at_ms = turn.now_ms
        for replica in cluster.replicas_of(name):
            if cluster.replica_state(replica) is ReplicaState.DELETION_SUCCESSFUL:
                continue
            if cluster.residents and cluster.is_resident(replica.broker):
                on_no_disk.append(replica)
            elif cluster.is_replica_reachable(replica):
                alive.append(replica)
            else:
                dead.append(replica)
                set_ineligible(cluster, deletion, True)
    _confirm_unasked(turn, on_no_disk)
    move(turn, MoveReplicas(_in_states(context, dead, (ReplicaState.OFFLINE,)), ReplicaState.DELETION_INELIGIBLE))
    move(turn, MoveReplicas(tuple(alive), ReplicaState.OFFLINE))
    move(turn, MoveReplicas(_in_states(context, alive, (ReplicaState.OFFLINE,)), ReplicaState.DELETION_STARTED))
    evidence.look(turn, unasked)


def _confirm_unasked(turn: Turn, replicas: list[PartitionReplica]) -> None:
    """What was placed on a controller is on no disk: nobody is to be asked for it. A line for each topic and
    controller."""
    partitions: dict[tuple[str, int], list[int]] = {}
    for replica in replicas:
        set_replica_state(turn.context.cluster, replica, ReplicaState.DELETION_SUCCESSFUL)
        partitions.setdefault((replica.topic, replica.broker), []).append(replica.partition)
    for (name, controller), numbers in partitions.items():
        turn.record(
            FactType.ACK,
            f"topic/{name}",
            topic_id=turn.id_of(name),
            broker=controller,
            partitions=partition_ranges(numbers),
            why="placed on a controller, which has no disk",
        )


def _leave_service(turn: Turn, names: list[str]) -> None:
    """States only; before `started_at_ms` is set, so that these partitions stop counting as offline."""
    cluster = turn.context.cluster
    partitions = tuple(tp for name in names for tp, _ in cluster.partitions_of(name))
    partition_machine.move(turn, MovePartitions(partitions, PartitionState.OFFLINE))
    partition_machine.move(turn, MovePartitions(partitions, PartitionState.NON_EXISTENT))
    for name in names:
        deletion = cluster.deletions[name]
        start_deletion(cluster, deletion, turn.now_ms)
        phase(turn, name, "started", since_ms=deletion.queued_at_ms)


def _send_tombstones(turn: Turn, names: list[str]) -> dict[BrokerId, list[TopicPartition]]:
    """The tombstone to all brokers; before it, LeaderAndIsr to those whose log directories cannot prove a deletion.

    Returns the replicas that were announced to nobody, by broker: a look is to prove their deletion.
    """
    context = turn.context
    cluster = context.cluster
    batch = turn.batch()
    unasked: dict[BrokerId, list[TopicPartition]] = {}
    batch.add_update_metadata(cluster.brokers, (tp for name in names for tp, _ in cluster.partitions_of(name)))
    for name in names:
        for topic_partition, partition in cluster.partitions_of(name):
            for broker in partition.assignment.replicas:
                state = partition.replicas.get(broker)
                if state is ReplicaState.DELETION_SUCCESSFUL or not cluster.is_reachable(topic_partition, broker):
                    continue
                if cluster.was_announced(partition, broker):
                    continue
                if cluster.must_announce(broker):
                    batch.add_leader_and_isr((broker,), topic_partition, is_new=False)
                else:
                    unasked.setdefault(BrokerId(broker), []).append(topic_partition)
    turn.flush(batch)
    evidence.expect(context, unasked)
    return unasked


def _in_states(
    context: Context, replicas: Iterable[PartitionReplica], states: tuple[ReplicaState, ...]
) -> tuple[PartitionReplica, ...]:
    return tuple(replica for replica in replicas if context.cluster.replica_state(replica) in states)


# --- failing ------------------------------------------------------------------------------------------------------


def fail(turn: Turn, task: FailReplicaDeletions) -> None:
    """These replicas cannot be deleted now; their topics wait. One that has confirmed is not waited for."""
    context = turn.context
    cluster = context.cluster
    queued = tuple(
        replica
        for replica in task.replicas
        if cluster.is_queued(replica.topic) and cluster.replica_state(replica) is not ReplicaState.DELETION_SUCCESSFUL
    )
    topics = tuple(dict.fromkeys(replica.topic for replica in queued))
    if not topics:
        return
    move(turn, MoveReplicas(_in_states(context, queued, _STARTED_OR_OFFLINE), ReplicaState.DELETION_INELIGIBLE))
    for name in topics:
        set_ineligible(cluster, cluster.deletions[name], True)
    turn.do(ResumeDeletions(topics))


def note_problem(turn: Turn, replica: PartitionReplica, what: str) -> None:
    """Remember why a replica was not deleted, and when its topic is to be tried again. Its partition may be
    METADATA_CACHE: then it is the broker's cache that did not let the topic go."""
    deletion = turn.context.cluster.deletions[replica.topic]
    key = (replica.partition, replica.broker)
    deletion.problems[key] = problem = Problem.met(deletion.problems.get(key), what, turn.now_ms)
    count_retry(turn.context, RetryOf.TOMBSTONE if replica.partition == METADATA_CACHE else RetryOf.REPLICA, what)
    retry_later(turn, replica.topic, problem.attempts)


def retry_later(turn: Turn, name: str, attempts: int) -> None:
    """Try the topic again when a wait is over that doubles with each attempt."""
    context = turn.context
    config = context.config
    wait_ms = BackOff(config.retry_min_ms, config.retry_max_ms).wait_ms(attempts)
    deletion = context.cluster.deletions[name]
    due_ms = turn.now_ms + wait_ms
    deletion.retry_at_ms = due_ms if deletion.retry_at_ms is None else min(deletion.retry_at_ms, due_ms)
    set_at_ms = context.timers.get(RetryDeletions())
    if set_at_ms is None or deletion.retry_at_ms < set_at_ms:
        turn.set_timer(RetryDeletions(), deletion.retry_at_ms)


def retries_due(turn: Turn) -> None:
    """The timer fired: try again what is due, and set the timer for what is not."""
    cluster = turn.context.cluster
    if cluster.paused is not None:
        # Everything is tried again when deletions go on.
        return
    due: list[tuple[str, int]] = []
    later: list[tuple[str, int]] = []
    for name, deletion in cluster.deletions.items():
        if deletion.retry_at_ms is not None:
            (due if deletion.retry_at_ms <= turn.now_ms else later).append((name, deletion.retry_at_ms))
    if later:
        turn.set_timer(RetryDeletions(), min(at_ms for _, at_ms in later))
    if due:
        turn.do(ResumeDeletions(tuple(name for name, _ in due), unblock=True))


def phase(turn: Turn, name: str, what: str, *, since_ms: int, **data: JsonValue) -> None:
    """Record that a deletion has reached a phase, and how long the step to it took."""
    topic = turn.context.cluster.topics.get(name)
    replicas = sum(len(p.assignment.replicas) for p in topic.partitions.values()) if topic else 0
    turn.record(
        FactType.DELETION_PHASE,
        f"topic/{name}",
        phase=what,
        took_ms=turn.now_ms - since_ms,
        topic_id=turn.id_of(name),
        partitions=len(topic.partitions) if topic else 0,
        replicas=replicas,
        **data,
    )
