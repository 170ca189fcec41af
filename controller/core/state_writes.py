"""Writes of partitions' state znodes, and what their outcomes mean. Each write expects the version that memory has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lethe.controller.core import election
from lethe.controller.core.context import Context
from lethe.controller.core.mutation import set_leader_and_isr
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import LeaderStates
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Operation, SetData, ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome, write_failure_words


def set_state(topic_partition: TopicPartition, state: LeaderAndIsr) -> tuple[Operation, ...]:
    """Return the write of the state, which expects the version that `state` was computed from."""
    return (SetData(paths.partition_state(*topic_partition), znodes.encode_state(state), state.partition_epoch),)


def set_states(states: Iterable[tuple[TopicPartition, LeaderAndIsr]]) -> list[tuple[Operation, ...]]:
    """Return a write for each of the states."""
    return [set_state(*each) for each in states]


def rows_of(states: LeaderStates) -> Iterator[tuple[TopicPartition, LeaderAndIsr]]:
    """Yield the partitions with their states, in the order in which they are written."""
    return ((TopicPartition(name, number), state) for name, mine in states.items() for number, state in mine.items())


def written(
    states: LeaderStates, outcomes: Sequence[GroupOutcome]
) -> tuple[LeaderStates, list[tuple[TopicPartition, GroupOutcome]]]:
    """Return the states that were written, and the outcomes of the others."""
    done: dict[str, dict[int, LeaderAndIsr]] = {}
    failed: list[tuple[TopicPartition, GroupOutcome]] = []
    following = iter(outcomes)
    for name, mine in states.items():
        stored: dict[int, LeaderAndIsr] = {}
        for number, state in mine.items():
            outcome = next(following)
            if isinstance(outcome, GroupDone):
                stored[number] = state
            else:
                failed.append((TopicPartition(name, number), outcome))
        if stored:
            done[name] = stored
    return done, failed


def with_next_versions(states: LeaderStates) -> LeaderStates:
    """Return the states with the versions that their writes give; equal states share one object."""
    known = {state: with_next_version(state) for mine in states.values() for state in mine.values()}
    return {name: {number: known[state] for number, state in mine.items()} for name, mine in states.items()}


def with_next_version(state: LeaderAndIsr) -> LeaderAndIsr:
    """Return the state with the version that its write gives: one higher."""
    return state._replace(partition_epoch=state.partition_epoch + 1)


def is_stale(outcome: GroupOutcome) -> bool:
    """The state was written by others since it was read."""
    return isinstance(outcome, GroupFailed) and outcome.error is ZkError.BAD_VERSION


def is_removed(outcome: GroupOutcome) -> bool:
    """The state znode to be written does not exist any more."""
    return isinstance(outcome, GroupFailed) and outcome.error is ZkError.NO_NODE


def refuse_write(step: StepContext, topic_partition: TopicPartition, what: str, outcome: GroupOutcome) -> None:
    why = write_failure_words(outcome)
    step.record(EventRecordType.REFUSAL, f"partition/{topic_partition}", what=what, why=f"writing its state: {why}")


def remove_foreign_isr_members_unwritten(context: Context, topic_partition: TopicPartition) -> None:
    """Remove foreign ISR members from memory's ISR, under the next leader epoch, if a user removed the state znode.

    Brokers would receive an ISR with a replica whose log is deleted. A leader cannot shrink its ISR without the state:
    producers with acks=all would wait until another controller is elected."""
    cluster = context.cluster
    partition = cluster.partition(topic_partition)
    if partition is None or partition.leader_and_isr is None:
        return
    known = election.without_foreign_isr_members(partition.assignment, partition.leader_and_isr)
    if known is not partition.leader_and_isr:
        set_leader_and_isr(cluster, topic_partition, election.raised(known, cluster.epoch))
