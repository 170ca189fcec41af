"""Changes of the cluster state that derived counts depend on. No other module writes these fields.

    count                                         without
    --------------------------------------------  ----------------------------------
    offline partitions                            topics whose deletion has started
    partitions not led by the preferred replica   queued topics
    partitions with leadership
    replicas to delete, by state and by broker    topics that are not queued
    queued topics by stage

Metrics and the board read these counts at constant cost, for any number of topics.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

from lethe.controller.core import tombstones
from lethe.controller.core.cluster_state import ClusterState, Outstanding
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import NO_ORDERS, Deletion, DeletionStage, RetriedAction
from lethe.controller.core.partition_sets import (
    Bits,
    PartitionColumns,
    ReplicaColumns,
    Sets,
    bits_of,
    changes,
    numbers_in,
    partitions_in,
    put,
)
from lethe.controller.core.replica_counts import (
    add,
    count_replicas,
    count_waiting,
    move_doomed,
    move_replica,
    stop_waiting,
)
from lethe.controller.core.topic import Partition, Reassignment, ReplicaConfirmation, Topic
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.kafka.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from lethe.protocol.kafka.queries import DescribeLogDirsRequest
from lethe.protocol.vocabulary import (
    BrokerId,
    LeaderAndIsr,
    PartitionReplica,
    ReplicaAssignment,
    TopicId,
    TopicPartition,
)

K = TypeVar("K", bound=Hashable)
_NON_EXISTENT: Final = ReplicaState.NON_EXISTENT
MAX_RETRY_REASONS: Final = 64
"""Limit of distinct reasons: a broker that answers with arbitrary error codes must not fill the memory."""
OTHER_REASONS: Final = "other"


def _is_imbalanced(assignment: ReplicaAssignment, leader_and_isr: LeaderAndIsr) -> bool:
    if not assignment.replicas:
        return False
    preferred = assignment.replicas[0]
    if preferred in assignment.adding:
        # As in Kafka: while the preferred replica is being added, the partition counts once that replica is in sync.
        return preferred in leader_and_isr.isr
    return leader_and_isr.leader != preferred


def _set_led(cluster: ClusterState, name: str, topic: Topic, led: Bits, imbalanced: Bits) -> None:
    """Set which of the topic's partitions have leadership, and which of them by another than the preferred replica."""
    cluster.partitions_with_leader_and_isr += led.bit_count() - topic.led.bit_count()
    if name not in cluster.deletions:
        cluster.preferred_imbalance += imbalanced.bit_count() - topic.imbalanced.bit_count()
    topic.led, topic.imbalanced = led, imbalanced


# --- topics -------------------------------------------------------------------------------------------------------


def add_topic(
    cluster: ClusterState,
    name: str,
    topic_id: TopicId | None,
    assignments: dict[int, ReplicaAssignment],
    *,
    now_ms: int = 0,
    version: int = 0,
    created_zxid: int = 0,
    is_made_up: bool = False,
) -> None:
    """Add a topic, with all its partitions NonExistent and without leadership."""
    partitions = {number: Partition(assignment) for number, assignment in sorted(assignments.items())}
    numbers = bits_of(partitions)
    cluster.topics[name] = Topic(topic_id, partitions, version, created_zxid, is_made_up, numbers=numbers)
    for number, partition in partitions.items():
        if partition.assignment.is_being_reassigned:
            cluster.reassignments[TopicPartition(name, number)] = Reassignment(now_ms, partition.assignment)


def remove_topic(cluster: ClusterState, name: str) -> None:
    """Drop a topic: states, leadership, deletion and offline directories."""
    deletion = cluster.deletions.get(name)
    if deletion is not None:
        stop_waiting(cluster, name, deletion)
    topic = cluster.topics.get(name)
    if topic is not None:
        _set_led(cluster, name, topic, 0, 0)
        enter_partition_state(cluster, {name: topic.numbers}, PartitionState.NON_EXISTENT)
        failed_dirs = [offline for offline in cluster.offline_dirs.values() if offline]
        for topic_partition in partitions_in({name: topic.numbers}) if failed_dirs or cluster.reassignments else ():
            for offline in failed_dirs:
                offline.pop(topic_partition, None)
            cluster.reassignments.pop(topic_partition, None)
        del cluster.topics[name]
    deletion = cluster.deletions.pop(name, None)
    if deletion is not None:
        count_replicas(cluster, deletion, -1)
        add(cluster.topics_in_stage, deletion.stage, -1)
        if deletion.tombstones is not None:
            del deletion.tombstones.topics[name]
    cluster.marks.pop(name, None)
    forget_marker(cluster, name)


