"""Checks the invariants of a context between two steps: in simulation, in tests, and optionally in production
(`runtime.invariant_checks`).

The result is one sentence for each violation. A check examines every replica.
"""

from __future__ import annotations

from collections.abc import Iterator

from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import NOT_WAITED_FOR, PAUSES, DeletionStage
from lethe.controller.core.effects import AnswerClients, ListAgain
from lethe.controller.core.tasks_deletion import TopicsRemoved
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.vocabulary import LEADER_NONE, BrokerId, PartitionReplica


def violations(context: Context) -> list[str]:
    """Return all violations, provided that only controllers and brokers write znodes."""
    found = [*memory_violations(context), *_foreign_members(context)]
    for topic_partition, partition in context.cluster.all_partitions():
        leader_and_isr = partition.leader_and_isr
        if leader_and_isr is not None and leader_and_isr.leader not in (LEADER_NONE, *leader_and_isr.isr):
            found.append(f"{topic_partition}: leader {leader_and_isr.leader} is not in the ISR {leader_and_isr.isr}")
    return found


def memory_violations(context: Context) -> list[str]:
    """Return the contradictions within the context, which writes by hand into ZooKeeper cannot cause."""
    cluster = context.cluster
    found = [*_counts(context), *_totals(context), *_deletions(context), *_removals(context), *_client_waits(context)]
    for topic_partition, partition in cluster.all_partitions():
        if cluster.partition_state(topic_partition) is PartitionState.ONLINE and partition.leader_and_isr is None:
            found.append(f"{topic_partition}: Online without leadership")
    known = cluster.topics or cluster.brokers or cluster.deletions or cluster.marks or cluster.outstanding
    if not context.is_leading and known:
        found.append(f"not leading ({context.role.value}), and yet the cluster is remembered")
    return found


def _removals(context: Context) -> Iterator[str]:
    """Yield topics whose removal nothing will end, lists that nothing will have read, and debts that nothing will
    settle."""
    cluster = context.cluster
    written = {name for then in cluster.background.values() if isinstance(then, TopicsRemoved) for name in then.topics}
    if written != set(cluster.removals.under_way):
        yield f"removals under way: {sorted(cluster.removals.under_way)}, written are {sorted(written)}"
    for name in cluster.removals.under_way:
        if name not in cluster.deletions:
            yield f"{name}: its removal is under way, and yet it is not queued"
    if cluster.removals.look_again and not cluster.removals.under_way and ListAgain() not in context.timers:
        yield "topics and markers are to be listed later, and no outcome or timer is awaited"
    for broker, owing_broker in cluster.owed.items():
        sent = any(owed.request_id in cluster.outstanding for owed in owing_broker.topics.values())
        if broker in cluster.brokers and not sent and owing_broker.retry_at_ms is None and not context.awaiting_result:
            yield f"broker {broker} owes {list(owing_broker.topics)}, and is not asked again"


def _client_waits(context: Context) -> Iterator[str]:
    """Yield clients that wait for an answer which nothing will give."""
    waits = context.cluster.client_waits
    for key in waits:
        if key not in context.cluster.unanswered:
            yield f"request {key} has its answer, and still waits for brokers"
    at_ms = context.timers.get(AnswerClients())
    if waits and (at_ms is None or at_ms > min(waiting.deadline_ms for waiting in waits.values())):
        yield f"requests {list(waits)} wait for brokers, and their time does not end"


def _foreign_members(context: Context) -> Iterator[str]:
    """Yield foreign ISR members, except where they are allowed.

    Foreign ISR members are removed by the next write. They are allowed while a result is outstanding, in reassigned
    or queued partitions (whose assignment shrinks first), and if the ISR has no other member."""
    cluster = context.cluster
    if context.awaiting_result:
        return
    for topic_partition, partition in cluster.all_partitions():
        known, replicas = partition.leader_and_isr, partition.assignment.replicas
        if known is None or topic_partition in cluster.reassignments or cluster.is_queued(topic_partition.topic):
            continue
        foreign_members = [broker for broker in known.isr if broker not in replicas]
        if 0 < len(foreign_members) < len(known.isr):
            yield f"{topic_partition}: ISR {known.isr} has {foreign_members}, not in the assignment {replicas}"


