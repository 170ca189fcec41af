"""Write leadership: elections, and the ISR without replicas that went offline. First states: `first_leaders`.

A write is computed from memory and expects its znode version. If ZooKeeper has another version (leaders before IBP 2.7
write ISRs), the state is read and the computation repeated; Kafka reads before each write with the same result. Before
2.7 the state is also read if memory has no eligible leader. Memory changes after a known success only; requests follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, assert_never

from lethe.controller.core import election, partition_machine, replica_machine
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context
from lethe.controller.core.continuations import StatesReread
from lethe.controller.core.election import Elected, NoLeader, Strategy
from lethe.controller.core.mutation import set_leader_and_isr, set_leaders
from lethe.controller.core.partition_sets import (
    Bits,
    PartitionColumns,
    ReplicaColumns,
    bits_of,
    by_broker,
    by_members,
    by_topic,
    chosen,
    common,
    numbers_in,
    packed,
    partition_columns,
    partitions_in,
)
from lethe.controller.core.state_writes import (
    is_removed,
    is_stale,
    refuse_write,
    remove_foreign_isr_members_unwritten,
    rows_of,
    set_states,
    with_next_versions,
    written,
)
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import (
    ElectLeaders,
    IsrShrunk,
    LeadersElected,
    ShrinkIsr,
    UncleanConfigsRead,
)
from lethe.controller.core.tasks_reassignment import (
    AnnounceReassignments,
    LeadTargets,
    ProgressReassignments,
    RetireReplicas,
)
from lethe.controller.core.tasks_requests import RemoveForeignIsrMembers
from lethe.controller.core.topic import Partition
from lethe.controller.core.transitions import PartitionState
from lethe.protocol.kafka.config_values import parse_boolean
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Data,
    GetData,
    ReadOutcome,
    failure_words,
    is_absent,
    read_error,
)
from lethe.protocol.zookeeper.packing import GroupOutcome

UNCLEAN_CONFIG = "unclean.leader.election.enable"

_WHAT: Final[Mapping[Strategy, str]] = MappingProxyType(
    {
        Strategy.OFFLINE: "OFFLINE to ONLINE",
        Strategy.UNCLEAN: "electing a leader from outside the ISR",
        Strategy.REASSIGN: "electing a leader from the target replicas",
        Strategy.PREFERRED: "electing the preferred replica",
        Strategy.CONTROLLED_SHUTDOWN: "electing a leader that is not shutting down",
    }
)
_WHY_NOT: Final[Mapping[Strategy, str]] = MappingProxyType(
    {
        Strategy.OFFLINE: "no live replica may lead the partition",
        Strategy.UNCLEAN: "no replica is live",
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
    chosen: dict[str, dict[int, LeaderAndIsr]] = {}
    lossy: dict[str, list[int]] = {}
    undecided: dict[str, list[int]] = {}
    leaderless: dict[str, list[int]] = {}
    doubtful: dict[str, list[int]] = {}
    believed = task.fresh or unclean is not None or context.config.ibp.has_alter_partition
    for name, number, result in _results(context, task.partitions, task.strategy, unclean or frozenset()):
        match result:
            case Elected():
                chosen.setdefault(name, {})[number] = result.leader_and_isr
                if result.unclean:
                    lossy.setdefault(name, []).append(number)
            case NoLeader() if not believed:
                doubtful.setdefault(name, []).append(number)
            case NoLeader(unclean_would_help=True) if unclean is None:
                undecided.setdefault(name, []).append(number)
            case NoLeader():
                leaderless.setdefault(name, []).append(number)
    step.refuse_partitions(leaderless, _WHAT[task.strategy], _WHY_NOT[task.strategy])
    if doubtful and not chosen:
        again = packed(doubtful)
        read_again(step, tuple(partitions_in(again)), ElectLeaders(again, strategy=task.strategy, fresh=True))
        return
    if doubtful:
        step.do(ElectLeaders(packed(doubtful), strategy=task.strategy))
    if undecided:
        if chosen:
            step.do(ElectLeaders(packed(undecided), fresh=True))
        else:
            then = UncleanConfigsRead(packed(undecided), tuple(undecided))
            step.read((GetData(paths.config_topic(name)) for name in undecided), then)
            return
    if chosen:
        step.write(set_states(rows_of(chosen)), LeadersElected(chosen, packed(lossy), task.strategy))


def _results(
    context: Context, partitions: PartitionColumns, strategy: Strategy, unclean: frozenset[str]
) -> Iterator[tuple[str, int, Elected | NoLeader]]:
    """Yield the results for those of these partitions that have leadership, without queued topics.

    Without failed directories the same replicas and leadership give the same result, which is computed once."""
    cluster = context.cluster
    has_failures = cluster.has_failures
    known: dict[tuple[ReplicaAssignment, LeaderAndIsr, bool], Elected | NoLeader] = {}
    for name, bits in partitions.items():
        topic = cluster.topics.get(name)
        if topic is None or cluster.is_queued(name):
            continue
        for number, partition, leader_and_isr in topic.leaders(bits):
            key = (partition.assignment, leader_and_isr, name in unclean)
            result = None if has_failures else known.get(key)
            if result is None:
                result = known[key] = choice(context, TopicPartition(name, number), *key, strategy)
            yield name, number, result


def choice(
    context: Context,
    topic_partition: TopicPartition,
    assignment: ReplicaAssignment,
    current: LeaderAndIsr,
    may_be_unclean: bool,
    strategy: Strategy,
) -> Elected | NoLeader:
    """Return the result of an election of one partition, from memory. `may_be_unclean`: the topic allows it."""
    epoch = context.cluster.epoch
    current = election.without_foreign_isr_members(assignment, current)
    is_online = online(context, topic_partition)
    match strategy:
        case Strategy.OFFLINE | Strategy.UNCLEAN:
            return election.offline(
                assignment,
                current,
                is_online,
                epoch,
                unclean_allowed=may_be_unclean or strategy is Strategy.UNCLEAN,
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
        if read_error(outcome) is not None:
            step.refuse(f"topic/{topic}", "unclean leader election", f"reading its config: {failure_words(outcome)}")
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
    cluster = context.cluster
    batch = step.batch()
    done, failed = written(task.states, outcomes)
    lossy: dict[str, list[TopicPartition]] = {}
    for topic_partition in partitions_in(common(task.unclean, packed(done))):
        elected = task.states[topic_partition.topic][topic_partition.partition]
        what_is_lost = _what_is_lost(cluster.partition(topic_partition), elected, task.strategy)
        lossy.setdefault(what_is_lost, []).append(topic_partition)
        context.unclean_elections += 1
    for name, states in with_next_versions(done).items():
        context.elections += len(states)
        set_leaders(cluster, name, states)
        if name in cluster.topics:
            bits = bits_of(states)
            batch.add_leader_and_isrs(name, bits, _receivers(cluster, name, bits, task.strategy), is_new=False)
    stale = [topic_partition for topic_partition, outcome in failed if is_stale(outcome)]
    for topic_partition, outcome in failed:
        if not is_stale(outcome):
            refuse_write(step, topic_partition, _WHAT[task.strategy], outcome)
    for what_is_lost, partitions in lossy.items():
        step.refuse_partitions(by_topic(partitions), "electing a leader that was in sync", what_is_lost)
    partition_machine.enter(step, packed(done), PartitionState.ONLINE)
    step.flush(batch)
    if stale:
        read_again(step, stale, ElectLeaders(partition_columns(stale), strategy=task.strategy))


def _what_is_lost(before: Partition | None, elected: LeaderAndIsr, strategy: Strategy) -> str:
    """Return the text for a user who may still recover the disks of the former ISR."""
    isr = None if before is None or before.leader_and_isr is None else list(before.leader_and_isr.isr)
    what = f"none of the ISR {isr} is alive: {elected.leader} leads, and what it had not fetched is lost"
    return f"{what}, as a client requested" if strategy is Strategy.UNCLEAN else what


def _receivers(cluster: ClusterState, name: str, partitions: Bits, strategy: Strategy) -> Mapping[BrokerId, Bits]:
    """Return the receivers of LeaderAndIsr for these partitions; the batch leaves unregistered ones out."""
    topic = cluster.topics[name]
    assigned = {broker: mine for broker, bits in topic.assigned().items() if (mine := bits & partitions)}
    match strategy:
        case Strategy.OFFLINE | Strategy.UNCLEAN:
            return {broker: cluster.online(name, broker, bits) for broker, bits in assigned.items()}
        case Strategy.REASSIGN:
            return by_broker((n, topic.partitions[n].assignment.target) for n in numbers_in(partitions))
        case Strategy.PREFERRED:
            return assigned
        case Strategy.CONTROLLED_SHUTDOWN:
            # The leaving broker too, so that it stops leading.
            return {broker: cluster.reachable(name, broker, bits) for broker, bits in assigned.items()}
        case _:
            assert_never(strategy)


# --- replicas going offline ---------------------------------------------------------------------------------------


def shrink(step: StepContext, task: ShrinkIsr) -> None:
    """Write the ISRs without these replicas; replicas outside the ISR go offline with the others."""
    cluster = step.context.cluster
    states: dict[str, dict[int, LeaderAndIsr]] = {}
    known: dict[tuple[ReplicaAssignment, LeaderAndIsr, tuple[int, ...]], LeaderAndIsr | None] = {}
    for name, columns in task.replicas.items():
        topic = cluster.topics.get(name)
        if topic is None:
            continue
        mine: dict[int, LeaderAndIsr] = {}
        for gone, bits in by_members(columns).items():
            for number, partition, leader_and_isr in topic.leaders(bits):
                key = (partition.assignment, leader_and_isr, gone)
                if key not in known:
                    known[key] = _shrunk(*key, cluster)
                if (shrunk := known[key]) is not None:
                    mine[number] = shrunk
        if mine:
            states[name] = dict(sorted(mine.items()))
    if states:
        step.write(set_states(rows_of(states)), IsrShrunk(states, task.replicas))
    elif task.replicas:
        replica_machine.finish_offline(step, task.replicas)


def _shrunk(
    assignment: ReplicaAssignment, current: LeaderAndIsr, gone: tuple[int, ...], cluster: ClusterState
) -> LeaderAndIsr | None:
    """Return the leadership without these replicas; None if nothing changes. Who is no replica goes first."""
    controllers = tuple(filter(cluster.is_advertised, cluster.advertised_controllers))
    known = election.without_foreign_isr_members(assignment, current, controllers)
    shrunk = election.shrunk(known, election.as_assigned(assignment, gone), cluster.epoch)
    return election.raised(known, cluster.epoch) if shrunk is None and known is not current else shrunk


def on_isr_shrunk(step: StepContext, task: IsrShrunk, outcomes: Sequence[GroupOutcome]) -> None:
    """Take offline the replicas whose partition was written, and those that needed no write."""
    done, failed = written(task.states, outcomes)
    for name, states in with_next_versions(done).items():
        set_leaders(step.context.cluster, name, states)
    stale: list[TopicPartition] = []
    refused: list[TopicPartition] = []
    for topic_partition, outcome in failed:
        if is_stale(outcome):
            stale.append(topic_partition)
            continue
        refuse_write(step, topic_partition, "replicas to OFFLINE", outcome)
        if is_removed(outcome):
            # The state was removed by hand: there is no ISR to shrink.
            remove_foreign_isr_members_unwritten(step.context, topic_partition)
        else:
            refused.append(topic_partition)
    again, kept = partition_columns(stale), partition_columns((*stale, *refused))
    replica_machine.finish_offline(step, chosen(task.replicas, lambda name, _, bits: bits & ~kept.get(name, 0)))
    if stale:
        read_again(step, stale, ShrinkIsr(_among(task.replicas, again)))


def _among(replicas: ReplicaColumns, partitions: PartitionColumns) -> ReplicaColumns:
    """Return those of these replicas whose partitions are among these."""
    return chosen(replicas, lambda name, _, bits: bits & partitions.get(name, 0))


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
            going = common(partitions, partition_columns(going_on))
            step.do(replace(election_again, partitions=going), *after)
        case AnnounceReassignments(partitions=partitions) | LeadTargets(partitions=partitions) as move_again:
            going_moves = replace(move_again, partitions=tuple(p for p in partitions if p in going_on))
            step.do(going_moves, RetireReplicas(step.context.cluster.replicas_left_over(removed)))
        case ShrinkIsr(replicas=replicas):
            # As in `on_isr_shrunk`: without a state there is no ISR to shrink.
            replica_machine.finish_offline(step, _among(replicas, partition_columns(removed)))
            step.do(ShrinkIsr(_among(replicas, partition_columns(going_on))), *after)


def take_in_state(context: Context, topic_partition: TopicPartition, outcome: ReadOutcome) -> str | None:
    """Store a partition's state as just read. Return the problem with it, or None."""
    cluster = context.cluster
    if not isinstance(outcome, Data):
        return f"reading it failed with {failure_words(outcome)}"
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


def online(context: Context, topic_partition: TopicPartition) -> election.IsOnline:
    return lambda broker: context.cluster.is_online(topic_partition, broker)
