"""Foreign ISR members: ISR members that are not replicas of the partition.

A leader of an older protocol writes its ISR itself, perhaps before it receives a smaller assignment. Users write states
too. A foreign member's log may be deleted already. If the broker became a replica again, it would count as in sync with
an empty log: a reassignment would complete at once, or an election would choose it.

Foreign ISR members are therefore removed wherever a state is read (at a takeover, after a notification, after a
conflict):

    assignment [1, 2]             what happens
    ----------------------------  --------------------------------------------------------------------------------
    ISR [1, 2, 3], leader 1       ISR [1, 2] is written under the next leader epoch, and sent to the replicas
    ISR [1, 3], leader 3          the same with ISR [1]; then a leader is elected
    ISR [3]                       the state stays: only the foreign ISR member has every record
    [1, 3], the znode is removed  no write is possible; the replicas are sent the ISR [1] all the same
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core.context import Context
from lethe.controller.core.election import raised, without_foreign_isr_members
from lethe.controller.core.mutation import set_leader_and_isr
from lethe.controller.core.partition_sets import partition_columns
from lethe.controller.core.state_writes import (
    is_removed,
    is_stale,
    refuse_write,
    remove_foreign_isr_members_unwritten,
    set_states,
    with_next_version,
)
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import BringOnline, MovePartitions
from lethe.controller.core.tasks_requests import ForeignIsrMembersRemoved, RefreshStates, RemoveForeignIsrMembers
from lethe.controller.core.transitions import PartitionState
from lethe.protocol.vocabulary import LEADER_NONE, LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper.packing import GroupDone, GroupOutcome


def drop(step: StepContext, task: RemoveForeignIsrMembers) -> None:
    """Write these partitions' states without foreign ISR members, if they have any."""
    context = step.context
    states: dict[TopicPartition, LeaderAndIsr] = {}
    for topic_partition in task.partitions:
        state = _without(context, topic_partition)
        if state is not None:
            states[topic_partition] = state
    if states:
        step.write(set_states(states.items()), ForeignIsrMembersRemoved(tuple(states), tuple(states.values())))


def _without(context: Context, topic_partition: TopicPartition) -> LeaderAndIsr | None:
    cluster = context.cluster
    partition = cluster.partition(topic_partition)
    if partition is None or partition.leader_and_isr is None or cluster.is_queued(topic_partition.topic):
        return None
    current = partition.leader_and_isr
    state = without_foreign_isr_members(partition.assignment, current)
    if state is current:
        return None
    return raised(state, cluster.epoch)


def on_foreign_isr_members_removed(
    step: StepContext, task: ForeignIsrMembersRemoved, outcomes: Sequence[GroupOutcome]
) -> None:
    """Store the written states and send them to the replicas; read states again that others have written."""
    context = step.context
    batch = step.batch()
    leaderless: list[TopicPartition] = []
    stale: list[TopicPartition] = []
    for topic_partition, state, outcome in zip(task.partitions, task.leader_and_isr, outcomes, strict=True):
        partition = context.cluster.partition(topic_partition)
        if partition is None:
            continue
        if is_stale(outcome):
            stale.append(topic_partition)
            continue
        if isinstance(outcome, GroupDone):
            set_leader_and_isr(context.cluster, topic_partition, with_next_version(state))
        else:
            refuse_write(step, topic_partition, "taking strangers out of the ISR", outcome)
            if not is_removed(outcome):
                continue
            remove_foreign_isr_members_unwritten(context, topic_partition)
        batch.add_leader_and_isr(partition.assignment.replicas, topic_partition, is_new=False)
        if state.leader == LEADER_NONE:
            leaderless.append(topic_partition)
    step.flush(batch)
    step.do(
        MovePartitions(partition_columns(leaderless), PartitionState.OFFLINE),
        BringOnline(partition_columns(leaderless)),
        RefreshStates(tuple(stale)),
    )
