"""Reassignment: moves a partition from its origin to its target replicas (KIP-455).

The topic's znode has the reassignment: `replicas` is the target followed by the rest of the origin, `adding` and
`removing` are the differences. It is written first and once more at the end, so that the next controller can continue
at any point:

    start     the topic's znode gets the target; replicas of an abandoned target are retired, and stay among `removing`
              until their brokers have answered
    announce  leader epoch + 1; LeaderAndIsr to the origin, and (as new) to the added replicas
    (wait)    until the leader reports every target replica in the ISR
    lead      a target replica leads, or the leader's epoch is raised; brokers see the target as the whole assignment
    retire    the removed replicas are stopped and deleted, and registered brokers have answered
    finish    the topic's znode has no reassignment any more (`reassignment_end` has these last three)

    origin [1, 2], target [2, 3]    replicas [2, 3, 1], adding [3], removing [1]
    then the origin as target       replicas [1, 2, 3], adding [], removing [3]; when 3 has answered, [1, 2]

A second target during a reassignment counts from the origin; the origin as target cancels. The reassignment of a marked
topic ends (`reassignment_end.cancel`). Each phase handles many partitions at once.

As in Kafka, a removed replica on an unregistered broker leaves its log there; the survey finds it. Differences from
Kafka:

* The last write waits for the answers of the removed replicas' brokers, also of those that only an abandoned target
  had. Otherwise a crash before the requests leave would leave replicas that no controller can find, and a leader that
  proposes them for the ISR without end.
* Every write of a topic's znode expects the version in memory.
* `/admin/reassign_partitions` may be rewritten while it exists.
* If no target replica is live and in the ISR, the reassignment waits instead of completing without a leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lethe.controller.core.context import Context
from lethe.controller.core.effects import RetryReassignments
from lethe.controller.core.election import raised, without_foreign_isr_members
from lethe.controller.core.expansion import note_written, set_topic, znode_of
from lethe.controller.core.leader_changes import read_again
from lethe.controller.core.mutation import begin_reassignment, set_leader_and_isr
from lethe.controller.core.partition_sets import PartitionColumns, columns_of, partition_columns
from lethe.controller.core.state_writes import is_removed, is_stale, refuse_write, set_states, with_next_version
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ReadModifiedTopics
from lethe.controller.core.tasks_advertising import EvictReplicas
from lethe.controller.core.tasks_deletion import ListDeletions
from lethe.controller.core.tasks_partitions import BringOnline, MovePartitions, MoveReplicas, Partitions
from lethe.controller.core.tasks_reassignment import (
    AnnounceReassignments,
    FinishReassignments,
    LeadTargets,
    ProgressReassignments,
    ReadReassignments,
    ReassignmentsAnnounced,
    ReassignmentsStarted,
    RetireReplicas,
    StartReassignments,
    Target,
)
from lethe.controller.core.topic import Partition
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, PartitionReplica, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import znodes
from lethe.protocol.zookeeper.operations import Operation, ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome, write_failure_words

WOULD_LOSE_RECORDS: Final = "no replica that stays is in sync: those that would go are the only ones with every record"


def in_words(replicas: Iterable[int]) -> str:
    """Return the replicas as `1,2,3`, for event records and messages."""
    return ",".join(map(str, replicas))


# --- starting -----------------------------------------------------------------------------------------------------


def start(step: StepContext, task: StartReassignments) -> None:
    """Write the targets into the topics' znodes, with one write for each topic."""
    context = step.context
    cluster = context.cluster
    by_topic: dict[str, list[Target]] = {}
    for target in task.targets:
        partition = cluster.partition(target.topic_partition)
        if partition is None or cluster.is_queued(target.topic_partition.topic):
            continue
        after = partition.assignment.reassign_to(target.replicas)
        if after == partition.assignment:
            continue
        if would_lose_records(partition, after):
            what = f"reassigning it to {list(target.replicas)}"
            step.refuse(f"partition/{target.topic_partition}", what, WOULD_LOSE_RECORDS)
            if task.may_wait:
                cluster.reassignments[target.topic_partition].held_target = target.replicas
            continue
        by_topic.setdefault(target.topic_partition.topic, []).append(target)
    if by_topic:
        groups = [(start_write(context, name, mine),) for name, mine in by_topic.items()]
        targets = tuple(map(tuple, by_topic.values()))
        step.write(groups, ReassignmentsStarted(tuple(by_topic), targets, task.evicts, task.may_wait))


