"""Bugs in how new and loaded partitions are taken in slices.

See `planted` for what they are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from lethe.controller.core import failover, first_leaders, results, slices
from lethe.controller.core.context import Context
from lethe.controller.core.events import Result
from lethe.controller.core.mutation import set_first_replica_states
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import Task
from lethe.controller.core.tasks_partitions import LeaderAndIsrInitialized
from lethe.protocol.zookeeper.packing import GroupDone, GroupOutcome
from tests.simulation.planting import everywhere


def any_task_between_slices() -> AbstractContextManager[object]:
    """Whatever is next runs while a slice is outstanding: leaders are elected before the last slice is loaded."""

    def may_run(context: Context, task: Task) -> bool:
        return len(context.awaited) < slices.SLICES_AT_ONCE

    return everywhere(slices.may_run, may_run)


def oldest_slice_gets_the_result() -> AbstractContextManager[object]:
    """Results count as those of the slice that was asked for first, whatever they are of."""
    route = results.route

    def to_the_oldest(step: StepContext, event: Result) -> None:
        awaited = step.context.awaited
        if any(each.effect_id == event.id for each in awaited):
            swapped = {event.id: awaited[0].effect_id, awaited[0].effect_id: event.id}
            step.context.awaited = tuple(
                each._replace(effect_id=swapped.get(each.effect_id, each.effect_id)) for each in awaited
            )
        route(step, event)

    return everywhere(route, to_the_oldest)


def slice_announced_unwritten() -> AbstractContextManager[object]:
    """New partitions are announced whatever became of the write of their states."""
    initialized = first_leaders.on_leader_and_isr_initialized

    def all_done(step: StepContext, task: LeaderAndIsrInitialized, outcomes: Sequence[GroupOutcome]) -> None:
        initialized(step, task, tuple(GroupDone(()) for _ in outcomes))

    return everywhere(initialized, all_done)


def slice_announces_the_doomed() -> AbstractContextManager[object]:
    """A controller that takes over announces the replicas of topics queued for deletion, too."""
    announce = failover._announce

    def with_the_doomed(step: StepContext, topics: Iterable[str]) -> None:
        cluster = step.context.cluster
        listed = tuple(topics)
        announce(step, listed)
        batch = step.batch()
        for name in listed:
            if cluster.is_queued(name):
                set_first_replica_states(cluster, name)
                for topic_partition, partition in cluster.partitions_of(name):
                    batch.add_leader_and_isr(partition.assignment.replicas, topic_partition, is_new=False)
        step.flush(batch)

    return everywhere(announce, with_the_doomed)