def forget_marker(cluster: ClusterState, name: str) -> None:
    """Drop what was stored of the marker: the next one is read."""
    cluster.marker_times.pop(name, None)
    cluster.marker_orders.pop(name, None)
    cluster.pacing.leave(name)


def set_leader_and_isr(cluster: ClusterState, topic_partition: TopicPartition, leader_and_isr: LeaderAndIsr) -> None:
    """Store the present content of the partition's state znode."""
    set_leaders(cluster, topic_partition.topic, {topic_partition.partition: leader_and_isr})


def set_leaders(cluster: ClusterState, name: str, states: Mapping[int, LeaderAndIsr]) -> None:
    """Store the present content of the state znodes of these partitions of the topic; unknown ones are ignored."""
    topic = cluster.topics.get(name)
    if topic is None:
        return
    led: list[int] = []
    imbalanced: list[int] = []
    for number, state in states.items():
        partition = topic.partitions.get(number)
        if partition is None:
            continue
        partition.leader_and_isr = state
        led.append(number)
        if _is_imbalanced(partition.assignment, state):
            imbalanced.append(number)
    stored = bits_of(led)
    _set_led(cluster, name, topic, topic.led | stored, (topic.imbalanced & ~stored) | bits_of(imbalanced))


def set_assignment(cluster: ClusterState, topic_partition: TopicPartition, assignment: ReplicaAssignment) -> None:
    """Replace the assignment of a known topic's partition; add the partition if it is new."""
    name, number = topic_partition
    topic = cluster.topics[name]
    topic.assigned_columns = None
    partition = topic.partitions.get(number)
    if partition is None:
        topic.partitions[number] = Partition(assignment)
        topic.numbers |= 1 << number
        return
    partition.assignment = assignment
    if partition.leader_and_isr is not None:
        set_leaders(cluster, name, {number: partition.leader_and_isr})


def begin_reassignment(
    cluster: ClusterState, topic_partition: TopicPartition, assignment: ReplicaAssignment, now_ms: int
) -> None:
    """Store a reassignment that was written into the topic's znode, perhaps with a new target."""
    set_assignment(cluster, topic_partition, assignment)
    known = cluster.reassignments.get(topic_partition)
    since_ms = now_ms if known is None else known.since_ms
    # A broker that is assigned again no longer counts as deleting its replica.
    retiring = {} if known is None else {b: None for b in known.retiring if b not in assignment.replicas}
    cluster.reassignments[topic_partition] = Reassignment(since_ms, assignment, retiring=retiring)


def end_reassignment(cluster: ClusterState, topic_partition: TopicPartition, assignment: ReplicaAssignment) -> None:
    """Store that the topic's znode has no reassignment of the partition any more."""
    set_assignment(cluster, topic_partition, assignment)
    cluster.reassignments.pop(topic_partition, None)


# --- states -------------------------------------------------------------------------------------------------------


def enter_partition_state(
    cluster: ClusterState, partitions: PartitionColumns, state: PartitionState
) -> dict[tuple[str, PartitionState], Bits]:
    """Set the state of known partitions; return the changed ones by topic and former state.

    The caller has checked the transitions."""
    moved: dict[tuple[str, PartitionState], Bits] = {}
    for name, bits in partitions.items():
        topic, deletion = cluster.topics[name], cluster.deletions.get(name)
        for before, changed in changes(topic.states, bits, state, PartitionState.NON_EXISTENT):
            moved[name, before] = changed
            if deletion is None or deletion.started_at_ms is None:
                difference = (state is PartitionState.OFFLINE) - (before is PartitionState.OFFLINE)
                cluster.offline_partitions += difference * changed.bit_count()
        topic.states = put(topic.states, bits, None if state is PartitionState.NON_EXISTENT else state)
    return moved


