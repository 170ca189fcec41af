"""Write leadership: elections, and the ISR without replicas that went offline. First states: `leadership_first`.

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
from lethe.controller.core.agenda_partitions import (
    ElectLeaders,
    IsrShrunk,
    LeadersElected,
    Replicas,
    ShrinkIsr,
    UncleanConfigsRead,
)
from lethe.controller.core.agenda_reassignment import AnnounceReassignments, LeadTargets, ProgressReassignments
from lethe.controller.core.agenda_requests import DropStrangers
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context
from lethe.controller.core.continuations import StatesReread
from lethe.controller.core.election import Elected, NoLeader, Strategy
from lethe.controller.core.mutation import set_leadership
from lethe.controller.core.topic import Partition
from lethe.controller.core.transitions import PartitionState
from lethe.controller.core.turn import Turn
from lethe.protocol.journal import FactType
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


def elect(turn: Turn, task: ElectLeaders) -> None:
    """Choose leaders by the task's strategy and write them; read topic configurations where they decide."""
    context = turn.context
    unclean = None if task.unclean_topics is None else frozenset(task.unclean_topics)
    chosen: list[TopicPartition] = []
    elected: list[Elected] = []
    undecided: list[TopicPartition] = []
    leaderless: list[TopicPartition] = []
    doubtful: list[TopicPartition] = []
    believed = task.fresh or unclean is not None or context.config.ibp.has_alter_partition
    for topic_partition in task.partitions:
        partition = context.cluster.partition(topic_partition)
        if partition is None or partition.leadership is None or context.cluster.is_queued(topic_partition.topic):
            continue
        may_be_unclean = unclean is not None and topic_partition.topic in unclean
        result = _chosen(context, topic_partition, partition, partition.leadership, task.strategy, may_be_unclean)
        match result:
            case Elected():
                chosen.append(topic_partition)
                elected.append(result)
            case NoLeader() if not believed:
                doubtful.append(topic_partition)
            case NoLeader(unclean_would_help=True) if unclean is None:
                undecided.append(topic_partition)
            case NoLeader():
                leaderless.append(topic_partition)
    turn.refuse_partitions(leaderless, _WHAT[task.strategy], _WHY_NOT[task.strategy])
    if doubtful and not chosen:
        read_again(turn, doubtful, ElectLeaders(tuple(doubtful), strategy=task.strategy, fresh=True))
        return
    if doubtful:
        turn.do(ElectLeaders(tuple(doubtful), strategy=task.strategy))
    if undecided:
        topics = tuple(dict.fromkeys(topic_partition.topic for topic_partition in undecided))
        if chosen:
            turn.do(ElectLeaders(tuple(undecided), fresh=True))
        else:
            turn.read((GetData(paths.config_topic(t)) for t in topics), UncleanConfigsRead(tuple(undecided), topics))
            return
    if chosen:
        leaders = tuple(result.leadership for result in elected)
        unclean_ones = tuple(result.unclean for result in elected)
        turn.write(
            [set_state(topic_partition, state) for topic_partition, state in zip(chosen, leaders, strict=True)],
            LeadersElected(tuple(chosen), leaders, unclean_ones, task.strategy),
        )


def _chosen(
    context: Context,
    topic_partition: TopicPartition,
    partition: Partition,
    current: LeaderAndIsr,
    strategy: Strategy,
    may_be_unclean: bool,
) -> Elected | NoLeader:
    assignment, epoch = partition.assignment, context.cluster.epoch
    current = election.without_strangers(assignment, current)
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


