"""The end of a reassignment: it completes, or its topic is marked for deletion.

Completion has Kafka's order, so that the next controller can continue after a crash: a target replica leads, the
removed replicas are stopped and deleted, their brokers answer or are gone, the topic's znode is written. Until that
write has succeeded, the partition counts as being reassigned.

If the topic is marked for deletion, the reassignment is cancelled. One fenced multi for each topic checks that the
marker exists and writes the znode with every replica, nothing to add and nothing to remove:

    origin [1, 2], target [2, 3]    replicas [2, 3, 1], adding [], removing []

Then the deletion is queued, and so reaches all of them. A topic that is held or goes into the trash stays in service:
all its replicas are announced, as some may never have been, or were deleted with an abandoned target. A crash before or
after the multi leaves a marked topic with or without a reassignment; the next controller can handle both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lethe.controller.core import election
from lethe.controller.core.context import Context
from lethe.controller.core.expansion import note_written, set_topic, znode_of
from lethe.controller.core.leader_changes import online, read_again
from lethe.controller.core.mutation import end_reassignment, set_assignment, set_leader_and_isr, set_replica_state
from lethe.controller.core.partition_machine import enter
from lethe.controller.core.partition_sets import columns_of, partition_columns
from lethe.controller.core.reassignment import in_words, refuse_state, retry_later
from lethe.controller.core.state_writes import is_stale, set_states, with_next_version
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ReadModifiedTopics
from lethe.controller.core.tasks_deletion import ListDeletions, QueueDeletions
from lethe.controller.core.tasks_partitions import MoveReplicas
from lethe.controller.core.tasks_reassignment import (
    AnnounceReassignments,
    EndReassignments,
    FinishReassignments,
    LeadTargets,
    ProgressReassignments,
    ReassignmentsEnded,
    ReassignmentsFinished,
    RetireReplicas,
    StartReassignments,
    Target,
    TargetsLed,
    TrimReassignments,
)
from lethe.controller.core.topic import Partition, Reassignment
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, PartitionReplica, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Check, Operation, ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome, write_failure_words

_DELETING: Final = "deleting a replica that was moved away"

# --- leading ------------------------------------------------------------------------------------------------------


def lead(step: StepContext, task: LeadTargets) -> None:
    """Write a leader from the targets, or the next leader epoch if a target leads already."""
    context = step.context
    states: dict[TopicPartition, LeaderAndIsr] = {}
    without: list[TopicPartition] = []
    for topic_partition in task.partitions:
        partition = context.cluster.partition(topic_partition)
        if partition is None or topic_partition not in context.cluster.reassignments:
            continue
        state = _led_by_target(context, topic_partition, partition)
        if state is not None:
            states[topic_partition] = state
        elif not partition.assignment.is_being_reassigned:
            # Cancelled while no origin replica can lead: it waits for a leader like any other partition.
            without.append(topic_partition)
    if without:
        _leave(step, without)
    if states:
        step.write(set_states(states.items()), TargetsLed(tuple(states), tuple(states.values())))


def _led_by_target(context: Context, topic_partition: TopicPartition, partition: Partition) -> LeaderAndIsr | None:
    cluster = context.cluster
    if partition.leader_and_isr is None:
        return None
    current = election.without_foreign_isr_members(partition.assignment, partition.leader_and_isr)
    if current.leader in partition.assignment.target and cluster.is_online(topic_partition, current.leader):
        return election.raised(current, cluster.epoch)
    result = election.reassign(partition.assignment, current, online(context, topic_partition), cluster.epoch)
    return result.leader_and_isr if isinstance(result, election.Elected) else None


def on_targets_led(step: StepContext, task: TargetsLed, outcomes: Sequence[GroupOutcome]) -> None:
    """Announce the leaders to the target replicas: the target is the assignment now, and the others can go."""
    cluster = step.context.cluster
    batch = step.batch()
    done: list[TopicPartition] = []
    stale: list[TopicPartition] = []
    for topic_partition, state, outcome in zip(task.partitions, task.leader_and_isr, outcomes, strict=True):
        partition = cluster.partition(topic_partition)
        if partition is None:
            continue
        if isinstance(outcome, GroupDone):
            target = partition.assignment.target
            set_leader_and_isr(cluster, topic_partition, with_next_version(state))
            set_assignment(cluster, topic_partition, ReplicaAssignment(target))
            batch.add_leader_and_isr(target, topic_partition, is_new=False)
            done.append(topic_partition)
        elif is_stale(outcome):
            stale.append(topic_partition)
        else:
            refuse_state(step, topic_partition, "leading the target of a reassignment", outcome)
    enter(step, partition_columns(done), PartitionState.ONLINE)
    step.flush(batch)
    if stale:
        read_again(step, stale, LeadTargets(tuple(stale)))
    _leave(step, done)


def _leave(step: StepContext, partitions: Sequence[TopicPartition]) -> None:
    context = step.context
    for topic_partition in partitions:
        context.cluster.reassignments[topic_partition].is_led = True
    arrived = [
        PartitionReplica(*tp, BrokerId(broker))
        for tp, partition in _known(context, partitions)
        for broker in partition.assignment.replicas
        if context.cluster.replica_state(PartitionReplica(*tp, BrokerId(broker))) is ReplicaState.NEW
    ]
    step.do(
        MoveReplicas(columns_of(arrived), ReplicaState.ONLINE),
        RetireReplicas(context.cluster.replicas_left_over(partitions)),
        FinishReassignments(tuple(partitions)),
    )


def _known(context: Context, partitions: Iterable[TopicPartition]) -> Iterable[tuple[TopicPartition, Partition]]:
    for topic_partition in partitions:
        partition = context.cluster.partition(topic_partition)
        if partition is not None:
            yield topic_partition, partition


# --- retiring -----------------------------------------------------------------------------------------------------


def retire(step: StepContext, task: RetireReplicas) -> None:
    """Move these replicas through all states to NonExistent; record logs that stay on unregistered brokers."""
    if not task.replicas:
        return
    cluster = step.context.cluster
    for replica in task.replicas:
        known = cluster.reassignments.get(replica.topic_partition)
        is_known = cluster.partition(replica.topic_partition) is not None
        if is_known and cluster.replica_state(replica) is ReplicaState.NON_EXISTENT:
            # The broker received the request before it registered again.
            set_replica_state(cluster, replica, ReplicaState.NEW)
        if replica.broker not in cluster.brokers:
            step.refuse(f"replica/{replica}", _DELETING, "its broker is not registered: its log stays on the disk")
        elif known is not None:
            known.retiring[replica.broker] = None
    replicas = columns_of(task.replicas)
    step.do(
        MoveReplicas(replicas, ReplicaState.OFFLINE),
        MoveReplicas(replicas, ReplicaState.DELETION_STARTED),
        MoveReplicas(replicas, ReplicaState.DELETION_SUCCESSFUL),
        MoveReplicas(replicas, ReplicaState.NON_EXISTENT),
    )


def answered(step: StepContext, broker: BrokerId, verdicts: Mapping[TopicPartition, str | None]) -> None:
    """Handle a broker's verdicts on deleting removed replicas: None, or the error; continue their reassignments."""
    cluster = step.context.cluster
    going_on: list[TopicPartition] = []
    for topic_partition, problem in verdicts.items():
        known = cluster.reassignments.get(topic_partition)
        if known is None or broker not in known.retiring:
            continue
        del known.retiring[broker]
        going_on.append(topic_partition)
        if problem is not None:
            replica = PartitionReplica(*topic_partition, broker)
            step.refuse(f"replica/{replica}", _DELETING, f"{problem}: its log may stay on the disk")
    if going_on:
        step.do(ProgressReassignments(tuple(going_on)))


