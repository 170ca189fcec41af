"""Moves partitions from state to state; `leader_changes` and `first_leaders` write the leaders to ZooKeeper."""

from __future__ import annotations

from lethe.controller.core.mutation import enter_partition_state
from lethe.controller.core.partition_sets import Bits, PartitionColumns, numbers_in, partitions_with, ranges_of
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import BringOnline, ElectLeaders, InitializeLeaderAndIsr, MovePartitions
from lethe.controller.core.transitions import PARTITION_TRANSITIONS, PartitionState
from lethe.protocol.journal import EventRecordType


def move(step: StepContext, task: MovePartitions) -> None:
    """Move those of these partitions to the target state that may enter it."""
    enter(step, task.partitions, task.target)


def enter(step: StepContext, partitions: PartitionColumns, target: PartitionState) -> None:
    """Do what `move` does, also after a leader has been written."""
    legal: dict[str, Bits] = {}
    for name, bits in partitions.items():
        if may := bits & _may_enter(step, name, target):
            legal[name] = may
        if may != bits:
            _refuse(step, name, bits & ~may, target)
    for (name, before), moved in enter_partition_state(step.context.cluster, legal, target).items():
        step.record(
            EventRecordType.TRANSITION,
            f"topic/{name}",
            machine="partition",
            topic_id=step.id_of(name),
            partitions=ranges_of(moved),
            before=before.name,
            after=target.name,
        )


def _may_enter(step: StepContext, name: str, target: PartitionState) -> Bits:
    topic = step.context.cluster.topics.get(name)
    return 0 if topic is None else topic.partitions_in_states(PARTITION_TRANSITIONS[target])


def _refuse(step: StepContext, name: str, partitions: Bits, target: PartitionState) -> None:
    topic = step.context.cluster.topics.get(name)
    for number in numbers_in(partitions):
        before = PartitionState.NON_EXISTENT if topic is None else topic.partition_state(number)
        step.refuse(
            f"partition/{name}-{number}",
            f"{before.name} to {target.name}",
            "the state machine has no such transition",
        )


def bring_online(step: StepContext, task: BringOnline) -> None:
    """Give a leader to the New and Offline partitions of the task, except those of queued topics."""
    cluster = step.context.cluster
    new: dict[str, Bits] = {}
    offline: dict[str, Bits] = {}
    for name, bits in (cluster.all_of(cluster.topics) if task.partitions is None else task.partitions).items():
        if name not in cluster.topics or cluster.is_queued(name):
            continue
        for state, found in ((PartitionState.NEW, new), (PartitionState.OFFLINE, offline)):
            if mine := bits & partitions_with(cluster.topics[name].states, state):
                found[name] = mine
    if new:
        step.do(InitializeLeaderAndIsr(new))
    if offline:
        step.do(ElectLeaders(offline))
