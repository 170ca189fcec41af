"""Holds marked topics back, and refuses markers.

    act       the topic                          its marker   shown
    --------  ---------------------------------  -----------  -------------------------------------
    hold      stays in service, until its cause  stays        `HeldTopic`, and the phase "held"
              ends
    refuse    stays, or there is none            is removed   `RefusedMark`, and an event record

`marks` decides which topics these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.controller.core import debts, protection, reassignment_requests, trash_in
from lethe.controller.core.deletion import phase
from lethe.controller.core.deletion_memory import (
    DELETING,
    LET_GO,
    NO_SUCH_TOPIC,
    OTHER_INCARNATION,
    PROTECTED,
    REFUSED,
    VANISHED,
    HeldTopic,
    RefusedMark,
)
from lethe.controller.core.mutation import forget_marker
from lethe.controller.core.pausing import has_begun
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ListTopics
from lethe.controller.core.tasks_deletion import (
    ListDeletions,
    MarkersRemoved,
    ProtectedRead,
    QueueDeletions,
    ReadProtected,
    SettleUnknownMarkers,
)
from lethe.protocol.causes import CauseKind
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Delete,
    GetData,
    Operation,
    ReadOutcome,
    ZkError,
    absence_check,
    error_words,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome

MAX_REFUSED: Final = 1_000
"""Limit of remembered refused markers; the oldest are dropped first."""
_CONFIG: Final = 2
"""Index of the configuration among the operations that remove a marker without a topic."""


def hold(step: StepContext, name: str, held_by: CauseKind, last_error: str | None = None) -> None:
    """Hold the topic back for this cause; a refused one until its marker is removed."""
    cluster = step.context.cluster
    known = cluster.marks.get(name)
    mark = HeldTopic(step.now_ms if known is None else known.since_ms, held_by, last_error)
    if known == mark:
        return
    cluster.marks[name] = mark
    if held_by in REFUSED:
        if known is not None:
            record_end(step, name, known)
    elif known is None or known.held_by is not held_by:
        marked_at_ms = cluster.marker_times.get(name, mark.since_ms)
        phase(step, name, "held", since_ms=mark.since_ms, held_by=held_by.held_code, marked_at_ms=marked_at_ms)


def record_end(step: StepContext, name: str, mark: HeldTopic) -> None:
    """Record the end of a hold, if its beginning was recorded, without the topic being queued."""
    if mark.held_by not in REFUSED:
        is_there = name in step.context.cluster.topics or name in step.context.cluster.quarantined_topics
        phase(step, name, LET_GO if is_there else VANISHED, since_ms=mark.since_ms)


def drop_markers(step: StepContext, names: Sequence[str]) -> None:
    """Drop what was stored of these markers, which the controller has removed, so that the next ones are read.

    A list of names does not show that a topic was marked again meanwhile, with other orders."""
    cluster = step.context.cluster
    for name in names:
        mark = cluster.marks.pop(name, None)
        if mark is not None:
            record_end(step, name, mark)
        forget_marker(cluster, name)
    markers_gone(step, names)


def markers_gone(step: StepContext, names: Sequence[str]) -> None:
    """Restore the retention of these topics, close their debts, and move them as is still requested."""
    trash_in.let_go(step, names)
    debts.void_kept(step, names)
    reassignment_requests.read_again(step, names)


# --- which are refused --------------------------------------------------------------------------------------------


def settle_unknown(step: StepContext, task: SettleUnknownMarkers) -> None:
    """Remove the markers of topics that do not exist; list the markers again if a topic has appeared."""
    context = step.context
    cluster = context.cluster
    ghosts = tuple(n for n in task.topics if n not in cluster.topics and n not in cluster.quarantined_topics)
    _remove_ghosts(step, ghosts, with_config=task.with_config)
    if any(name in cluster.topics and not cluster.is_queued(name) for name in task.topics):
        context.tasks.append(ListDeletions())


def refuse(step: StepContext, names: Sequence[str], held_by: CauseKind, why: str) -> None:
    """Record and remember that these markers are refused."""
    refused = step.context.refused_marks
    for name in names:
        step.refuse(f"topic/{name}", DELETING, why)
        hold(step, name, held_by)
        refused.pop(name, None)
        pattern = protection.protecting_pattern(step.context, name) if held_by is CauseKind.PROTECTED else None
        refused[name] = RefusedMark(step.now_ms, why, held_by, pattern)
    for name in list(refused)[: max(0, len(refused) - MAX_REFUSED)]:
        del refused[name]


def refuse_existing(step: StepContext, names: tuple[str, ...], held_by: CauseKind, why: str) -> None:
    """Remove the markers; the topics stay."""
    refuse(step, names, held_by, why)
    if names:
        step.write([(Delete(paths.delete_topic(name)),) for name in names], MarkersRemoved(names))


def read_protected(step: StepContext, task: ReadProtected) -> None:
    """Read the markers of these topics."""
    step.read((GetData(paths.delete_topic(name)) for name in task.topics), ProtectedRead(task.topics, task.loading))


def on_protected_read(step: StepContext, task: ProtectedRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Refuse the markers, and queue the topics whose deletion had begun."""
    topics = step.context.cluster.topics
    markers = dict(zip(task.topics, outcomes, strict=True))
    begun = tuple(name for name in task.topics if name in topics and has_begun(topics[name], markers[name]))
    if begun:
        step.do(QueueDeletions(begun, task.loading, begun))
    refused = tuple(name for name in task.topics if name not in begun)
    refuse_existing(step, refused, CauseKind.PROTECTED, PROTECTED)