def left_on(context: Context, brokers: Sequence[BrokerId]) -> tuple[PartitionReplica, ...]:
    """Return the removed replicas on these brokers, which have just registered again: they must be deleted again.

    Earlier requests and answers no longer count. After the topic's znode is written no controller can find these
    replicas."""
    return tuple(
        PartitionReplica(*topic_partition, broker)
        for topic_partition, known in context.cluster.reassignments.items()
        for broker in brokers
        if broker in known.retiring or broker in _moved_away(context, topic_partition, known)
    )


def _moved_away(context: Context, topic_partition: TopicPartition, known: Reassignment) -> tuple[int, ...]:
    partition = context.cluster.partition(topic_partition)
    stay = () if partition is None else partition.assignment.replicas
    return tuple(broker for broker in known.written.replicas if broker not in stay)


def broker_failed(step: StepContext, broker: BrokerId) -> None:
    """Stop waiting for this broker's answers."""
    moving = step.context.cluster.reassignments.items()
    answered(step, broker, {tp: "its broker is gone" for tp, known in moving if broker in known.retiring})


# --- finishing ----------------------------------------------------------------------------------------------------


def finish(step: StepContext, task: FinishReassignments) -> None:
    """Write these reassignments without the replicas that are retired, with one write for each topic.

    A reassignment that has not arrived keeps the rest, without the replicas of its abandoned target."""
    context = step.context
    by_topic: dict[str, list[TopicPartition]] = {}
    for topic_partition, partition in _known(context, task.partitions):
        known = context.cluster.reassignments.get(topic_partition)
        if known is None or known.retiring:
            continue
        if any(broker not in partition.assignment.replicas for broker in context.cluster.hosts(topic_partition)):
            step.refuse(
                f"partition/{topic_partition}", "finishing its reassignment", "a removed replica is not stopped"
            )
            retry_later(step)
            continue
        by_topic.setdefault(topic_partition.topic, []).append(topic_partition)
    if by_topic:
        step.write(
            [(set_topic(context, name, _with_arrived(context, name, mine)),) for name, mine in by_topic.items()],
            ReassignmentsFinished(tuple(by_topic), tuple(map(tuple, by_topic.values()))),
        )


