"""Strangers: brokers that an ISR names and that are no replicas of the partition.

Theory of operation. A leader of an older protocol writes its ISR itself, and it may do so after the assignment has
become smaller and before it hears of that; people write states too. A stranger never leads. But its log may be deleted,
and were the same broker made a replica again it would count as in sync, with nothing of what it is to have: a
reassignment would be done at once, and an election could choose it. So wherever a state that has strangers is taken in
(at a takeover, after a notification, after a conflict) it is written without them under the next leader epoch, and its
replicas are told; where a stranger led, another leader is elected (a controller may have died between giving up a
target and replacing its leader). Where nobody else is in sync the state stays: only strangers have every record then.
Where somebody has removed the state znode by hand, no write is possible before another controller makes it anew; the
replicas are told of the ISR without strangers all the same.
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
    """Write the states that name strangers without them."""
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
    """Tell the replicas; where somebody else has written meanwhile, look again."""
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
