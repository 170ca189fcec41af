"""Write leadership: elections, and the ISR without replicas that went offline. First states: `first_leaders`.

A write is computed from memory and expects its znode version. If ZooKeeper has another version (leaders before IBP 2.7
write ISRs), the state is read and the computation repeated; Kafka reads before each write with the same result. Before
2.7 the state is also read if memory has no eligible leader. Memory changes after a known success only; requests follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, assert_never

from lethe.controller.core import election, partition_machine, replica_machine
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context
from lethe.controller.core.continuations import StatesReread
from lethe.controller.core.election import Elected, NoLeader, Strategy
from lethe.controller.core.mutation import set_leader_and_isr
from lethe.controller.core.partition_sets import columns_of
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import (
    ElectLeaders,
    IsrShrunk,
    LeadersElected,
    Replicas,
    ShrinkIsr,
    UncleanConfigsRead,
)
from lethe.controller.core.tasks_reassignment import AnnounceReassignments, LeadTargets, ProgressReassignments
from lethe.controller.core.tasks_requests import RemoveForeignIsrMembers
from lethe.controller.core.topic import Partition
from lethe.controller.core.transitions import PartitionState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.config_values import parse_boolean
from lethe.protocol.vocabulary import LeaderAndIsr, PartitionReplica, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Data,
    GetData,
    Operation,
    ReadFailed,
    ReadOutcome,
    SetData,
    ZkError,
    is_absent,
    read_error,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

UNCLEAN_CONFIG = "unclean.leader.election.enable"

_WHAT: Final[Mapping[Strategy, str]] = MappingProxyType(
    {
        Strategy.OFFLINE: "OFFLINE to ONLINE",
        Strategy.REASSIGN: "electing a leader from the target replicas",
        Strategy.PREFERRED: "electing the preferred replica",
        Strategy.CONTROLLED_SHUTDOWN: "electing a leader that is not shutting down",
    }
)
_WHY_NOT: Final[Mapping[Strategy, str]] = MappingProxyType(
    {
        Strategy.OFFLINE: "no live replica may lead the partition",
        Strategy.REASSIGN: "no target replica is both live and in the ISR",
        Strategy.PREFERRED: "the preferred replica is not both live and in the ISR",
        Strategy.CONTROLLED_SHUTDOWN: "no other replica is both live and in the ISR",
    }
)

# --- elections ----------------------------------------------------------------------------------------------------


def elect(step: StepContext, task: ElectLeaders) -> None:
    """Choose leaders by the task's strategy and write them; read topic configurations where they decide."""
    context = step.context
    unclean = None if task.unclean_topics is None else frozenset(task.unclean_topics)
    chosen: dict[TopicPartition, Elected] = {}
    undecided: list[TopicPartition] = []
    leaderless: list[TopicPartition] = []
    doubtful: list[TopicPartition] = []
    believed = task.fresh or unclean is not None or context.config.ibp.has_alter_partition
    for topic_partition in task.partitions:
        partition = context.cluster.partition(topic_partition)
        if partition is None or partition.leader_and_isr is None or context.cluster.is_queued(topic_partition.topic):
            continue
        may_be_unclean = unclean is not None and topic_partition.topic in unclean
        result = _chosen(context, topic_partition, partition, partition.leader_and_isr, task.strategy, may_be_unclean)
        match result:
            case Elected():
                chosen[topic_partition] = result
            case NoLeader() if not believed:
                doubtful.append(topic_partition)
            case NoLeader(unclean_would_help=True) if unclean is None:
                undecided.append(topic_partition)
            case NoLeader():
                leaderless.append(topic_partition)
    step.refuse_partitions(leaderless, _WHAT[task.strategy], _WHY_NOT[task.strategy])
    if doubtful and not chosen:
        read_again(step, doubtful, ElectLeaders(tuple(doubtful), strategy=task.strategy, fresh=True))
        return
    if doubtful:
        step.do(ElectLeaders(tuple(doubtful), strategy=task.strategy))
    if undecided:
        topics = tuple(dict.fromkeys(topic_partition.topic for topic_partition in undecided))
        if chosen:
            step.do(ElectLeaders(tuple(undecided), fresh=True))
        else:
            step.read((GetData(paths.config_topic(t)) for t in topics), UncleanConfigsRead(tuple(undecided), topics))
            return
    if chosen:
        states = {topic_partition: result.leader_and_isr for topic_partition, result in chosen.items()}
        unclean_ones = tuple(result.unclean for result in chosen.values())
        then = LeadersElected(tuple(states), tuple(states.values()), unclean_ones, task.strategy)
        step.write(set_states(states), then)


