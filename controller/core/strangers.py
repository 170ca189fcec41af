"""Strangers: ISR members that are not replicas of the partition.

A leader of an older protocol writes its ISR itself, perhaps before it receives a smaller assignment. Users write states
too. A stranger's log may be deleted already. If the broker became a replica again, it would count as in sync with an
empty log: a reassignment would complete at once, or an election would choose it.

Strangers are therefore removed wherever a state is read (at a takeover, after a notification, after a conflict):

    assignment [1, 2]             what happens
    ----------------------------  --------------------------------------------------------------------------------
    ISR [1, 2, 3], leader 1       ISR [1, 2] is written under the next leader epoch, and sent to the replicas
    ISR [1, 3], leader 3          the same with ISR [1]; then a leader is elected
    ISR [3]                       the state stays: only the stranger has every record
    [1, 3], the znode is removed  no write is possible; the replicas are sent the ISR [1] all the same
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core.agenda_partitions import BringOnline, MovePartitions
from lethe.controller.core.agenda_requests import DropStrangers, RefreshStates, StrangersDropped
from lethe.controller.core.context import Context
from lethe.controller.core.election import raised, without_strangers
from lethe.controller.core.leadership import (
    drop_strangers_unwritten,
    is_removed,
    is_stale,
    refuse_write,
    set_state,
    with_next_version,
)
from lethe.controller.core.mutation import set_leadership
from lethe.controller.core.transitions import PartitionState
from lethe.controller.core.turn import Turn
from lethe.protocol.vocabulary import LEADER_NONE, LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper.packing import GroupDone, GroupOutcome


def drop(turn: Turn, task: DropStrangers) -> None:
    """Write these partitions' states without strangers, if they have any."""
    context = turn.context
    chosen: list[TopicPartition] = []
    leadership: list[LeaderAndIsr] = []
    for topic_partition in task.partitions:
        state = _without(context, topic_partition)
        if state is not None:
            chosen.append(topic_partition)
            leadership.append(state)
    if chosen:
        turn.write(
            [set_state(tp, state) for tp, state in zip(chosen, leadership, strict=True)],
            StrangersDropped(tuple(chosen), tuple(leadership)),
        )


def _without(context: Context, topic_partition: TopicPartition) -> LeaderAndIsr | None:
    cluster = context.cluster
    partition = cluster.partition(topic_partition)
    if partition is None or partition.leadership is None or cluster.is_queued(topic_partition.topic):
        return None
    current = partition.leadership
    state = without_strangers(partition.assignment, current)
    if state is current:
        return None
    return raised(state, cluster.epoch)


def dropped(turn: Turn, task: StrangersDropped, outcomes: Sequence[GroupOutcome]) -> None:
    """Store the written states and send them to the replicas; read states again that others have written."""
    context = turn.context
    batch = turn.batch()
    leaderless: list[TopicPartition] = []
    stale: list[TopicPartition] = []
    for topic_partition, state, outcome in zip(task.partitions, task.leadership, outcomes, strict=True):
        partition = context.cluster.partition(topic_partition)
        if partition is None:
            continue
        if is_stale(outcome):
            stale.append(topic_partition)
            continue
        if isinstance(outcome, GroupDone):
            set_leadership(context.cluster, topic_partition, with_next_version(state))
        else:
            refuse_write(turn, topic_partition, "taking strangers out of the ISR", outcome)
            if not is_removed(outcome):
                continue
            drop_strangers_unwritten(context, topic_partition)
        batch.add_leader_and_isr(partition.assignment.replicas, topic_partition, is_new=False)
        if state.leader == LEADER_NONE:
            leaderless.append(topic_partition)
    turn.flush(batch)
    turn.do(
        MovePartitions(tuple(leaderless), PartitionState.OFFLINE),
        BringOnline(tuple(leaderless)),
        RefreshStates(tuple(stale)),
    )