def would_lose_records(partition: Partition, after: ReplicaAssignment) -> bool:
    """Return whether replicas of the ISR go and no ISR member remains under the new assignment.

    The replicas of an abandoned target are deleted at once, with records that only they have. Foreign ISR members are
    no replicas: the new assignment deletes nothing of them."""
    isr = () if partition.leader_and_isr is None else partition.leader_and_isr.isr
    goes = any(replica in partition.assignment.replicas for replica in isr)
    return goes and not any(replica in after.replicas for replica in isr)


def start_write(context: Context, name: str, targets: Iterable[Target]) -> Operation:
    """Return the write of the topic's znode that starts these reassignments of its partitions."""
    znode = znode_of(context, name)
    assignments = dict(znode.assignments)
    for topic_partition, replicas in targets:
        partition = context.cluster.topics[name].partitions[topic_partition.partition]
        # From memory: if the partition only waits for its removed replicas, its target is the origin now.
        after = partition.assignment.reassign_to(replicas)
        abandoned = _abandoned(context, topic_partition, partition, after)
        assignments[topic_partition.partition] = after.also_removing(abandoned)
    return set_topic(context, name, znodes.TopicZnode(assignments, znode.topic_id))


def _abandoned(
    context: Context, topic_partition: TopicPartition, partition: Partition, after: ReplicaAssignment
) -> tuple[int, ...]:
    """Return the replicas that the new assignment drops, and that brokers may have: those that were announced, and
    those whose deletion is not answered."""
    known = context.cluster.reassignments.get(topic_partition)
    hosts = context.cluster.hosts(topic_partition)
    announced = (r for r in partition.assignment.replicas if r in hosts)
    leaving = () if known is None else known.retiring
    return tuple(r for r in dict.fromkeys((*announced, *leaving)) if r not in after.replicas)


def on_reassignments_started(step: StepContext, task: ReassignmentsStarted, outcomes: Sequence[GroupOutcome]) -> None:
    """Store the written targets; after a conflict, read the topic's znode and write again."""
    context = step.context
    going: list[TopicPartition] = []
    given_up: list[PartitionReplica] = []
    again: list[Target] = []
    for name, targets, outcome in zip(task.topics, task.targets, outcomes, strict=True):
        if isinstance(outcome, GroupDone):
            note_written(context, name)
            for topic_partition, replicas in targets:
                given_up += _begin(step, topic_partition, replicas)
                going.append(topic_partition)
        elif isinstance(outcome, GroupFailed) and outcome.error is ZkError.BAD_VERSION:
            again.extend(targets)
        else:
            why = write_failure_words(outcome)
            step.refuse(f"topic/{name}", "reassigning its partitions", f"writing its znode: {why}")
            retry_later(step)
    if again:
        names = tuple(dict.fromkeys(target.topic_partition.topic for target in again))
        # A place off the controller is chosen anew: reading the topic may have started an eviction already.
        start_again = StartReassignments(tuple(again), may_wait=task.may_wait)
        step.do(ReadModifiedTopics(names), EvictReplicas(names) if task.evicts else start_again)
    leaderless = _led_by(context, given_up)
    # The others are retired when the leader epoch is raised: brokers up to 3.4 ignore a StopReplica with the epoch that
    # they have (KAFKA-13972). Leaving the ISR raises it.
    step.do(
        RetireReplicas(tuple(replica for replica in given_up if _raises_epoch(context, replica))),
        MovePartitions(leaderless, PartitionState.OFFLINE),
        BringOnline(leaderless),
        ProgressReassignments(tuple(going), announce=True),
    )


def _raises_epoch(context: Context, replica: PartitionReplica) -> bool:
    """Return whether the leader epoch rises when the replica goes offline, or the partition has none."""
    partition = context.cluster.partition(replica.topic_partition)
    known = None if partition is None else partition.leader_and_isr
    return known is None or replica.broker in known.isr


def _led_by(context: Context, replicas: Iterable[PartitionReplica]) -> PartitionColumns:
    """Return the partitions that these replicas lead: they need another leader before the replicas go."""
    led: list[TopicPartition] = []
    for replica in replicas:
        partition = context.cluster.partition(replica.topic_partition)
        known = None if partition is None else partition.leader_and_isr
        if known is not None and known.leader == replica.broker:
            led.append(replica.topic_partition)
    return partition_columns(led)


