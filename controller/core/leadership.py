"""Writes leadership: the first state of a partition, elections, and the ISR without replicas that went offline.

Memory is tried first: what is written is computed from the leadership known here, expecting the version it was read
under. Only where ZooKeeper has another version (a leader of an old protocol writes its ISR itself) is the state read
again and the computation repeated; Kafka reads before every write and ends in the same states. Memory changes only
when a write is known to have succeeded, and brokers are told after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.core import election, partition_machine, replica_machine
from controller.core.agenda import ElectLeaders, InitializeLeadership, Replicas, ShrinkIsr
from controller.core.context import Context
from controller.core.continuations import (
    IsrShrunk,
    LeadersElected,
    LeadershipInitialized,
    LeadershipPathsCreated,
    StatesReread,
    UncleanConfigsRead,
)
from controller.core.mutation import set_leadership
from controller.core.transitions import PartitionState
from controller.core.turn import Turn
from protocol.journal import FactType
from protocol.vocabulary import LeaderAndIsr, PartitionReplica, TopicPartition
from protocol.zookeeper import paths, znodes
from protocol.zookeeper.operations import Create, Data, GetData, Operation, ReadFailed, ReadOutcome, SetData, ZkError
from protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

UNCLEAN_CONFIG = "unclean.leader.election.enable"


# --- the first state ----------------------------------------------------------------------------------------------


def initialize(turn: Turn, task: InitializeLeadership) -> None:
    """First the parents, once for each topic, then each partition with its state: two rounds for any number."""
    if task.partitions:
        topics = dict.fromkeys(topic_partition.topic for topic_partition in task.partitions)
        turn.write(
            [(Create(paths.topic_partitions(topic), None),) for topic in topics],
            LeadershipPathsCreated(task.partitions),
        )


def paths_created(turn: Turn, task: LeadershipPathsCreated) -> None:
    """The parents are there, or were before: whether that was so, the states will tell."""
    _write_first_states(turn, task.partitions, state_only=False)


def _write_first_states(turn: Turn, partitions: Iterable[TopicPartition], *, state_only: bool) -> None:
    context = turn.context
    chosen: list[TopicPartition] = []
    leadership: list[LeaderAndIsr] = []
    groups: list[tuple[Operation, ...]] = []
    leaderless: list[TopicPartition] = []
    for topic_partition in partitions:
        partition = context.partition(topic_partition)
        if partition is None:
            continue
        first = election.initial(partition.assignment, _online(context, topic_partition), context.epoch)
        if first is None:
            leaderless.append(topic_partition)
            continue
        chosen.append(topic_partition)
        leadership.append(first)
        state = Create(paths.partition_state(*topic_partition), znodes.encode_state(first))
        groups.append((state,) if state_only else (Create(paths.topic_partition(*topic_partition), None), state))
    turn.refuse_partitions(leaderless, "NEW to ONLINE", "no assigned replica is on a live broker")
    if groups:
        turn.write(groups, LeadershipInitialized(tuple(chosen), tuple(leadership), state_only))


def initialized(turn: Turn, task: LeadershipInitialized, outcomes: Sequence[GroupOutcome]) -> None:
    """Tell the ISR's members that they host a new partition, and everybody who leads it."""
    batch = turn.batch()
    done, again = [], []
    for topic_partition, leadership, outcome in zip(task.partitions, task.leadership, outcomes, strict=True):
        if isinstance(outcome, GroupDone):
            set_leadership(turn.context, topic_partition, leadership)
            batch.add_leader_and_isr(leadership.isr, topic_partition, is_new=True)
            done.append(topic_partition)
        elif not task.state_only and outcome == GroupFailed(0, ZkError.NODE_EXISTS):
            # A controller died between this znode and the state below it.
            again.append(topic_partition)
        else:
            _refuse_write(turn, topic_partition, "NEW to ONLINE", outcome)
    partition_machine.enter(turn, tuple(done), PartitionState.ONLINE)
    turn.flush(batch)
    if again:
        _write_first_states(turn, again, state_only=True)


# --- elections ----------------------------------------------------------------------------------------------------


