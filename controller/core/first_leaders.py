"""Writes the first state of new partitions.

Two writes for any number of partitions: `/brokers/topics/T/partitions` of each topic, then each partition's znode
together with its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lethe.controller.core import election, partition_machine
from lethe.controller.core.leader_changes import online, refuse_write
from lethe.controller.core.mutation import set_leader_and_isr
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import (
    InitializeLeaderAndIsr,
    LeaderAndIsrInitialized,
    LeaderAndIsrPathsCreated,
)
from lethe.controller.core.transitions import PartitionState
from lethe.protocol.vocabulary import LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Operation, ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome


def initialize(step: StepContext, task: InitializeLeaderAndIsr) -> None:
    """Create the parent of the partitions' znodes for each topic."""
    if task.partitions:
        topics = dict.fromkeys(topic_partition.topic for topic_partition in task.partitions)
        step.write(
            [(Create(paths.topic_partitions(topic), None),) for topic in topics],
            LeaderAndIsrPathsCreated(task.partitions),
        )


def on_leader_and_isr_paths_created(step: StepContext, task: LeaderAndIsrPathsCreated) -> None:
    """Write the first states. If a parent is missing, the write of the state fails and is recorded."""
    _write_first_states(step, task.partitions, state_only=False)


def _write_first_states(step: StepContext, partitions: Iterable[TopicPartition], *, state_only: bool) -> None:
    context = step.context
    chosen: list[TopicPartition] = []
    leader_and_isr: list[LeaderAndIsr] = []
    groups: list[tuple[Operation, ...]] = []
    leaderless: list[TopicPartition] = []
    for topic_partition in partitions:
        partition = context.cluster.partition(topic_partition)
        if partition is None:
            continue
        first = election.initial(partition.assignment, online(context, topic_partition), context.cluster.epoch)
        if first is None:
            leaderless.append(topic_partition)
            continue
        chosen.append(topic_partition)
        leader_and_isr.append(first)
        state = Create(paths.partition_state(*topic_partition), znodes.encode_state(first))
        groups.append((state,) if state_only else (Create(paths.topic_partition(*topic_partition), None), state))
    step.refuse_partitions(leaderless, "NEW to ONLINE", "no assigned replica is on a live broker")
    if groups:
        step.write(groups, LeaderAndIsrInitialized(tuple(chosen), tuple(leader_and_isr), state_only))


def on_leader_and_isr_initialized(
    step: StepContext, task: LeaderAndIsrInitialized, outcomes: Sequence[GroupOutcome]
) -> None:
    """Send LeaderAndIsr (new) to the ISR's members, and the leader to all brokers."""
    batch = step.batch()
    done, again = [], []
    for topic_partition, leader_and_isr, outcome in zip(task.partitions, task.leader_and_isr, outcomes, strict=True):
        if isinstance(outcome, GroupDone):
            set_leader_and_isr(step.context.cluster, topic_partition, leader_and_isr)
            batch.add_leader_and_isr(leader_and_isr.isr, topic_partition, is_new=True)
            done.append(topic_partition)
        elif not task.state_only and outcome == GroupFailed(0, ZkError.NODE_EXISTS):
            # A controller died between writing this znode and the state below it.
            again.append(topic_partition)
        else:
            refuse_write(step, topic_partition, "NEW to ONLINE", outcome)
    partition_machine.enter(step, tuple(done), PartitionState.ONLINE)
    step.flush(batch)
    if again:
        _write_first_states(step, again, state_only=True)