def _begin(step: StepContext, topic_partition: TopicPartition, target: tuple[int, ...]) -> list[PartitionReplica]:
    """Store the new assignment; return the replicas of an abandoned target that are to be retired."""
    partition = step.context.cluster.partition(topic_partition)
    if partition is None:
        return []
    before, after = partition.assignment, partition.assignment.reassign_to(target)
    abandoned = _abandoned(step.context, topic_partition, partition, after)
    begin_reassignment(step.context.cluster, topic_partition, after, step.now_ms)
    step.context.cluster.reassignments[topic_partition].written = after.also_removing(abandoned)
    step.record(
        EventRecordType.REASSIGNMENT,
        f"partition/{topic_partition}",
        what="started" if after.is_being_reassigned else "cancelled",
        target=in_words(target),
        adding=in_words(after.adding),
        removing=in_words(after.removing),
    )
    return [PartitionReplica(*topic_partition, BrokerId(r)) for r in abandoned if r in before.replicas]


# --- progress -----------------------------------------------------------------------------------------------------


def progress(step: StepContext, task: ProgressReassignments) -> None:
    """Make targets lead that are all in the ISR; announce the other reassignments if the task requires it."""
    context = step.context
    cluster = context.cluster
    asked = tuple(cluster.reassignments) if task.partitions is None else dict.fromkeys(task.partitions)
    complete: list[TopicPartition] = []
    waiting: list[TopicPartition] = []
    retiring: list[TopicPartition] = []
    """Partitions with replicas in the znode that are out of service."""
    released: list[Target] = []
    for topic_partition in asked:
        partition = cluster.partition(topic_partition)
        known = cluster.reassignments.get(topic_partition)
        if partition is None or known is None or cluster.is_queued(topic_partition.topic):
            continue
        target = known.held_target
        if target is not None and not would_lose_records(partition, partition.assignment.reassign_to(target)):
            known.held_target = None
            released.append(Target(topic_partition, target))
        elif known.is_led:
            retiring.append(topic_partition)
        else:
            (complete if _has_arrived(context, topic_partition, partition) else waiting).append(topic_partition)
            if partition.assignment.is_being_reassigned and known.written != partition.assignment:
                # For a complete one too: its target cannot lead while its state znode is missing.
                retiring.append(topic_partition)
    if released:
        step.do(StartReassignments(tuple(released)))
    if retiring:
        # After the targets lead: then one write removes all replicas that go.
        step.do(FinishReassignments(tuple(retiring)))
    if complete:
        step.do(LeadTargets(tuple(complete)))
    if waiting and task.announce:
        step.do(AnnounceReassignments(tuple(waiting)))


def _has_arrived(context: Context, topic_partition: TopicPartition, partition: Partition) -> bool:
    """Return whether the reassignment can complete: nothing moves, or all targets are in the ISR and one is online."""
    leader_and_isr, target = partition.leader_and_isr, partition.assignment.target
    return not partition.assignment.is_being_reassigned or (
        leader_and_isr is not None
        and all(replica in leader_and_isr.isr for replica in target)
        and any(context.cluster.is_online(topic_partition, replica) for replica in target)
    )


def announce(step: StepContext, task: AnnounceReassignments) -> None:
    """Raise the leader epochs, so that brokers accept the new assignment; elect leaders for partitions without one."""
    context = step.context
    states: dict[TopicPartition, LeaderAndIsr] = {}
    leaderless: list[TopicPartition] = []
    for topic_partition in task.partitions:
        partition = context.cluster.partition(topic_partition)
        if partition is None or context.cluster.is_queued(topic_partition.topic):
            continue
        if task.ended_only and topic_partition in context.cluster.reassignments:
            continue
        if partition.leader_and_isr is None:
            leaderless.append(topic_partition)
            continue
        known = without_foreign_isr_members(partition.assignment, partition.leader_and_isr)
        states[topic_partition] = raised(known, context.cluster.epoch)
    if leaderless:
        step.do(
            MoveReplicas(columns_of(_added(context, leaderless)), ReplicaState.NEW),
            BringOnline(partition_columns(leaderless)),
            MoveReplicas(columns_of(_added(context, leaderless)), ReplicaState.ONLINE),
            ProgressReassignments(tuple(tp for tp in leaderless if _can_start(context, tp))),
        )
    if states:
        step.write(set_states(states.items()), ReassignmentsAnnounced(tuple(states), tuple(states.values())))


def _can_start(context: Context, topic_partition: TopicPartition) -> bool:
    partition = context.cluster.partition(topic_partition)
    return partition is not None and any(
        context.cluster.is_online(topic_partition, replica) for replica in partition.assignment.replicas
    )