def configs_read(turn: Turn, task: UncleanConfigsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Elect again, with the topics whose configuration allows an unclean leader."""
    default = turn.context.unclean_leader_election_enable
    allowed = []
    for topic, outcome in zip(task.topics, outcomes, strict=True):
        if isinstance(outcome, ReadFailed) and outcome.error is not ZkError.NO_NODE:
            turn.refuse(f"topic/{topic}", "unclean leader election", f"reading its config: {outcome.error.name}")
            continue
        try:
            config = znodes.decode_config(
                paths.config_topic(topic), outcome.data if isinstance(outcome, Data) else None
            )
        except znodes.MalformedZnode as error:
            turn.refuse(f"topic/{topic}", "unclean leader election", str(error))
            continue
        value = config.get(UNCLEAN_CONFIG)
        if default if value is None else value.strip().lower() == "true":
            allowed.append(topic)
    turn.do(ElectLeaders(task.partitions, tuple(allowed)))


def elected(turn: Turn, task: LeadersElected, outcomes: Sequence[GroupOutcome]) -> None:
    """Store the written leaders, and send LeaderAndIsr to the replicas that the strategy selects."""
    context = turn.context
    batch = turn.batch()
    done, stale = [], []
    lossy: dict[str, list[TopicPartition]] = {}
    rows = zip(task.partitions, task.leadership, task.unclean, outcomes, strict=True)
    for topic_partition, leadership, unclean, outcome in rows:
        if isinstance(outcome, GroupDone):
            written = with_next_version(leadership)
            partition = context.cluster.partition(topic_partition)
            if unclean:
                lossy.setdefault(_what_is_lost(partition, leadership), []).append(topic_partition)
            set_leadership(context.cluster, topic_partition, written)
            if partition is not None:
                receivers = _receivers(context.cluster, topic_partition, partition, task.strategy)
                batch.add_leader_and_isr(receivers, topic_partition, is_new=False)
            context.elections += 1
            context.unclean_elections += unclean
            done.append(topic_partition)
        elif is_stale(outcome):
            stale.append(topic_partition)
        else:
            refuse_write(turn, topic_partition, _WHAT[task.strategy], outcome)
    for what_is_lost, partitions in lossy.items():
        turn.refuse_partitions(partitions, "electing a leader that was in sync", what_is_lost)
    partition_machine.enter(turn, tuple(done), PartitionState.ONLINE)
    turn.flush(batch)
    if stale:
        read_again(turn, stale, ElectLeaders(tuple(stale), strategy=task.strategy))


def _what_is_lost(before: Partition | None, elected: LeaderAndIsr) -> str:
    """Return the text for a user who may still recover the disks of the former ISR."""
    isr = None if before is None or before.leadership is None else list(before.leadership.isr)
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


def shrink(turn: Turn, task: ShrinkIsr) -> None:
    """Write the ISRs without these replicas; replicas outside the ISR go offline with the others."""
    cluster = turn.context.cluster
    by_partition: dict[TopicPartition, list[PartitionReplica]] = {}
    for replica in task.replicas:
        by_partition.setdefault(replica.topic_partition, []).append(replica)
    unchanged: list[PartitionReplica] = []
    chosen: list[TopicPartition] = []
    leadership: list[LeaderAndIsr] = []
    replicas: list[Replicas] = []
    for topic_partition, gone in by_partition.items():
        partition = cluster.partition(topic_partition)
        if partition is None or partition.leadership is None:
            unchanged.extend(gone)
            continue
        # Remove strangers first, so that the last member of the ISR is a replica.
        known = election.without_strangers(partition.assignment, partition.leadership)
        shrunk = election.shrunk(known, tuple(r.broker for r in gone), cluster.epoch)
        if shrunk is None and known is not partition.leadership:
            shrunk = election.raised(known, cluster.epoch)
        if shrunk is None:
            unchanged.extend(gone)
        else:
            chosen.append(topic_partition)
            leadership.append(shrunk)
            replicas.append(tuple(gone))
    if chosen:
        turn.write(
            [set_state(topic_partition, state) for topic_partition, state in zip(chosen, leadership, strict=True)],
            IsrShrunk(tuple(chosen), tuple(leadership), tuple(replicas), tuple(unchanged)),
        )
    elif unchanged:
        replica_machine.finish_offline(turn, tuple(unchanged))


def isr_shrunk(turn: Turn, task: IsrShrunk, outcomes: Sequence[GroupOutcome]) -> None:
    """Take offline the replicas whose partition was written, and those that needed no write."""
    offline = list(task.unchanged)
    stale: list[TopicPartition] = []
    again: list[PartitionReplica] = []
    for topic_partition, leadership, replicas, outcome in zip(
        task.partitions, task.leadership, task.replicas, outcomes, strict=True
    ):
        if isinstance(outcome, GroupDone):
            set_leadership(turn.context.cluster, topic_partition, with_next_version(leadership))
            offline.extend(replicas)
        elif is_stale(outcome):
            stale.append(topic_partition)
            again.extend(replicas)
        else:
            refuse_write(turn, topic_partition, "replicas to OFFLINE", outcome)
            if is_removed(outcome):
                # The state was removed by hand: there is no ISR to shrink.
                drop_strangers_unwritten(turn.context, topic_partition)
                offline.extend(replicas)
    if offline:
        replica_machine.finish_offline(turn, tuple(offline))
    if stale:
        read_again(turn, stale, ShrinkIsr(tuple(again)))


# --- states that others wrote -------------------------------------------------------------------------------------


def read_again(
    turn: Turn,
    partitions: Sequence[TopicPartition],
    again: ElectLeaders | ShrinkIsr | AnnounceReassignments | LeadTargets,
) -> None:
    """Read these states, which others have written, then run the task again."""
    turn.read(
        (GetData(paths.partition_state(*topic_partition)) for topic_partition in partitions),
        StatesReread(tuple(partitions), again),
    )


def reread(turn: Turn, task: StatesReread, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the states that were read, and run the task again for the readable ones."""
    going_on: dict[TopicPartition, None] = {}
    removed: dict[TopicPartition, None] = {}
    for topic_partition, outcome in zip(task.partitions, outcomes, strict=True):
        problem = take_in_state(turn.context, topic_partition, outcome)
        if problem is None:
            going_on[topic_partition] = None
        else:
            turn.refuse(f"partition/{topic_partition}", "reading its state again", problem)
            if is_absent(outcome):
                drop_strangers_unwritten(turn.context, topic_partition)
                removed[topic_partition] = None
    after = (DropStrangers(tuple(going_on)),)
    if moving := tuple(tp for tp in going_on if tp in turn.context.cluster.reassignments):
        # The last target may be in sync now. At the end of the agenda: earlier tasks may use replicas that would go.
        turn.context.agenda.append(ProgressReassignments(moving))
    match task.again:
        case ElectLeaders(partitions=partitions) as election_again:
            going = tuple(p for p in partitions if p in going_on)
            turn.do(replace(election_again, partitions=going), *after)
        case AnnounceReassignments(partitions=partitions):
            turn.do(AnnounceReassignments(tuple(p for p in partitions if p in going_on)))
        case LeadTargets(partitions=partitions):
            turn.do(LeadTargets(tuple(p for p in partitions if p in going_on)))
        case ShrinkIsr(replicas=replicas):
            # As in `isr_shrunk`: without a state there is no ISR to shrink.
            replica_machine.finish_offline(turn, tuple(r for r in replicas if r.topic_partition in removed))
            turn.do(ShrinkIsr(tuple(r for r in replicas if r.topic_partition in going_on)), *after)


def take_in_state(context: Context, topic_partition: TopicPartition, outcome: ReadOutcome) -> str | None:
    """Store a partition's state as just read. Return the problem with it, or None."""
    cluster = context.cluster
    if isinstance(outcome, ReadFailed):
        return f"reading it failed with {outcome.error.name}"
    if not isinstance(outcome, Data):
        return "the answer is not that of a read of data"
    try:
        state = znodes.decode_state(*topic_partition, outcome.data, outcome.stat.version)
    except znodes.MalformedZnode as error:
        return str(error)
    if state is None:
        return "the state znode is empty"
    if state.controller_epoch > cluster.epoch:
        return f"it was written by controller epoch {state.controller_epoch}, ours is {cluster.epoch}"
    set_leadership(cluster, topic_partition, state)
    return None


# --- small parts --------------------------------------------------------------------------------------------------


def online(context: Context, topic_partition: TopicPartition) -> election.IsOnline:
    return lambda broker: context.cluster.is_online(topic_partition, broker)


def set_state(topic_partition: TopicPartition, state: LeaderAndIsr) -> tuple[Operation, ...]:
    """Return the write of the state, which expects the version that `state` was computed from."""
    return (SetData(paths.partition_state(*topic_partition), znodes.encode_state(state), state.partition_epoch),)


def with_next_version(state: LeaderAndIsr) -> LeaderAndIsr:
    """Return the state with the version that its write gives: one higher."""
    return state._replace(partition_epoch=state.partition_epoch + 1)


def drop_strangers_unwritten(context: Context, topic_partition: TopicPartition) -> None:
    """Remove strangers from the ISR in memory, under the next leader epoch, where the state znode was removed by hand.

    No write can remove them there. Brokers would receive an ISR with a replica whose log is deleted. A leader cannot
    shrink its ISR without the state: producers with acks=all would wait until another controller is elected.
    """
    cluster = context.cluster
    partition = cluster.partition(topic_partition)
    if partition is None or partition.leadership is None:
        return
    known = election.without_strangers(partition.assignment, partition.leadership)
    if known is not partition.leadership:
        set_leadership(cluster, topic_partition, election.raised(known, cluster.epoch))


def is_stale(outcome: GroupOutcome) -> bool:
    """The state was written by others since it was read."""
    return isinstance(outcome, GroupFailed) and outcome.error is ZkError.BAD_VERSION


def is_removed(outcome: GroupOutcome) -> bool:
    """The state znode to be written does not exist any more."""
    return isinstance(outcome, GroupFailed) and outcome.error is ZkError.NO_NODE


def refuse_write(turn: Turn, topic_partition: TopicPartition, what: str, outcome: GroupOutcome) -> None:
    why = outcome.error.name if isinstance(outcome, GroupFailed) else "the outcome of the write is not known"
    turn.record(FactType.REFUSAL, f"partition/{topic_partition}", what=what, why=f"writing its state: {why}")