def _with_arrived(context: Context, name: str, partitions: Iterable[TopicPartition]) -> znodes.TopicZnode:
    znode = znode_of(context, name)
    assignments = dict(znode.assignments)
    for topic_partition, partition in _known(context, partitions):
        assignments[topic_partition.partition] = partition.assignment
    return znodes.TopicZnode(assignments, znode.topic_id)


def on_reassignments_finished(step: StepContext, task: ReassignmentsFinished, outcomes: Sequence[GroupOutcome]) -> None:
    """Finish the written reassignments: announce them, and remove them from `/admin/reassign_partitions`."""
    context = step.context
    cluster = context.cluster
    batch = step.batch()
    done: list[TopicPartition] = []
    for name, partitions, outcome in zip(task.topics, task.partitions, outcomes, strict=True):
        if isinstance(outcome, GroupDone):
            note_written(context, name)
            done.extend(partitions)
        elif isinstance(outcome, GroupFailed) and outcome.error is ZkError.BAD_VERSION:
            step.do(ReadModifiedTopics((name,)), FinishReassignments(partitions))
        else:
            why = write_failure_words(outcome)
            step.refuse(f"topic/{name}", "finishing reassignments", f"writing its znode: {why}")
            retry_later(step)
    done = _without_those_under_way(context, done)
    held = [(tp, cluster.reassignments[tp].held_target) for tp in done if tp in cluster.reassignments]
    for topic_partition, partition in _known(context, done):
        end_reassignment(cluster, topic_partition, partition.assignment)
        step.record(
            EventRecordType.REASSIGNMENT,
            f"partition/{topic_partition}",
            what="done",
            target=in_words(partition.assignment.replicas),
        )
    if done:
        cluster.reassignment_retries = 0
        batch.add_update_metadata(cluster.brokers, partition_columns(done))
        step.flush(batch)
        context.tasks.append(TrimReassignments())
    # The remaining replicas are in sync now, so the held target can start.
    step.do(StartReassignments(tuple(Target(tp, target) for tp, target in held if target is not None)))


