"""Writes the first state of new partitions.

Two writes for any number of partitions: `/brokers/topics/T/partitions` of each topic, then each partition's znode
together with its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lethe.controller.core import election, partition_machine
from lethe.controller.core.agenda_partitions import InitializeLeadership, LeadershipInitialized, LeadershipPathsCreated
from lethe.controller.core.leadership import online, refuse_write
from lethe.controller.core.mutation import set_leadership
from lethe.controller.core.transitions import PartitionState
from lethe.controller.core.turn import Turn
from lethe.protocol.vocabulary import LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Operation, ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome


def initialize(turn: Turn, task: InitializeLeadership) -> None:
    """Create the parent of the partitions' znodes for each topic."""
    if task.partitions:
        topics = dict.fromkeys(topic_partition.topic for topic_partition in task.partitions)
        turn.write(
            [(Create(paths.topic_partitions(topic), None),) for topic in topics],
            LeadershipPathsCreated(task.partitions),
        )


def paths_created(turn: Turn, task: LeadershipPathsCreated) -> None:
    """Write the first states. If a parent is missing, the write of the state fails and is recorded."""
    _write_first_states(turn, task.partitions, state_only=False)


def _write_first_states(turn: Turn, partitions: Iterable[TopicPartition], *, state_only: bool) -> None:
    context = turn.context
    chosen: list[TopicPartition] = []
    leadership: list[LeaderAndIsr] = []
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
        leadership.append(first)
        state = Create(paths.partition_state(*topic_partition), znodes.encode_state(first))
        groups.append((state,) if state_only else (Create(paths.topic_partition(*topic_partition), None), state))
    turn.refuse_partitions(leaderless, "NEW to ONLINE", "no assigned replica is on a live broker")
    if groups:
        turn.write(groups, LeadershipInitialized(tuple(chosen), tuple(leadership), state_only))


def initialized(turn: Turn, task: LeadershipInitialized, outcomes: Sequence[GroupOutcome]) -> None:
    """Send LeaderAndIsr (new) to the ISR's members, and the leader to all brokers."""
    batch = turn.batch()
    done, again = [], []
    for topic_partition, leadership, outcome in zip(task.partitions, task.leadership, outcomes, strict=True):
        if isinstance(outcome, GroupDone):
            set_leadership(turn.context.cluster, topic_partition, leadership)
            batch.add_leader_and_isr(leadership.isr, topic_partition, is_new=True)
            done.append(topic_partition)
        elif not task.state_only and outcome == GroupFailed(0, ZkError.NODE_EXISTS):
            # A controller died between writing this znode and the state below it.
            again.append(topic_partition)
        else:
            refuse_write(turn, topic_partition, "NEW to ONLINE", outcome)
    partition_machine.enter(turn, tuple(done), PartitionState.ONLINE)
    turn.flush(batch)
    if again:
        _write_first_states(turn, again, state_only=True)
