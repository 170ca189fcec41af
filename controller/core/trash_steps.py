"""What the trash's timer starts: the next step of each topic that is due."""

from __future__ import annotations

from lethe.controller.core import trash, trash_disks, trash_end, trash_in, trash_out
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_trash import FreezeTopics, ReadTopicRequests, RestoreOffsets
from lethe.protocol.zookeeper.znodes import TrashPhase


def due(step: StepContext) -> None:
    """The timer fired: continue with the topics that are due, and set the timer for the others.

    While deletions are paused no topic goes into the trash, and none is deleted from it. One on its way in gets its
    retention back."""
    context, memory = step.context, step.context.cluster.trash
    if context.config.only_topics is not None:
        return
    trash_out.end_looks(step)
    again = tuple(name for name, at_ms in memory.retries.items() if at_ms <= step.now_ms)
    for name in again:
        del memory.retries[name]
    names: dict[TrashPhase, list[str]] = {each: [] for each in TrashPhase}
    for name, found in memory.topics.items():
        if not found.is_asked and trash.due_at_ms(context, found) <= step.now_ms:
            if not trash.is_unknown(context, name):
                names[found.phase].append(name)
            # Whatever the step does, it is not repeated at once.
            found.retry_at_ms = step.now_ms + context.config.retry_max_ms
    freezing = trash.drop_void(step, names[TrashPhase.FREEZING])
    back = (*names[TrashPhase.RESTORING], *names[TrashPhase.OFFSETS])
    if back:
        step.do(RestoreOffsets(back))
    if any(memory.topics[name].is_requested for name in names[TrashPhase.TRASHED]):
        step.do(ReadTopicRequests())
    if context.cluster.paused is not None:
        # Nobody knows for how long: retention is not off meanwhile.
        trash.thaw(step, [(name, memory.topics[name].entry) for name in freezing])
    else:
        trash_in.thaw_unmarked(step, freezing)
        trash_in.frozen(step, freezing)
        trash_end.purge(step, {name: memory.topics[name].end_requested for name in names[TrashPhase.TRASHED]})
        if again:
            step.do(FreezeTopics(again))
    trash_disks.due(step)
    trash.arm(step)
