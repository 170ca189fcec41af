"""Moves replicas from state to state, and sends brokers the requests for it.

One call moves many replicas with one batch of requests. `transitions` defines the legal moves; an illegal move is
refused and recorded for that replica alone.

    move to           requests
    ----------------  ----------------------------------------------------------------------------------------
    New               LeaderAndIsr (new) to the replica's broker, if the partition has a leader
    Online            LeaderAndIsr to the replica's broker, unless it was New
    Offline           StopReplica to its broker; unless the topic is queued, also the shrunk ISR to the other replicas
    DeletionStarted   StopReplica with delete to its broker
    the others        none
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from lethe.controller.core.context import Context
from lethe.controller.core.mutation import enter_replica_state, set_assignment
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import MoveReplicas, Replicas, ShrinkIsr
from lethe.controller.core.topic import Partition
from lethe.controller.core.transitions import REPLICA_TRANSITIONS, ReplicaState
from lethe.protocol.journal import EventRecordType, replica_ranges
from lethe.protocol.vocabulary import PartitionReplica, TopicPartition

_NON_EXISTENT: Final = ReplicaState.NON_EXISTENT


def move(step: StepContext, task: MoveReplicas) -> None:
    """Move those of these replicas to the target state that may enter it."""
    replicas = _legal(step, task.replicas, task.target)
    if not replicas:
        return
    match task.target:
        case ReplicaState.NEW:
            _to_new(step, replicas)
        case ReplicaState.ONLINE:
            _to_online(step, replicas)
        case ReplicaState.OFFLINE:
            _to_offline(step, replicas)
        case ReplicaState.DELETION_STARTED:
            _to_deletion_started(step, replicas)
        case ReplicaState.DELETION_SUCCESSFUL | ReplicaState.DELETION_INELIGIBLE | ReplicaState.NON_EXISTENT:
            _enter(step, replicas, task.target)
        case _:
            assert_never(task.target)


def acknowledge(step: StepContext, replicas: Replicas) -> Replicas:
    """Move those of these replicas to DeletionSuccessful that may enter it, and return them.

    The caller records the answers, which stand for the transitions too."""
    legal = _legal(step, replicas, ReplicaState.DELETION_SUCCESSFUL)
    enter_replica_state(step.context.cluster, legal, ReplicaState.DELETION_SUCCESSFUL)
    return legal


def _legal(step: StepContext, replicas: Replicas, target: ReplicaState) -> Replicas:
    cluster = step.context.cluster
    allowed = REPLICA_TRANSITIONS[target]
    legal = []
    last: str | None = None
    partitions: dict[int, Partition] = {}
    for replica in replicas:
        name, number, broker = replica
        if name != last:
            last, topic = name, cluster.topics.get(name)
            partitions = {} if topic is None else topic.partitions
        partition = partitions.get(number)
        state = _NON_EXISTENT if partition is None else partition.replicas.get(broker, _NON_EXISTENT)
        if partition is not None and state in allowed:
            legal.append(replica)
        else:
            step.refuse(
                f"replica/{replica}", f"{state.name} to {target.name}", "the state machine has no such transition"
            )
    return tuple(legal)


def _enter(step: StepContext, replicas: Iterable[PartitionReplica], target: ReplicaState) -> None:
    """Set the states, and record one event record for each topic and former state."""
    moved = enter_replica_state(step.context.cluster, replicas, target)
    for (topic, before), partitions in moved.items():
        step.record(
            EventRecordType.TRANSITION,
            f"topic/{topic}",
            machine="replica",
            topic_id=step.id_of(topic),
            replicas=replica_ranges(partitions),
            before=before.name,
            after=target.name,
        )


def _to_new(step: StepContext, replicas: Replicas) -> None:
    batch = step.batch()
    entered = []
    for replica in replicas:
        partition = step.context.cluster.partition_of(replica)
        leader_and_isr = None if partition is None else partition.leader_and_isr
        if leader_and_isr is not None and leader_and_isr.leader == replica.broker:
            step.refuse(f"replica/{replica}", "NON_EXISTENT to NEW", "the replica already leads its partition")
            continue
        if leader_and_isr is not None:
            batch.add_leader_and_isr((replica.broker,), replica.topic_partition, is_new=True)
        entered.append(replica)
    step.flush(batch)
    _enter(step, entered, ReplicaState.NEW)


def _to_online(step: StepContext, replicas: Replicas) -> None:
    batch = step.batch()
    for replica in replicas:
        partition = step.context.cluster.partition_of(replica)
        if partition is None:
            continue
        if partition.replicas.get(replica.broker) is ReplicaState.NEW:
            if replica.broker not in partition.assignment.replicas:
                grown = partition.assignment._replace(replicas=(*partition.assignment.replicas, replica.broker))
                set_assignment(step.context.cluster, replica.topic_partition, grown)
        elif _is_announced(step.context, replica, partition):
            batch.add_leader_and_isr((replica.broker,), replica.topic_partition, is_new=False)
    step.flush(batch)
    _enter(step, replicas, ReplicaState.ONLINE)


def _is_announced(context: Context, replica: PartitionReplica, partition: Partition) -> bool:
    """Return whether the replica is announced to its broker when it comes online.

    A queued topic's replica is announced only if that must prove its deletion, or if it was announced before. Otherwise
    a broker that has deleted it already would create it again."""
    cluster = context.cluster
    if cluster.is_queued(replica.topic):
        return cluster.must_announce(replica.broker) or cluster.was_announced(partition, replica.broker)
    return partition.leader_and_isr is not None


def _to_offline(step: StepContext, replicas: Replicas) -> None:
    """Shrink ISRs before the replicas go offline; queued topics have no leader, and their ISRs stay as written."""
    cluster = step.context.cluster
    shrinking: list[PartitionReplica] = []
    at_once: list[PartitionReplica] = []
    for replica in replicas:
        partition = cluster.partition_of(replica)
        has_leader_and_isr = partition is not None and partition.leader_and_isr is not None
        (shrinking if has_leader_and_isr and not cluster.is_queued(replica.topic) else at_once).append(replica)
    if shrinking:
        step.do(ShrinkIsr(tuple(shrinking)))
    if at_once:
        finish_offline(step, tuple(at_once))


def finish_offline(step: StepContext, replicas: Replicas) -> None:
    """Send StopReplica to the replicas' brokers and the new ISR to the other replicas, and set the state."""
    cluster = step.context.cluster
    batch = step.batch()
    gone: dict[TopicPartition, list[int]] = {}
    for topic, number, broker in replicas:
        topic_partition = TopicPartition(topic, number)
        batch.add_stop_replica(broker, topic_partition, delete=False)
        gone.setdefault(topic_partition, []).append(broker)
    for topic_partition, brokers in gone.items():
        partition = cluster.partition(topic_partition)
        if partition is None or cluster.is_queued(topic_partition.topic):
            continue
        if partition.leader_and_isr is None:
            batch.add_update_metadata(cluster.brokers, (topic_partition,))
        else:
            others = [r for r in partition.assignment.replicas if r not in brokers]
            batch.add_leader_and_isr(others, topic_partition, is_new=False)
    step.flush(batch)
    _enter(step, replicas, ReplicaState.OFFLINE)


def _to_deletion_started(step: StepContext, replicas: Replicas) -> None:
    batch = step.batch()
    for topic, number, broker in replicas:
        batch.add_stop_replica(broker, TopicPartition(topic, number), delete=True)
    _enter(step, replicas, ReplicaState.DELETION_STARTED)
    step.flush(batch)
