"""Moves partitions from state to state; `leader_changes` and `first_leaders` write the leaders to ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable

from lethe.controller.core.context import Context
from lethe.controller.core.mutation import set_partition_state
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import BringOnline, ElectLeaders, InitializeLeaderAndIsr, MovePartitions
from lethe.controller.core.transitions import PARTITION_TRANSITIONS, PartitionState
from lethe.protocol.journal import EventRecordType, partition_ranges
from lethe.protocol.vocabulary import TopicPartition


def move(step: StepContext, task: MovePartitions) -> None:
    """Move those of these partitions to the target state that may enter it."""
    enter(step, task.partitions, task.target)


def enter(step: StepContext, partitions: tuple[TopicPartition, ...], target: PartitionState) -> None:
    """Do what `move` does, also after a leader has been written."""
    cluster = step.context.cluster
    allowed = PARTITION_TRANSITIONS[target]
    moved: dict[tuple[str, PartitionState], list[int]] = {}
    for topic_partition in partitions:
        partition = cluster.partition(topic_partition)
        before = PartitionState.NON_EXISTENT if partition is None else partition.state
        if partition is None or before not in allowed:
            step.refuse(
                f"partition/{topic_partition}",
                f"{before.name} to {target.name}",
                "the state machine has no such transition",
            )
            continue
        set_partition_state(cluster, topic_partition, target)
        if before is not target:
            moved.setdefault((topic_partition.topic, before), []).append(topic_partition.partition)
    for (topic, before), numbers in moved.items():
        step.record(
            EventRecordType.TRANSITION,
            f"topic/{topic}",
            machine="partition",
            topic_id=step.id_of(topic),
            partitions=partition_ranges(numbers),
            before=before.name,
            after=target.name,
        )


def bring_online(step: StepContext, task: BringOnline) -> None:
    """Give a leader to the New and Offline partitions of the task, except those of queued topics."""
    new, offline = [], []
    for topic_partition, state in _candidates(step.context, task):
        if state is PartitionState.ONLINE or step.context.cluster.is_queued(topic_partition.topic):
            continue
        if state is PartitionState.NEW:
            new.append(topic_partition)
        elif state is PartitionState.OFFLINE:
            offline.append(topic_partition)
    if new:
        step.do(InitializeLeaderAndIsr(tuple(new)))
    if offline:
        step.do(ElectLeaders(tuple(offline)))


def _candidates(context: Context, task: BringOnline) -> Iterable[tuple[TopicPartition, PartitionState]]:
    if task.partitions is None:
        return ((topic_partition, partition.state) for topic_partition, partition in context.cluster.all_partitions())
    known = [(topic_partition, context.cluster.partition(topic_partition)) for topic_partition in task.partitions]
    return ((topic_partition, partition.state) for topic_partition, partition in known if partition is not None)