def elect(turn: Turn, task: ElectLeaders) -> None:
    """Choose leaders for Offline partitions and write them; ask for topic configurations where they decide."""
    context = turn.context
    allowed = None if task.unclean_topics is None else frozenset(task.unclean_topics)
    chosen: list[TopicPartition] = []
    elected: list[election.Elected] = []
    undecided: list[TopicPartition] = []
    leaderless: list[TopicPartition] = []
    for topic_partition in task.partitions:
        partition = context.partition(topic_partition)
        if partition is None or partition.leadership is None or context.is_queued(topic_partition.topic):
            continue
        result = election.offline(
            partition.assignment,
            partition.leadership,
            _online(context, topic_partition),
            context.epoch,
            unclean_allowed=allowed is not None and topic_partition.topic in allowed,
            recovery_supported=context.config.ibp.has_leader_recovery_state,
        )
        match result:
            case election.Elected():
                chosen.append(topic_partition)
                elected.append(result)
            case election.NoLeader(unclean_would_help=True) if allowed is None:
                undecided.append(topic_partition)
            case election.NoLeader():
                leaderless.append(topic_partition)
    turn.refuse_partitions(leaderless, "OFFLINE to ONLINE", "no live replica may lead the partition")
    if undecided:
        topics = tuple(dict.fromkeys(topic_partition.topic for topic_partition in undecided))
        if chosen:
            turn.do(ElectLeaders(tuple(undecided)))
        else:
            turn.read((GetData(paths.config_topic(t)) for t in topics), UncleanConfigsRead(tuple(undecided), topics))
            return
    if chosen:
        leaders = tuple(result.leadership for result in elected)
        turn.write(
            [_set_state(topic_partition, state) for topic_partition, state in zip(chosen, leaders, strict=True)],
            LeadersElected(tuple(chosen), leaders, tuple(result.unclean for result in elected)),
        )