def _chosen(
    context: Context,
    topic_partition: TopicPartition,
    partition: Partition,
    current: LeaderAndIsr,
    strategy: Strategy,
    may_be_unclean: bool,
) -> Elected | NoLeader:
    assignment, epoch = partition.assignment, context.cluster.epoch
    current = election.without_foreign_isr_members(assignment, current)
    is_online = online(context, topic_partition)
    match strategy:
        case Strategy.OFFLINE:
            return election.offline(
                assignment,
                current,
                is_online,
                epoch,
                unclean_allowed=may_be_unclean,
                recovery_supported=context.config.ibp.has_leader_recovery_state,
            )
        case Strategy.REASSIGN:
            return election.reassign(assignment, current, is_online, epoch)
        case Strategy.PREFERRED:
            return election.preferred(assignment, current, is_online, epoch)
        case Strategy.CONTROLLED_SHUTDOWN:
            leaving = context.cluster.shutting_down
            return election.controlled_shutdown(assignment, current, is_online, lambda b: b in leaving, epoch)
        case _:
            assert_never(strategy)


def on_unclean_configs_read(step: StepContext, task: UncleanConfigsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Elect again, with the topics whose configuration allows an unclean leader."""
    default = step.context.unclean_leader_election_enable
    allowed = []
    for topic, outcome in zip(task.topics, outcomes, strict=True):
        if (error := read_error(outcome)) is not None:
            step.refuse(f"topic/{topic}", "unclean leader election", f"reading its config: {error.name}")
            continue
        try:
            config = znodes.decode_config(
                paths.config_topic(topic), outcome.data if isinstance(outcome, Data) else None
            )
        except znodes.MalformedZnode as error:
            step.refuse(f"topic/{topic}", "unclean leader election", str(error))
            continue
        value = config.get(UNCLEAN_CONFIG)
        if default if value is None else parse_boolean(value):
            allowed.append(topic)
    step.do(ElectLeaders(task.partitions, tuple(allowed)))


def on_leaders_elected(step: StepContext, task: LeadersElected, outcomes: Sequence[GroupOutcome]) -> None:
    """Store the written leaders, and send LeaderAndIsr to the replicas that the strategy selects."""
    context = step.context
    batch = step.batch()
    done, stale = [], []
    lossy: dict[str, list[TopicPartition]] = {}
    rows = zip(task.partitions, task.leader_and_isr, task.unclean, outcomes, strict=True)
    for topic_partition, leader_and_isr, unclean, outcome in rows:
        if isinstance(outcome, GroupDone):
            written = with_next_version(leader_and_isr)
            partition = context.cluster.partition(topic_partition)
            if unclean:
                lossy.setdefault(_what_is_lost(partition, leader_and_isr), []).append(topic_partition)
            set_leader_and_isr(context.cluster, topic_partition, written)
            if partition is not None:
                receivers = _receivers(context.cluster, topic_partition, partition, task.strategy)
                batch.add_leader_and_isr(receivers, topic_partition, is_new=False)
            context.elections += 1
            context.unclean_elections += unclean
            done.append(topic_partition)
        elif is_stale(outcome):
            stale.append(topic_partition)
        else:
            refuse_write(step, topic_partition, _WHAT[task.strategy], outcome)
    for what_is_lost, partitions in lossy.items():
        step.refuse_partitions(partitions, "electing a leader that was in sync", what_is_lost)
    partition_machine.enter(step, tuple(done), PartitionState.ONLINE)
    step.flush(batch)
    if stale:
        read_again(step, stale, ElectLeaders(tuple(stale), strategy=task.strategy))


def _what_is_lost(before: Partition | None, elected: LeaderAndIsr) -> str:
    """Return the text for a user who may still recover the disks of the former ISR."""
    isr = None if before is None or before.leader_and_isr is None else list(before.leader_and_isr.isr)
    return f"none of the ISR {isr} is alive: {elected.leader} leads, and what it had not fetched is lost"


def _receivers(cluster: ClusterState, tp: TopicPartition, partition: Partition, strategy: Strategy) -> Sequence[int]:
    """Return the receivers of LeaderAndIsr; the batch leaves unregistered ones out."""
    replicas = partition.assignment.replicas
    match strategy:
        case Strategy.OFFLINE:
            return [r for r in replicas if cluster.is_online(tp, r)]
        case Strategy.REASSIGN:
            return partition.assignment.target
        case Strategy.PREFERRED:
            return replicas
        case Strategy.CONTROLLED_SHUTDOWN:
            # The leaving broker too, so that it stops leading.
            return [r for r in replicas if not cluster.has_failed_directory(tp, r)]
        case _:
            assert_never(strategy)


# --- replicas going offline ---------------------------------------------------------------------------------------


def shrink(step: StepContext, task: ShrinkIsr) -> None:
    """Write the ISRs without these replicas; replicas outside the ISR go offline with the others."""
    cluster = step.context.cluster
    by_partition: dict[TopicPartition, list[PartitionReplica]] = {}
    for replica in task.replicas:
        by_partition.setdefault(replica.topic_partition, []).append(replica)
    unchanged: list[PartitionReplica] = []
    states: dict[TopicPartition, LeaderAndIsr] = {}
    replicas: list[Replicas] = []
    for topic_partition, gone in by_partition.items():
        partition = cluster.partition(topic_partition)
        if partition is None or partition.leader_and_isr is None:
            unchanged.extend(gone)
            continue
        # Remove foreign ISR members first, so that the last member of the ISR is a replica.
        known = election.without_foreign_isr_members(partition.assignment, partition.leader_and_isr)
        shrunk = election.shrunk(known, election.as_assigned(partition.assignment, gone), cluster.epoch)
        if shrunk is None and known is not partition.leader_and_isr:
            shrunk = election.raised(known, cluster.epoch)
        if shrunk is None:
            unchanged.extend(gone)
        else:
            states[topic_partition] = shrunk
            replicas.append(tuple(gone))
    if states:
        then = IsrShrunk(tuple(states), tuple(states.values()), tuple(replicas), tuple(unchanged))
        step.write(set_states(states), then)
    elif unchanged:
        replica_machine.finish_offline(step, columns_of(unchanged))


def on_isr_shrunk(step: StepContext, task: IsrShrunk, outcomes: Sequence[GroupOutcome]) -> None:
    """Take offline the replicas whose partition was written, and those that needed no write."""
    offline = list(task.unchanged)
    stale: list[TopicPartition] = []
    again: list[PartitionReplica] = []
    for topic_partition, leader_and_isr, replicas, outcome in zip(
        task.partitions, task.leader_and_isr, task.replicas, outcomes, strict=True
    ):
        if isinstance(outcome, GroupDone):
            set_leader_and_isr(step.context.cluster, topic_partition, with_next_version(leader_and_isr))
            offline.extend(replicas)
        elif is_stale(outcome):
            stale.append(topic_partition)
            again.extend(replicas)
        else:
            refuse_write(step, topic_partition, "replicas to OFFLINE", outcome)
            if is_removed(outcome):
                # The state was removed by hand: there is no ISR to shrink.
                remove_foreign_isr_members_unwritten(step.context, topic_partition)
                offline.extend(replicas)
    replica_machine.finish_offline(step, columns_of(offline))
    if stale:
        read_again(step, stale, ShrinkIsr(tuple(again)))


# --- states that others wrote -------------------------------------------------------------------------------------


def read_again(
    step: StepContext,
    partitions: Sequence[TopicPartition],
    again: ElectLeaders | ShrinkIsr | AnnounceReassignments | LeadTargets,
) -> None:
    """Read these states, which others have written, then run the task again."""
    step.read(
        (GetData(paths.partition_state(*topic_partition)) for topic_partition in partitions),
        StatesReread(tuple(partitions), again),
    )


def on_states_reread(step: StepContext, task: StatesReread, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the states that were read, and run the task again for the readable ones."""
    going_on: dict[TopicPartition, None] = {}
    removed: dict[TopicPartition, None] = {}
    for topic_partition, outcome in zip(task.partitions, outcomes, strict=True):
        problem = take_in_state(step.context, topic_partition, outcome)
        if problem is None:
            going_on[topic_partition] = None
        else:
            step.refuse(f"partition/{topic_partition}", "reading its state again", problem)
            if is_absent(outcome):
                remove_foreign_isr_members_unwritten(step.context, topic_partition)
                removed[topic_partition] = None
    after = (RemoveForeignIsrMembers(tuple(going_on)),)
    if moving := tuple(tp for tp in going_on if tp in step.context.cluster.reassignments):
        # The last target may be in sync now. At the end of the task stack: earlier tasks may use replicas that would
        # go.
        step.context.tasks.append(ProgressReassignments(moving))
    match task.again:
        case ElectLeaders(partitions=partitions) as election_again:
            going = tuple(p for p in partitions if p in going_on)
            step.do(replace(election_again, partitions=going), *after)
        case AnnounceReassignments(partitions=partitions):
            step.do(AnnounceReassignments(tuple(p for p in partitions if p in going_on)))
        case LeadTargets(partitions=partitions):
            step.do(LeadTargets(tuple(p for p in partitions if p in going_on)))
        case ShrinkIsr(replicas=replicas):
            # As in `on_isr_shrunk`: without a state there is no ISR to shrink.
            replica_machine.finish_offline(step, columns_of(r for r in replicas if r.topic_partition in removed))
            step.do(ShrinkIsr(tuple(r for r in replicas if r.topic_partition in going_on)), *after)


def take_in_state(context: Context, topic_partition: TopicPartition, outcome: ReadOutcome) -> str | None:
    """Store a partition's state as just read. Return the problem with it, or None."""
    cluster = context.cluster
    if not isinstance(outcome, Data):
        return f"reading it failed with {outcome.error.name if isinstance(outcome, ReadFailed) else 'no data'}"
    try:
        state = znodes.decode_state(*topic_partition, outcome.data, outcome.stat.version)
    except znodes.MalformedZnode as error:
        return str(error)
    if state is None:
        return "the state znode is empty"
    if state.controller_epoch > cluster.epoch:
        return f"it was written by controller epoch {state.controller_epoch}, ours is {cluster.epoch}"
    set_leader_and_isr(cluster, topic_partition, state)
    return None


# --- small parts --------------------------------------------------------------------------------------------------


def online(context: Context, topic_partition: TopicPartition) -> election.IsOnline:
    return lambda broker: context.cluster.is_online(topic_partition, broker)


def set_state(topic_partition: TopicPartition, state: LeaderAndIsr) -> tuple[Operation, ...]:
    """Return the write of the state, which expects the version that `state` was computed from."""
    return (SetData(paths.partition_state(*topic_partition), znodes.encode_state(state), state.partition_epoch),)


def set_states(states: Mapping[TopicPartition, LeaderAndIsr]) -> list[tuple[Operation, ...]]:
    """Return a write for each of the states."""
    return [set_state(*each) for each in states.items()]


def with_next_version(state: LeaderAndIsr) -> LeaderAndIsr:
    """Return the state with the version that its write gives: one higher."""
    return state._replace(partition_epoch=state.partition_epoch + 1)


def remove_foreign_isr_members_unwritten(context: Context, topic_partition: TopicPartition) -> None:
    """Remove foreign ISR members from memory's ISR, under the next leader epoch, if a user removed the state znode.

    Brokers would receive an ISR with a replica whose log is deleted. A leader cannot shrink its ISR without the state:
    producers with acks=all would wait until another controller is elected."""
    cluster = context.cluster
    partition = cluster.partition(topic_partition)
    if partition is None or partition.leader_and_isr is None:
        return
    known = election.without_foreign_isr_members(partition.assignment, partition.leader_and_isr)
    if known is not partition.leader_and_isr:
        set_leader_and_isr(cluster, topic_partition, election.raised(known, cluster.epoch))


def is_stale(outcome: GroupOutcome) -> bool:
    """The state was written by others since it was read."""
    return isinstance(outcome, GroupFailed) and outcome.error is ZkError.BAD_VERSION


def is_removed(outcome: GroupOutcome) -> bool:
    """The state znode to be written does not exist any more."""
    return isinstance(outcome, GroupFailed) and outcome.error is ZkError.NO_NODE


def refuse_write(step: StepContext, topic_partition: TopicPartition, what: str, outcome: GroupOutcome) -> None:
    why = outcome.error.name if isinstance(outcome, GroupFailed) else "the outcome of the write is not known"
    step.record(EventRecordType.REFUSAL, f"partition/{topic_partition}", what=what, why=f"writing its state: {why}")