def set_replica_state(cluster: ClusterState, replica: PartitionReplica, state: ReplicaState) -> ReplicaState:
    """Set the state of a replica of a known partition, and return the former state.

    NonExistent removes the replica from the assignment, as in Kafka."""
    partition = cluster.partition(replica.topic_partition)
    if partition is None:
        return _NON_EXISTENT
    name, number, broker = replica
    topic = cluster.topics[name]
    deletion = cluster.deletions.get(name)
    before = topic.replica_state(number, broker)
    if deletion is not None:
        count_replicas(cluster, deletion, -1)
        # Only assigned replicas are counted: outside a reassignment there are no others.
        move_replica(deletion, before, state)
        count_waiting(cluster, broker, before, None if state is _NON_EXISTENT else state)
    _put(topic.replicas, broker, 1 << number, None if state is _NON_EXISTENT else state)
    if state is _NON_EXISTENT:
        note_confirmations(cluster, name, broker, 1 << number, None)
        set_assignment(cluster, replica.topic_partition, partition.assignment.without(broker))
        if deletion is not None:
            move_replica(deletion, _NON_EXISTENT, None)
    if deletion is not None:
        count_replicas(cluster, deletion, +1)
    return before


def _put(by_broker: dict[int, Sets[K]], broker: int, bits: Bits, key: K | None) -> None:
    left = put(by_broker.get(broker, ()), bits, key)
    if left:
        by_broker[broker] = left
    else:
        by_broker.pop(broker, None)


def note_confirmations(
    cluster: ClusterState, name: str, broker: BrokerId, partitions: Bits, confirmation: ReplicaConfirmation | None
) -> None:
    """Store the latest LeaderAndIsr for the topic's replicas on the broker; None: it confirms nothing."""
    topic = cluster.topics.get(name)
    if topic is not None:
        _put(topic.confirmations, broker, partitions, confirmation)


def enter_replica_state(
    cluster: ClusterState, replicas: ReplicaColumns, state: ReplicaState
) -> dict[tuple[str, ReplicaState], dict[BrokerId, Bits]]:
    """As `set_replica_state` for many replicas of known partitions; return the changed ones by topic and former
    state."""
    moved: dict[tuple[str, ReplicaState], dict[BrokerId, Bits]] = {}
    for name, columns in replicas.items():
        topic, deletion = cluster.topics[name], cluster.deletions.get(name)
        if state is _NON_EXISTENT:
            for broker, bits in columns.items():
                for number in numbers_in(bits):
                    before = set_replica_state(cluster, PartitionReplica(name, number, broker), state)
                    _note_moved(moved, name, broker, before, 1 << number)
            continue
        for broker, bits in columns.items():
            for before, changed in changes(topic.replicas.get(broker, ()), bits, state, _NON_EXISTENT):
                _note_moved(moved, name, broker, before, changed)
                if deletion is not None:
                    number = changed.bit_count()
                    move_replica(deletion, before, state, number)
                    move_doomed(cluster, before, state, number)
                    count_waiting(cluster, broker, before, state, number)
            _put(topic.replicas, broker, bits, state)
    return moved


def _note_moved(
    moved: dict[tuple[str, ReplicaState], dict[BrokerId, Bits]],
    name: str,
    broker: BrokerId,
    before: ReplicaState,
    bits: Bits,
) -> None:
    columns = moved.setdefault((name, before), {})
    columns[broker] = columns.get(broker, 0) | bits


def set_first_replica_states(cluster: ClusterState, name: str) -> None:
    """Set the first states of a loaded topic's replicas: Online on registered brokers, else DeletionIneligible."""
    assigned = cluster.topics[name].assigned()
    for state in (ReplicaState.ONLINE, ReplicaState.DELETION_INELIGIBLE):
        is_online = state is ReplicaState.ONLINE
        columns = {broker: bits for broker, bits in assigned.items() if (broker in cluster.brokers) is is_online}
        enter_replica_state(cluster, {name: columns}, state)


# --- deletions ----------------------------------------------------------------------------------------------------