def _remove_ghosts(step: StepContext, names: Sequence[str], *, with_config: bool) -> None:
    """Remove markers in multis that fail if the topic exists, since it may have been created since the last read."""
    groups: list[tuple[Operation, ...]] = []
    for name in names:
        # The settings of a topic in the trash are what keeps its records.
        is_free = step.context.cluster.trash.reserves(name) is None
        config = (Delete(paths.config_topic(name)),) if with_config and is_free else ()
        groups.append((*absence_check(paths.topic(name)), *config, Delete(paths.delete_topic(name))))
    if groups:
        step.write(groups, MarkersRemoved(tuple(names), ghosts=True, with_config=with_config))


def on_markers_removed(step: StepContext, task: MarkersRemoved, outcomes: Sequence[GroupOutcome]) -> None:
    """Remove the marker alone if there was no configuration. List the markers again if the topic exists after all, or
    if a marker that names another incarnation was written again."""
    context = step.context
    cluster = context.cluster
    alone: list[str] = []
    removed: list[str] = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        if isinstance(outcome, GroupFailed):
            if task.with_config and outcome == GroupFailed(_CONFIG, ZkError.NO_NODE):
                alone.append(name)
                continue
            if task.ghosts and outcome.error is ZkError.NODE_EXISTS:
                context.tasks.extend((ListTopics(), ListDeletions()))
                continue
            if task.others and outcome.error is ZkError.BAD_VERSION:
                context.tasks.append(ListDeletions())
                continue
            if outcome.error is not ZkError.NO_NODE:
                step.refuse(f"topic/{name}", "removing its deletion marker", error_words(outcome.error))
                mark = cluster.marks.get(name)
                if mark is not None:
                    cluster.marks[name] = mark._replace(last_error=error_words(outcome.error))
                continue
        if task.ghosts:
            refuse(step, (name,), CauseKind.MARKER_WITHOUT_TOPIC, NO_SUCH_TOPIC)
        elif task.others and not isinstance(outcome, GroupFailed):
            refuse(step, (name,), CauseKind.OTHER_INCARNATION, OTHER_INCARNATION)
        removed.append(name)
    drop_markers(step, removed)
    _remove_ghosts(step, alone, with_config=False)
