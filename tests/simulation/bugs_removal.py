"""Bugs in how znodes are removed in the background.

See `planted` for what they are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from lethe.controller.core import creation, deletion, relisting, removal, resigning, results
from lethe.controller.core.continuations import TopicsListed
from lethe.controller.core.events import ZnodesWritten
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_deletion import RemoveTopics, ResumeDeletions, TopicsRemoved
from lethe.protocol.zookeeper.operations import ReadOutcome
from lethe.protocol.zookeeper.packing import GroupOutcome
from tests.simulation.planting import everywhere, method


@contextmanager
def _nothing_under_way(step: StepContext) -> Iterator[None]:
    """The memory shows no removal under way."""
    removals = step.context.cluster.removals
    kept, removals.under_way = removals.under_way, {}
    try:
        yield
    finally:
        removals.under_way = kept


def removed_taken_for_vanished() -> AbstractContextManager[object]:
    """A topic that is missing from the list while it is removed counts as removed by somebody else."""
    listed = creation.on_topics_listed

    def on_topics_listed(step: StepContext, task: TopicsListed, outcomes: Sequence[ReadOutcome]) -> None:
        with _nothing_under_way(step):
            listed(step, task, outcomes)

    return everywhere(listed, on_topics_listed)


def changes_during_removal_missed() -> AbstractContextManager[object]:
    """What was created or marked while topics were removed is not looked for after the outcome."""
    removed = removal.on_topics_removed

    def on_topics_removed(step: StepContext, task: TopicsRemoved, outcomes: Sequence[GroupOutcome]) -> None:
        step.context.cluster.removals.look_again = False
        removed(step, task, outcomes)

    return everywhere(removed, on_topics_removed)


def put_off_for_ever() -> AbstractContextManager[object]:
    """What was put off because topics and markers were listed just before is never listed."""
    return method(relisting, "_list_at", lambda step, due_ms: None)


@contextmanager
def removed_twice() -> Iterator[None]:
    """A topic whose removal is under way is continued, and removed once more."""
    resume = deletion.resume

    def resumed(step: StepContext, task: ResumeDeletions) -> None:
        with _nothing_under_way(step):
            resume(step, task)

    def remove(step: StepContext, task: RemoveTopics) -> None:
        step.context.cluster.removals.waiting.update(dict.fromkeys(task.topics))
        removal._go_on(step)

    with everywhere(resume, resumed), method(removal, "remove", remove):
        yield


def outcome_of_an_earlier_term() -> AbstractContextManager[object]:
    """Removals that an earlier term has written end in the next one."""
    resign = resigning.resign

    def resigned(step: StepContext, reason: str, *, session_ends: bool = False) -> None:
        kept = step.context.cluster.background
        resign(step, reason, session_ends=session_ends)
        step.context.cluster.background = kept

    return everywhere(resign, resigned)


def fence_in_background_ignored() -> AbstractContextManager[object]:
    """A removal that fails because another controller was elected is taken for any other failure."""
    ended: Callable[[StepContext, ZnodesWritten], None] = results._ended_in_background

    def ended_all_the_same(step: StepContext, event: ZnodesWritten) -> None:
        ended(step, ZnodesWritten(event.id, event.outcomes))

    return everywhere(ended, ended_all_the_same)