def _without_those_under_way(context: Context, written: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Store that the replicas of an abandoned target are gone; return the partitions where nothing moves any more."""
    done: list[TopicPartition] = []
    for topic_partition, partition in _known(context, written):
        known = context.cluster.reassignments.get(topic_partition)
        if known is not None and partition.assignment.is_being_reassigned:
            known.written = partition.assignment
        else:
            done.append(topic_partition)
    return done


# --- ending for a deletion ----------------------------------------------------------------------------------------


def cancel(step: StepContext, task: EndReassignments) -> None:
    """Write the znodes of these topics with all replicas and no reassignment, if they are still marked."""
    context = step.context
    names = [name for name in task.topics if name in context.cluster.topics and not context.cluster.is_queued(name)]
    if names:
        groups = [(Check(paths.delete_topic(name), ANY_VERSION), _with_all_replicas(context, name)) for name in names]
        step.write(groups, ReassignmentsEnded(tuple(names), task.loading))


def _with_all_replicas(context: Context, name: str) -> Operation:
    znode = znode_of(context, name)
    assignments = {
        number: ReplicaAssignment(_all_replicas(context, TopicPartition(name, number), assignment))
        for number, assignment in znode.assignments.items()
    }
    return set_topic(context, name, znodes.TopicZnode(assignments, znode.topic_id))


def _all_replicas(context: Context, topic_partition: TopicPartition, assignment: ReplicaAssignment) -> tuple[int, ...]:
    """Return all replicas, including retired ones, whose deletion is not confirmed."""
    known = context.cluster.reassignments.get(topic_partition)
    return tuple(dict.fromkeys((*assignment.replicas, *(() if known is None else known.written.replicas))))


def on_reassignments_ended(step: StepContext, task: ReassignmentsEnded, outcomes: Sequence[GroupOutcome]) -> None:
    """Queue the written topics with every replica; continue the reassignments of topics whose marker is gone."""
    context = step.context
    ended: list[str] = []
    stopped: list[TopicPartition] = []
    again: list[str] = []
    unmarked = False
    for name, outcome in zip(task.topics, outcomes, strict=True):
        if isinstance(outcome, GroupDone):
            note_written(context, name)
            stopped += _take_over(step, name)
            ended.append(name)
        elif outcome == GroupFailed(1, ZkError.BAD_VERSION):
            again.append(name)
        elif outcome == GroupFailed(0, ZkError.NO_NODE):
            unmarked = True
        else:
            why = write_failure_words(outcome)
            step.refuse(f"topic/{name}", "ending its reassignments before it is deleted", why)
            note_end_refused(context, name, why)
            retry_later(step)
    if again:
        step.do(ReadModifiedTopics(tuple(again)), EndReassignments(tuple(again), task.loading))
    if unmarked and not task.loading:
        context.tasks.append(ListDeletions())
    if not ended:
        return
    announced = AnnounceReassignments(tuple(stopped), ended_only=True)
    if task.loading:
        step.do(QueueDeletions(tuple(ended), task.loading))
        context.tasks.append(announced)
    else:
        step.do(QueueDeletions(tuple(ended)), announced)
        context.tasks.append(TrimReassignments())


def note_end_refused(context: Context, name: str, why: str) -> None:
    """Store the error for display with the held topic."""
    mark = context.cluster.marks.get(name)
    if mark is not None:
        context.cluster.marks[name] = mark._replace(last_error=why)


def _take_over(step: StepContext, name: str) -> list[TopicPartition]:
    context = step.context
    cluster = context.cluster
    moving = [each for each in cluster.partitions_of(name) if each[0] in cluster.reassignments]
    for topic_partition, partition in moving:
        replicas = _all_replicas(context, topic_partition, partition.assignment)
        end_reassignment(cluster, topic_partition, ReplicaAssignment(replicas))
        hosts = cluster.hosts(topic_partition)
        for broker in replicas if hosts else ():
            # It was not announced, or was retired: the deletion asks its broker and does not assume that it is gone.
            if broker not in hosts:
                set_replica_state(cluster, PartitionReplica(*topic_partition, BrokerId(broker)), ReplicaState.NEW)
        step.record(
            EventRecordType.REASSIGNMENT,
            f"partition/{topic_partition}",
            what="ended by deletion",
            target=in_words(replicas),
        )
    return [topic_partition for topic_partition, _ in moving]