def configs_read(turn: Turn, task: UncleanConfigsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Elect again, now knowing which topics allow a leader that may lack records."""
    default = turn.context.config.unclean_leader_election_enable
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
    """Tell the live replicas of each partition who leads it now."""
    context = turn.context
    batch = turn.batch()
    done, stale = [], []
    rows = zip(task.partitions, task.leadership, task.unclean, outcomes, strict=True)
    for topic_partition, leadership, unclean, outcome in rows:
        if isinstance(outcome, GroupDone):
            written = _written(leadership)
            set_leadership(context, topic_partition, written)
            partition = context.partition(topic_partition)
            replicas = () if partition is None else partition.assignment.replicas
            live = [r for r in replicas if context.is_online(topic_partition, r)]
            batch.add_leader_and_isr(live, topic_partition, is_new=False)
            context.elections += 1
            context.unclean_elections += unclean
            done.append(topic_partition)
        elif _is_stale(outcome):
            stale.append(topic_partition)
        else:
            _refuse_write(turn, topic_partition, "OFFLINE to ONLINE", outcome)
    partition_machine.enter(turn, tuple(done), PartitionState.ONLINE)
    turn.flush(batch)
    if stale:
        _reread(turn, stale, ElectLeaders(tuple(stale)))


# --- replicas going offline ---------------------------------------------------------------------------------------


def shrink(turn: Turn, task: ShrinkIsr) -> None:
    """Write the ISRs without these replicas; those that are in none go offline along with them."""
    context = turn.context
    by_partition: dict[TopicPartition, list[PartitionReplica]] = {}
    for replica in task.replicas:
        by_partition.setdefault(replica.topic_partition, []).append(replica)
    unchanged: list[PartitionReplica] = []
    chosen: list[TopicPartition] = []
    leadership: list[LeaderAndIsr] = []
    replicas: list[Replicas] = []
    for topic_partition, gone in by_partition.items():
        partition = context.partition(topic_partition)
        known = None if partition is None else partition.leadership
        shrunk = None if known is None else election.shrunk(known, tuple(r.broker for r in gone), context.epoch)
        if shrunk is None:
            unchanged.extend(gone)
        else:
            chosen.append(topic_partition)
            leadership.append(shrunk)
            replicas.append(tuple(gone))
    if chosen:
        turn.write(
            [_set_state(topic_partition, state) for topic_partition, state in zip(chosen, leadership, strict=True)],
            IsrShrunk(tuple(chosen), tuple(leadership), tuple(replicas), tuple(unchanged)),
        )
    elif unchanged:
        replica_machine.finish_offline(turn, tuple(unchanged))


def isr_shrunk(turn: Turn, task: IsrShrunk, outcomes: Sequence[GroupOutcome]) -> None:
    """The replicas whose partition was written, and those that needed nothing, go offline."""
    offline = list(task.unchanged)
    stale: list[TopicPartition] = []
    again: list[PartitionReplica] = []
    for topic_partition, leadership, replicas, outcome in zip(
        task.partitions, task.leadership, task.replicas, outcomes, strict=True
    ):
        if isinstance(outcome, GroupDone):
            set_leadership(turn.context, topic_partition, _written(leadership))
            offline.extend(replicas)
        elif _is_stale(outcome):
            stale.append(topic_partition)
            again.extend(replicas)
        else:
            _refuse_write(turn, topic_partition, "replicas to OFFLINE", outcome)
    if offline:
        replica_machine.finish_offline(turn, tuple(offline))
    if stale:
        _reread(turn, stale, ShrinkIsr(tuple(again)))


# --- what somebody else wrote -------------------------------------------------------------------------------------


def _reread(turn: Turn, partitions: list[TopicPartition], again: ElectLeaders | ShrinkIsr) -> None:
    turn.read(
        (GetData(paths.partition_state(*topic_partition)) for topic_partition in partitions),
        StatesReread(tuple(partitions), again),
    )


def reread(turn: Turn, task: StatesReread, outcomes: Sequence[ReadOutcome]) -> None:
    """Take in the states that were written by somebody else, and repeat the task for those that can go on."""
    going_on: dict[TopicPartition, None] = {}
    for topic_partition, outcome in zip(task.partitions, outcomes, strict=True):
        problem = take_in_state(turn.context, topic_partition, outcome)
        if problem is None:
            going_on[topic_partition] = None
        else:
            turn.refuse(f"partition/{topic_partition}", "reading its state again", problem)
    match task.again:
        case ElectLeaders(partitions=partitions, unclean_topics=unclean):
            turn.do(ElectLeaders(tuple(p for p in partitions if p in going_on), unclean))
        case ShrinkIsr(replicas=replicas):
            turn.do(ShrinkIsr(tuple(r for r in replicas if r.topic_partition in going_on)))


def take_in_state(context: Context, topic_partition: TopicPartition, outcome: ReadOutcome) -> str | None:
    """Remember a partition's state as just read. Returns what is wrong with it, or None."""
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
    if state.controller_epoch > context.epoch:
        return f"it was written by controller epoch {state.controller_epoch}, ours is {context.epoch}"
    set_leadership(context, topic_partition, state)
    return None


# --- small parts --------------------------------------------------------------------------------------------------


def _online(context: Context, topic_partition: TopicPartition) -> election.IsOnline:
    return lambda broker: context.is_online(topic_partition, broker)


def _set_state(topic_partition: TopicPartition, state: LeaderAndIsr) -> tuple[Operation, ...]:
    return (SetData(paths.partition_state(*topic_partition), znodes.encode_state(state), state.partition_epoch),)


def _written(state: LeaderAndIsr) -> LeaderAndIsr:
    """ZooKeeper raises a znode's version by one for each write."""
    return state._replace(partition_epoch=state.partition_epoch + 1)


def _is_stale(outcome: GroupOutcome) -> bool:
    return isinstance(outcome, GroupFailed) and outcome.error is ZkError.BAD_VERSION


def _refuse_write(turn: Turn, topic_partition: TopicPartition, what: str, outcome: GroupOutcome) -> None:
    why = outcome.error.name if isinstance(outcome, GroupFailed) else "the outcome of the write is not known"
    turn.record(FactType.REFUSAL, f"partition/{topic_partition}", what=what, why=f"writing its state: {why}")