def queue_deletion(cluster: ClusterState, name: str, now_ms: int) -> None:
    """Queue the topic for deletion, unless it is queued; it no longer counts as imbalanced."""
    if name in cluster.deletions:
        return
    topic = cluster.topics.get(name)
    if topic is not None:
        cluster.preferred_imbalance -= topic.imbalanced.bit_count()
    mark = cluster.marks.pop(name, None)
    seen_at_ms = now_ms if mark is None else mark.since_ms
    marked_at_ms = cluster.marker_times.pop(name, seen_at_ms)
    orders = cluster.marker_orders.pop(name, NO_ORDERS)
    deletion = Deletion(queued_at_ms=now_ms, marked_at_ms=marked_at_ms, orders=orders)
    if topic is not None:
        for broker, bits in topic.assigned().items():
            for state, here in changes(topic.replicas.get(broker, ()), bits, None, _NON_EXISTENT):
                deletion.by_state[state] = deletion.by_state.get(state, 0) + here.bit_count()
                count_waiting(cluster, broker, None, state, here.bit_count())
    cluster.pacing.leave(name)
    cluster.deletions[name] = deletion
    count_replicas(cluster, deletion, +1)
    add(cluster.topics_in_stage, deletion.stage, +1)


def start_deletion(cluster: ClusterState, deletion: Deletion, now_ms: int) -> None:
    """Store that the deletion has started: the topic's partitions have left service."""
    before = deletion.stage
    deletion.started_at_ms = now_ms
    _count_stage(cluster, before, deletion)


def set_ineligible(cluster: ClusterState, deletion: Deletion, ineligible: bool) -> None:
    """Set whether the deletion waits for a cause that must change first."""
    before = deletion.stage
    deletion.ineligible = ineligible
    _count_stage(cluster, before, deletion)


def acknowledge_deletion(cluster: ClusterState, deletion: Deletion, now_ms: int | None) -> None:
    """Store that every replica is deleted or owed; None: not any more, as a broker has returned."""
    before = deletion.stage
    deletion.acknowledged_at_ms = now_ms
    _count_stage(cluster, before, deletion)


def _count_stage(cluster: ClusterState, before: DeletionStage, deletion: Deletion) -> None:
    after = deletion.stage
    if after is not before:
        add(cluster.topics_in_stage, before, -1)
        add(cluster.topics_in_stage, after, +1)


def count_retry(context: Context, what: RetriedAction, why: str) -> None:
    """Count the retry of a failed part of a deletion. `why` is a name from a small set."""
    key = (what, why)
    if key not in context.deletion_retries and len(context.deletion_retries) >= MAX_RETRY_REASONS:
        key = (what, OTHER_REASONS)
    context.deletion_retries[key] = context.deletion_retries.get(key, 0) + 1


# --- brokers ------------------------------------------------------------------------------------------------------


def forget_broker_memory(cluster: ClusterState, broker: BrokerId) -> None:
    """Drop the memory of one incarnation of a broker: failed directories, shutdown, requests, tombstones."""
    cluster.offline_dirs.pop(broker, None)
    cluster.log_dir_evidence.pop(broker, None)
    cluster.shutting_down.pop(broker, None)
    cluster.last_answers.pop(broker, None)
    for request_id in [i for i, request in cluster.outstanding.items() if request.broker == broker]:
        del cluster.outstanding[request_id]
    tombstones.forget_broker(cluster.deletions, broker)
    cluster.debts.forget_incarnation(broker)


def note_sent(cluster: ClusterState, request_id: int, outstanding: Outstanding, *, confirms: bool) -> None:
    """Store a request until it is answered, with its tombstones, and if it `confirms` with the replicas in it."""
    cluster.outstanding[request_id] = outstanding
    broker, epoch, request, _ = outstanding
    match request:
        case LeaderAndIsrRequest() if not confirms:
            pass
        case LeaderAndIsrRequest():
            confirmation = ReplicaConfirmation(epoch, request_id, confirmed=False)
            for topic in request.topics:
                announced = bits_of(row.partition for row in topic.partitions)
                note_confirmations(cluster, topic.topic, broker, announced, confirmation)
        case UpdateMetadataRequest():
            if cluster.deletions:
                names = (topic.topic for topic in request.topics)
                tombstones.note_sent(cluster.deletions, names, broker, epoch, request_id)
        case StopReplicaRequest() | DescribeLogDirsRequest():
            pass
