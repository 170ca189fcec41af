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

from functools import partial
from typing import Final, assert_never

from lethe.controller.core.context import Context
from lethe.controller.core.mutation import enter_replica_state, set_assignment
from lethe.controller.core.partition_sets import (
    Bits,
    ReplicaColumns,
    chosen,
    columns_of,
    numbers_in,
    partitions_of,
    ranges_of,
    replicas_in,
    union,
    without,
)
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import MoveReplicas, ShrinkIsr
from lethe.controller.core.transitions import REPLICA_TRANSITIONS, ReplicaState
from lethe.protocol.journal import EventRecordType, replica_ranges
from lethe.protocol.vocabulary import BrokerId, PartitionReplica, TopicPartition

_NEW: Final = (ReplicaState.NEW,)
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
        case (
            ReplicaState.DELETION_SUCCESSFUL
            | ReplicaState.DELETION_INELIGIBLE
            | ReplicaState.DELETION_OWED
            | ReplicaState.NON_EXISTENT
        ):
            _enter(step, replicas, task.target)
        case _:
            assert_never(task.target)


def acknowledge(step: StepContext, replicas: ReplicaColumns) -> ReplicaColumns:
    """Move those of these replicas to DeletionSuccessful that may enter it, and return them.

    The caller records the answers, which stand for the transitions too."""
    legal = _legal(step, replicas, ReplicaState.DELETION_SUCCESSFUL)
    enter_replica_state(step.context.cluster, legal, ReplicaState.DELETION_SUCCESSFUL)
    return legal


def _legal(step: StepContext, replicas: ReplicaColumns, target: ReplicaState) -> ReplicaColumns:
    allowed = REPLICA_TRANSITIONS[target]
    found: dict[str, dict[BrokerId, Bits]] = {}
    for name, columns in replicas.items():
        topic = step.context.cluster.topics.get(name)
        known = topic.numbers if topic is not None and _NON_EXISTENT in allowed else 0
        for broker, bits in columns.items():
            legal = 0 if topic is None else bits & topic.in_states(broker, allowed)
            if legal != bits and topic is not None:
                legal |= bits & known & ~partitions_of(topic.replicas.get(broker, ()))
            if legal:
                found.setdefault(name, {})[broker] = legal
            if legal != bits:
                _refuse(step, name, broker, bits & ~legal, target)
    return found


def _refuse(step: StepContext, name: str, broker: BrokerId, bits: Bits, target: ReplicaState) -> None:
    for number in numbers_in(bits):
        replica = PartitionReplica(name, number, broker)
        before = step.context.cluster.replica_state(replica)
        step.refuse(f"replica/{replica}", f"{before.name} to {target.name}", "the state machine has no such transition")


def _enter(step: StepContext, replicas: ReplicaColumns, target: ReplicaState) -> None:
    """Set the states, and record one event record for each topic and former state."""
    moved = enter_replica_state(step.context.cluster, replicas, target)
    for (topic, before), columns in moved.items():
        step.record(
            EventRecordType.TRANSITION,
            f"topic/{topic}",
            machine="replica",
            topic_id=step.id_of(topic),
            replicas=replica_ranges({broker: ranges_of(bits) for broker, bits in columns.items()}),
            before=before.name,
            after=target.name,
        )


def _to_new(step: StepContext, replicas: ReplicaColumns) -> None:
    """Announce replicas of partitions that have leaders. New topics, of which most replicas are, have none yet."""
    batch = step.batch()
    topics = step.context.cluster.topics
    leaders: list[PartitionReplica] = []
    for replica in replicas_in(chosen(replicas, lambda name, _, bits: bits & topics[name].led)):
        partition = topics[replica.topic].partitions[replica.partition]
        if partition.leader_and_isr is not None and partition.leader_and_isr.leader == replica.broker:
            step.refuse(f"replica/{replica}", "NON_EXISTENT to NEW", "the replica already leads its partition")
            leaders.append(replica)
            continue
        batch.add_leader_and_isr((replica.broker,), replica.topic_partition, is_new=True)
    step.flush(batch)
    _enter(step, without(replicas, columns_of(leaders)), ReplicaState.NEW)


def _to_online(step: StepContext, replicas: ReplicaColumns) -> None:
    cluster = step.context.cluster
    batch = step.batch()
    new = chosen(replicas, lambda name, broker, bits: bits & cluster.topics[name].in_states(broker, _NEW))
    for name, columns in new.items():
        topic = cluster.topics[name]
        assigned = topic.assigned()
        for broker, bits in columns.items():
            for number in numbers_in(bits & ~assigned.get(broker, 0)):
                assignment = topic.partitions[number].assignment
                grown = assignment._replace(replicas=(*assignment.replicas, broker))
                set_assignment(cluster, TopicPartition(name, number), grown)
    announced = chosen(without(replicas, new), partial(_announced, step.context))
    for name, columns in announced.items():
        batch.add_leader_and_isrs(name, union(columns), columns, is_new=False)
    step.flush(batch)
    _enter(step, replicas, ReplicaState.ONLINE)


def _announced(context: Context, name: str, broker: BrokerId, partitions: Bits) -> Bits:
    """Return those of these replicas that are announced to their broker when they come online.

    A queued topic's replica is announced only if that must prove its deletion, or if it was announced before. Otherwise
    a broker that has deleted it already would create it again."""
    cluster = context.cluster
    if cluster.is_queued(name):
        return partitions if cluster.must_announce(broker) else partitions & cluster.announced(name, broker)
    return partitions & cluster.topics[name].led


def _to_offline(step: StepContext, replicas: ReplicaColumns) -> None:
    """Shrink ISRs before the replicas go offline; queued topics have no leader, and their ISRs stay as written."""
    cluster = step.context.cluster
    doomed = {name: columns for name, columns in replicas.items() if cluster.is_queued(name)}
    in_service = {name: columns for name, columns in replicas.items() if name not in doomed}
    shrinking = chosen(in_service, lambda name, _, bits: bits & cluster.topics[name].led)
    at_once = without(in_service, shrinking)
    if shrinking:
        step.do(ShrinkIsr(shrinking))
    if doomed or at_once:
        finish_offline(step, {**doomed, **at_once})


def finish_offline(step: StepContext, replicas: ReplicaColumns) -> None:
    """Send StopReplica to the replicas' brokers and the new ISR to the other replicas, and set the state."""
    cluster = step.context.cluster
    batch = step.batch()
    for name, columns in replicas.items():
        for broker, bits in columns.items():
            batch.add_stop_replicas(broker, name, bits, delete=False)
        topic = cluster.topics.get(name)
        if topic is None or cluster.is_queued(name):
            continue
        gone = union(columns)
        others = {broker: bits & ~columns.get(broker, 0) for broker, bits in topic.assigned().items()}
        batch.add_leader_and_isrs(name, gone & topic.led, others, is_new=False)
        if leaderless := gone & topic.numbers & ~topic.led:
            batch.add_update_metadata(cluster.brokers, {name: leaderless})
    step.flush(batch)
    _enter(step, replicas, ReplicaState.OFFLINE)


def _to_deletion_started(step: StepContext, replicas: ReplicaColumns) -> None:
    batch = step.batch()
    for name, columns in replicas.items():
        for broker, bits in columns.items():
            batch.add_stop_replicas(broker, name, bits, delete=True)
    _enter(step, replicas, ReplicaState.DELETION_STARTED)
    step.flush(batch)
