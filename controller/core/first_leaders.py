"""Writes the first state of new partitions, in slices of topics: see `slices`.

Two writes for a slice: `/brokers/topics/T/partitions` of each topic, then each partition's znode together with its
state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lethe.controller.core import debts_policy, election, partition_machine
from lethe.controller.core.context import Context
from lethe.controller.core.leader_changes import online
from lethe.controller.core.mutation import set_leaders
from lethe.controller.core.partition_sets import (
    Bits,
    PartitionColumns,
    bits_of,
    by_broker,
    common,
    numbers_in,
    packed,
    partition_columns,
)
from lethe.controller.core.slices import slices
from lethe.controller.core.state_writes import refuse_write, written
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import (
    CompletePartitions,
    InitializeLeaderAndIsr,
    LeaderAndIsrInitialized,
    LeaderAndIsrPathsCreated,
)
from lethe.controller.core.transitions import PartitionState
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Operation, ZkError
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome


def initialize(step: StepContext, task: InitializeLeaderAndIsr) -> None:
    """Create the parents of the partitions' znodes: of the topics of the first slice now, of the others next."""
    if not task.partitions:
        return
    sizes = ((name, bits.bit_count()) for name, bits in task.partitions.items())
    first, *others = ({name: task.partitions[name] for name in names} for names in slices(step.context, sizes))
    step.do(*map(InitializeLeaderAndIsr, others))
    step.write([(Create(paths.topic_partitions(topic), None),) for topic in first], LeaderAndIsrPathsCreated(first))


def complete(step: StepContext, task: CompletePartitions) -> None:
    """Write the first states alone: the partitions' znodes exist."""
    _write_first_states(step, task.partitions, state_only=True)


def on_leader_and_isr_paths_created(step: StepContext, task: LeaderAndIsrPathsCreated) -> None:
    """Write the first states. If a parent is missing, the write of the state fails and is recorded."""
    _write_first_states(step, task.partitions, state_only=False)


def _write_first_states(step: StepContext, partitions: PartitionColumns, *, state_only: bool) -> None:
    states: dict[str, dict[int, LeaderAndIsr]] = {}
    groups: list[tuple[Operation, ...]] = []
    leaderless: dict[str, list[int]] = {}
    for name, number, first in _first_states(step.context, partitions):
        if first is None:
            leaderless.setdefault(name, []).append(number)
            continue
        states.setdefault(name, {})[number] = first
        state = Create(paths.partition_state(name, number), znodes.encode_state(first))
        groups.append((state,) if state_only else (Create(paths.topic_partition(name, number), None), state))
    step.refuse_partitions(leaderless, "NEW to ONLINE", "no assigned replica is on a live broker")
    if groups:
        step.write(groups, LeaderAndIsrInitialized(states, state_only))


def _first_states(context: Context, partitions: PartitionColumns) -> Iterator[tuple[str, int, LeaderAndIsr | None]]:
    """Yield the first states of known partitions; None: no replica is online.

    Without failed directories the same replicas have the same first state, which is computed once."""
    cluster = context.cluster
    has_failures = cluster.has_failures
    known: dict[ReplicaAssignment, LeaderAndIsr | None] = {}
    for name, bits in common(partitions, cluster.all_of(partitions)).items():
        members = cluster.topics[name].partitions
        if epoch := debts_policy.first_leader_epoch(context, name):
            yield from _above(context, name, bits, epoch)
            continue
        for number in numbers_in(bits):
            assignment = members[number].assignment
            if has_failures or assignment not in known:
                is_online = online(context, TopicPartition(name, number))
                known[assignment] = election.initial(assignment, is_online, cluster.epoch)
            yield name, number, known[assignment]


def _above(
    context: Context, name: str, partitions: Bits, leader_epoch: int
) -> Iterator[tuple[str, int, LeaderAndIsr | None]]:
    """As `_first_states`, for a name of which brokers owe replicas: the epoch is above theirs, and a broker that
    may not hear of the partition yet leads only if no other can. One that would lead with old records does not lead."""
    cluster = context.cluster
    owing = {broker: debts_policy.withheld(context, broker, name) for broker in cluster.debts.by_broker}
    uncut = {broker: debts_policy.uncut(context, broker, name) for broker in cluster.debts.by_broker}
    for number in numbers_in(partitions):
        assignment = cluster.topics[name].partitions[number].assignment
        is_online = online(context, TopicPartition(name, number))
        cut = [r for r in assignment.replicas if is_online(r) and not uncut.get(BrokerId(r), 0) >> number & 1]
        free = [r for r in cut if not owing.get(BrokerId(r), 0) >> number & 1]
        first = election.initial(assignment, (free or cut).__contains__, cluster.epoch)
        yield name, number, None if first is None else first._replace(leader_epoch=leader_epoch)


def _outside_isr(context: Context, name: str, number: int, state: LeaderAndIsr) -> tuple[int, ...]:
    is_online = online(context, TopicPartition(name, number))
    replicas = context.cluster.topics[name].partitions[number].assignment.replicas
    return tuple(r for r in replicas if is_online(r) and r not in state.isr)


def on_leader_and_isr_initialized(
    step: StepContext, task: LeaderAndIsrInitialized, outcomes: Sequence[GroupOutcome]
) -> None:
    """Send LeaderAndIsr (new) to the ISR's members, and the leader to all brokers. A live replica outside the ISR has
    earlier records, which it cuts off as a follower: to it the partition is not new."""
    batch = step.batch()
    done, failed = written(task.states, outcomes)
    debts = step.context.cluster.debts
    for name, states in done.items():
        set_leaders(step.context.cluster, name, states)
        receivers = by_broker((number, state.isr) for number, state in states.items())
        batch.add_leader_and_isrs(name, bits_of(states), receivers, is_new=True)
        if any(name in owed for owed in debts.by_broker.values()):
            outside = ((number, _outside_isr(step.context, name, number, state)) for number, state in states.items())
            others = by_broker(outside)
            batch.add_leader_and_isrs(name, bits_of(states), others, is_new=False)
    again: list[TopicPartition] = []
    for topic_partition, outcome in failed:
        if not task.state_only and outcome == GroupFailed(0, ZkError.NODE_EXISTS):
            # A controller died between writing this znode and the state below it.
            again.append(topic_partition)
        else:
            refuse_write(step, topic_partition, "NEW to ONLINE", outcome)
    partition_machine.enter(step, packed(done), PartitionState.ONLINE)
    step.flush(batch)
    if again:
        step.do(CompletePartitions(partition_columns(again)))