def _counts(context: Context) -> Iterator[str]:
    cluster = context.cluster
    offline = imbalanced = led = 0
    for topic_partition, partition in cluster.all_partitions():
        deletion, state = cluster.deletions.get(topic_partition.topic), cluster.partition_state(topic_partition)
        if state is PartitionState.OFFLINE and (deletion is None or deletion.started_at_ms is None):
            offline += 1
        if partition.leader_and_isr is not None:
            led += 1
            replicas = partition.assignment.replicas
            plain = not partition.assignment.is_being_reassigned
            if deletion is None and plain and replicas and partition.leader_and_isr.leader != replicas[0]:
                imbalanced += 1
    reassigning = any(partition.assignment.is_being_reassigned for _, partition in cluster.all_partitions())
    if offline != cluster.offline_partitions:
        yield f"offline partitions: {cluster.offline_partitions} counted, there are {offline}"
    if led != cluster.partitions_with_leader_and_isr:
        yield f"partitions with leadership: {cluster.partitions_with_leader_and_isr} counted, there are {led}"
    if not reassigning and imbalanced != cluster.preferred_imbalance:
        yield f"imbalanced partitions: {cluster.preferred_imbalance} counted, there are {imbalanced}"


def _totals(context: Context) -> Iterator[str]:
    """Compare the totals over all deletions with a fresh count."""
    cluster = context.cluster
    stages: dict[DeletionStage, int] = {}
    states: dict[ReplicaState, int] = {}
    for deletion in cluster.deletions.values():
        stages[deletion.stage] = stages.get(deletion.stage, 0) + 1
        for state, count in deletion.by_state.items():
            states[state] = states.get(state, 0) + count
    waiting: dict[BrokerId, int] = {}
    for topic in cluster.deletions:
        for replica in cluster.replicas_of(topic):
            if cluster.replica_state(replica) not in NOT_WAITED_FOR:
                waiting[replica.broker] = waiting.get(replica.broker, 0) + 1
    if waiting != cluster.waiting_replicas:
        yield f"replicas that wait for brokers are counted as {cluster.waiting_replicas}, they are {waiting}"
    if stages != cluster.topics_in_stage:
        yield f"queued topics are counted as {cluster.topics_in_stage}, they are {stages}"
    if states != cluster.doomed_replicas:
        yield f"replicas of queued topics are counted as {cluster.doomed_replicas}, they are {states}"


def _deletions(context: Context) -> Iterator[str]:
    cluster = context.cluster
    for topic, mark in cluster.marks.items():
        if topic in cluster.deletions:
            yield f"{topic}: held back ({mark.held_by.name}), and yet queued for deletion"
        if mark.held_by in PAUSES and cluster.paused is None and not context.awaiting_result:
            yield f"{topic}: held back by a pause that is over"
    for topic, deletion in cluster.deletions.items():
        if topic not in cluster.topics:
            yield f"{topic}: queued for deletion, and yet unknown"
        states: dict[ReplicaState, int] = {}
        for replica in cluster.replicas_of(topic):
            state = cluster.replica_state(replica)
            states[state] = states.get(state, 0) + 1
        if states != deletion.by_state:
            yield f"{topic}: replicas are counted as {deletion.by_state}, they are {states}"
        for partition, broker in deletion.problems:
            if (
                partition >= 0
                and cluster.replica_state(PartitionReplica(topic, partition, BrokerId(broker)))
                is ReplicaState.DELETION_SUCCESSFUL
            ):
                yield f"{topic}-{partition}: broker {broker} has confirmed, and yet a problem is remembered"