def on_reassignments_announced(
    step: StepContext, task: ReassignmentsAnnounced, outcomes: Sequence[GroupOutcome]
) -> None:
    """Send LeaderAndIsr to the origin and, as new, to the added replicas; to all replicas where it has ended."""
    context = step.context
    cluster = context.cluster
    batch = step.batch()
    done: list[TopicPartition] = []
    joined: list[PartitionReplica] = []
    stale: list[TopicPartition] = []
    for topic_partition, state, outcome in zip(task.partitions, task.leader_and_isr, outcomes, strict=True):
        partition = cluster.partition(topic_partition)
        if partition is None or cluster.is_queued(topic_partition.topic):
            continue
        if isinstance(outcome, GroupDone):
            set_leader_and_isr(cluster, topic_partition, with_next_version(state))
            assignment, hosts = partition.assignment, cluster.hosts(topic_partition)
            known = cluster.reassignments.get(topic_partition)
            adding = assignment.adding if known is not None else _new(context, topic_partition, assignment)
            origin = [r for r in assignment.replicas if r not in adding]
            batch.add_leader_and_isr(origin, topic_partition, is_new=False)
            batch.add_leader_and_isr([r for r in adding if r in hosts], topic_partition, is_new=True)
            if known is None:
                joined += (PartitionReplica(*topic_partition, BrokerId(r)) for r in adding if r in cluster.brokers)
            else:
                known.is_announced = True
                done.append(topic_partition)
        elif is_stale(outcome):
            stale.append(topic_partition)
        else:
            refuse_state(step, topic_partition, "announcing a reassignment", outcome)
    step.flush(batch)
    if stale:
        read_again(step, stale, AnnounceReassignments(tuple(stale)))
    # The transition to New sends LeaderAndIsr to added replicas that had no state before.
    step.do(
        MoveReplicas(columns_of(_added(context, done)), ReplicaState.NEW),
        MoveReplicas(columns_of(joined), ReplicaState.ONLINE),
        RetireReplicas(cluster.replicas_left_over(done)),
    )


def _new(context: Context, topic_partition: TopicPartition, assignment: ReplicaAssignment) -> tuple[int, ...]:
    """Return the replicas that the end of the reassignment has made members, in place of those that it adds."""
    replicas = ((r, PartitionReplica(*topic_partition, BrokerId(r))) for r in assignment.replicas)
    return tuple(r for r, replica in replicas if context.cluster.replica_state(replica) is ReplicaState.NEW)


def _added(context: Context, partitions: Partitions | list[TopicPartition]) -> tuple[PartitionReplica, ...]:
    """Return the added replicas that have no state yet: they were not announced."""
    cluster = context.cluster
    known = ((tp, cluster.partition(tp)) for tp in partitions)
    added = (
        PartitionReplica(*tp, BrokerId(broker))
        for tp, partition in known
        if partition is not None
        for broker in partition.assignment.adding
    )
    return tuple(replica for replica in added if cluster.replica_state(replica) is ReplicaState.NON_EXISTENT)


# --- trying again -------------------------------------------------------------------------------------------------


def retry_later(step: StepContext) -> None:
    """Schedule a retry of all reassignments, after a wait that doubles with each refused write."""
    context = step.context
    if RetryReassignments() in context.timers:
        return
    context.cluster.reassignment_retries += 1
    config = context.config
    wait_ms = BackOff(config.retry_min_ms, config.retry_max_ms).wait_ms(context.cluster.reassignment_retries)
    step.set_timer(RetryReassignments(), step.now_ms + wait_ms)


def refuse_state(step: StepContext, topic_partition: TopicPartition, what: str, outcome: GroupOutcome) -> None:
    """Record that a state could not be written, and schedule a retry.

    No retry if the znode was removed by hand: only the next controller creates it again. Then no leader epoch can rise
    before replicas are retired."""
    refuse_write(step, topic_partition, what, outcome)
    if is_removed(outcome):
        step.do(RetireReplicas(step.context.cluster.replicas_left_over((topic_partition,))))
    else:
        retry_later(step)


def retries_due(step: StepContext) -> None:
    """The timer fired: read markers and requested reassignments again, and continue the current ones."""
    known = step.context.cluster.reassignments.items()
    missed = tuple(topic_partition for topic_partition, each in known if not each.is_announced)
    step.do(ListDeletions(), ReadReassignments(), ProgressReassignments(), ProgressReassignments(missed, announce=True))
