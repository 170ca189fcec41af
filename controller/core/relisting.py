"""When topics and markers are listed while topics are removed.

Each removal changes both lists, and a long list takes ZooKeeper and the core as long as several removals. So a change
in that time does not have them listed at once:

    a change, or an outcome after it                     lists
    ---------------------------------------------------  --------------------------------------------------
    no topic is queued                                   now
    a removal's outcome is outstanding                   with the outcome
    no outcome has come since the last list              now: a topic that waits for long puts no list off
    the last list was less than `list_pause_us` ago      when that time is over, however the removals stand
      for each topic in memory
    otherwise                                            now
"""

from __future__ import annotations

from collections.abc import Iterable

from lethe.controller.core.effects import ListAgain
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ListTopics
from lethe.controller.core.tasks_deletion import ListDeletions


def postpone(step: StepContext) -> bool:
    """Have topics and markers listed later instead of now; return False if now is the time."""
    removals = step.context.cluster.removals
    due_ms = _due_ms(step)
    if not removals.under_way and due_ms <= step.now_ms:
        return False
    removals.look_again = True
    if not removals.under_way:
        _list_at(step, due_ms)
    return True


def listed(step: StepContext, names: Iterable[str]) -> None:
    """List again after the next outcome if a topic under way is among these topics or markers."""
    removals = step.context.cluster.removals
    removals.listed_at_ms, removals.ended_since = step.now_ms, False
    removals.look_again |= not removals.under_way.keys().isdisjoint(names)


def after_outcome(step: StepContext) -> None:
    """List what was postponed, if it is time for that."""
    step.context.cluster.removals.ended_since = True
    if step.context.cluster.removals.look_again:
        due_ms = _due_ms(step)
        if due_ms <= step.now_ms:
            time_is_over(step)
        else:
            _list_at(step, due_ms)


def time_is_over(step: StepContext) -> None:
    """List what was postponed; nothing if that has been done since."""
    removals = step.context.cluster.removals
    if removals.look_again:
        removals.look_again = False
        step.do(ListTopics(), ListDeletions())


def _list_at(step: StepContext, due_ms: int) -> None:
    if ListAgain() not in step.context.timers:
        step.set_timer(ListAgain(), due_ms)


def _due_ms(step: StepContext) -> int:
    """Return when the lists may be read next; the past if they may be now."""
    context = step.context
    removals = context.cluster.removals
    if removals.listed_at_ms is None or not removals.ended_since or not context.cluster.deletions:
        return step.now_ms
    return removals.listed_at_ms + len(context.cluster.topics) * context.config.list_pause_us // 1_000
