"""Deletion markers: which topics are marked, which of them are queued, and which are held, and why.

`/admin/delete_topics` is listed whenever its children change. The decision depends on the whole list, not on the
change:

    the marked topic                                  result
    ------------------------------------------------  ------------------------------------------------------------
    is not among `CoreConfig.only_topics`             held; its marker is never removed
    is queued already                                 its deletion goes on, even if the marker is removed later:
                                                      some replicas may be deleted already
    delete.topic.enable is false                      refused: the marker is removed, the topic stays
    does not exist                                    refused: the marker is removed
    is protected (`protection`)                       refused: the marker is removed, the topic stays
    has a marker that names another topic             refused: the marker is removed, the topic stays
      (`named_incarnation`)
    exists, and deletions are paused (`pausing`)      held
    exists, and has a reassignment                    held until the reassignment is ended
    exists, and its marker orders the trash           held until it is in the trash (`trash`)
    has an unreadable znode                           held (`unreadable`)
    has orders that cannot be understood              held (`orders`)
    exists, and others go first (`pace`)              held until its turn comes
    exists otherwise                                  queued (`deletion`)

A held topic has a `HeldTopic` with the reason and stays in service. If its marker is removed, nothing happens to it.
Refused markers are kept for display (`refused_marks`).

The age of a deletion is that of its marker, so that a failover does not change it. The creation times of all new
markers are read together, once. A time in the future (ZooKeeper's clock may be ahead) counts as now.

    marker made at 10:00, failover at 10:30  ->  marked since 10:00, queued by this controller since 10:30

"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core import named_incarnation, orders, pace, protection, relisting, trash_in
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.deletion import phase
from lethe.controller.core.deletion_memory import (
    DISABLED,
    NO_ORDERS,
)
from lethe.controller.core.holding import hold, markers_gone, record_end, refuse_existing
from lethe.controller.core.mutation import queue_deletion
from lethe.controller.core.pausing import note_and_queue
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ListTopics, Task
from lethe.controller.core.tasks_deletion import (
    CompareIncarnations,
    DeletionsListed,
    ListDeletions,
    MarkersDated,
    QueueDeletions,
    ReadBegun,
    ReadMarkers,
    ReadProtected,
    ResumeDeletions,
    SettleUnknownMarkers,
)
from lethe.controller.core.tasks_reassignment import EndReassignments
from lethe.controller.core.tasks_trash import FreezeTopics
from lethe.protocol.causes import CauseKind
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Children,
    Exists,
    GetChildren,
    GetData,
    Present,
    Read,
    ReadOutcome,
    is_absent,
)

# --- which are marked ---------------------------------------------------------------------------------------------


def deletions_requested(step: StepContext) -> None:
    """List the marked topics, now or after the removals under way."""
    if not relisting.postpone(step):
        step.do(ListDeletions())


def list_deletions(step: StepContext, task: ListDeletions) -> None:
    """List the marked topics, and watch for changes."""
    step.read((GetChildren(paths.delete_topics(), watch=True),), DeletionsListed(task.loading))


def on_deletions_listed(step: StepContext, task: DeletionsListed, outcomes: Sequence[ReadOutcome]) -> None:
    """Read when the new markers were created; continue at once if there are none."""
    cluster = step.context.cluster
    marked = outcomes[0].names if isinstance(outcomes[0], Children) else ()
    relisting.listed(step, marked)
    _let_go(step, marked)
    before = marked if task.loading else cluster.inherited_marks
    cluster.inherited_marks = {name: None for name in marked if name in before}
    cluster.marker_times = {name: cluster.marker_times[name] for name in marked if name in cluster.marker_times}
    cluster.marker_orders = {name: cluster.marker_orders[name] for name in marked if name in cluster.marker_orders}
    orders.listed(step, marked)
    undated = tuple(name for name in marked if _is_to_be_read(cluster, name))
    if undated:
        reads = (read for name in undated for read in _marker_reads(cluster, name))
        step.read(reads, MarkersDated(marked, undated, task.loading))
    else:
        _sort_out(step, marked, loading=task.loading)


def on_markers_dated(step: StepContext, task: MarkersDated, outcomes: Sequence[ReadOutcome]) -> None:
    """Store when the markers were created, and what they order. A marker without a time counts as created now; one that
    is gone since the list is none: the watch has the markers listed again."""
    cluster = step.context.cluster
    gone: dict[str, None] = {}
    for number, name in enumerate(task.undated):
        created, content = outcomes[2 * number], outcomes[2 * number + 1]
        if isinstance(created, Present) and created.created_at_ms > 0:
            cluster.marker_times[name] = min(created.created_at_ms, step.now_ms)
        if is_absent(created) or is_absent(content):
            gone[name] = None
            continue
        ordered = orders.said(content)
        if ordered == NO_ORDERS:
            cluster.marker_orders.pop(name, None)
        else:
            cluster.marker_orders[name] = ordered
    _sort_out(step, tuple(name for name in task.topics if name not in gone), loading=task.loading)


def _is_to_be_read(cluster: ClusterState, name: str) -> bool:
    if cluster.is_queued(name):
        return False
    return name not in cluster.marker_times or _is_held_by_orders(cluster, name)


def _is_held_by_orders(cluster: ClusterState, name: str) -> bool:
    return name in cluster.marks and cluster.marks[name].held_by is CauseKind.ORDERS


def _marker_reads(cluster: ClusterState, name: str) -> tuple[Read, Read]:
    path = paths.delete_topic(name)
    return Exists(path), GetData(path, watch=_is_held_by_orders(cluster, name))


def _sort_out(step: StepContext, marked: tuple[str, ...], *, loading: bool) -> None:
    """Queue known topics and look again for unknown ones. If deletion is disabled, remove the markers instead."""
    context = step.context
    cluster = context.cluster
    marked = _chosen(step, marked)
    if not context.delete_topic_enable and cluster.dynamic.deletion_unknown is None:
        # Queued deletions go on: some of their replicas may be gone.
        refused = tuple(name for name in marked if not cluster.is_queued(name))
        refuse_existing(step, refused, CauseKind.DISABLED, DISABLED)
        return
    if protected := protection.protected(context, marked):
        spared = frozenset(protected)
        marked = tuple(name for name in marked if name not in spared)
    marked = _understood(step, marked)
    if others := named_incarnation.differing(context, marked):
        spared = frozenset(others)
        marked = tuple(name for name in marked if name not in spared)
    known = tuple(name for name in marked if name in cluster.topics)
    unknown: list[str] = []
    unreadable: list[str] = []
    for name in marked:
        if name in cluster.topics:
            continue
        aside = cluster.quarantined_topics.get(name)
        if aside is not None:
            unreadable.append(name)
            hold(step, name, aside.cause, None if aside.cause is CauseKind.NAME_RESERVED else aside.reason)
        else:
            unknown.append(name)
            hold(step, name, CauseKind.MARKER_WITHOUT_TOPIC)
    settling: list[Task] = [CompareIncarnations(others)] if others else []
    if protected:
        step.do(ReadProtected(protected, loading))
    if unreadable and cluster.paused is None:
        settling += [ReadMarkers(tuple(unreadable))]
    if unknown:
        settling += [ListTopics(), SettleUnknownMarkers(tuple(unknown), loading)]
    if loading:
        # After the takeover: then the topics are read again, later than these markers.
        context.tasks.extend(settling)
        all_alike = cluster.paused is None and context.pace.is_nothing
        step.do(QueueDeletions(known, loading=True) if all_alike else ReadBegun(known))
    elif marked or settling:
        step.do(QueueDeletions(known), *settling)


def _chosen(step: StepContext, marked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics that `only_topics` allows; hold the others, and leave even their markers untouched."""
    only = step.context.config.only_topics
    if only is None:
        return marked
    for name in marked:
        if name not in only:
            hold(step, name, CauseKind.NOT_CHOSEN)
    return tuple(name for name in marked if name in only)


def _understood(step: StepContext, marked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics whose orders can be understood, and those that are queued; hold the others."""
    cluster = step.context.cluster
    problems = {name: ordered.problem for name, ordered in cluster.marker_orders.items() if ordered.problem is not None}
    known = cluster.topics.keys() | cluster.quarantined_topics.keys() if problems else ()
    held = tuple(name for name in marked if name in problems and name in known and not cluster.is_queued(name))
    if not held:
        return marked
    if not all(_is_held_by_orders(cluster, name) for name in held):
        # Their markers were read without a watch: read them again, with one.
        step.context.tasks.append(ListDeletions())
    for name in held:
        hold(step, name, CauseKind.ORDERS, problems[name])
    kept_back = frozenset(held)
    return tuple(name for name in marked if name not in kept_back)


def _let_go(step: StepContext, marked: Sequence[str]) -> None:
    """Drop held topics whose marker is gone."""
    cluster = step.context.cluster
    if not cluster.marks:
        return
    present = frozenset(marked)
    gone = [name for name in cluster.marks if name not in present]
    for name in gone:
        record_end(step, name, cluster.marks.pop(name))
        cluster.pacing.leave(name)
    markers_gone(step, gone)


# --- which are queued ---------------------------------------------------------------------------------------------


def queue(step: StepContext, task: QueueDeletions) -> None:
    """Queue those of these marked topics that may be deleted now, and continue the queued ones."""
    cluster = step.context.cluster
    waiting = tuple(name for name in task.topics if name in cluster.topics and not cluster.is_queued(name))
    if cluster.paused is not None:
        for name in waiting:
            if name in task.begun:
                _queue(step, name)
            else:
                hold(step, name, cluster.paused.held_by)
        return
    trashing = trash_in.ordered(step.context, waiting)
    for_good = waiting if not trashing else tuple(name for name in waiting if name not in trashing)
    able = pace.admit(step, for_good, task.begun)
    if len(able) < len(for_good):
        for name in for_good:
            if name not in able:
                hold(step, name, CauseKind.PACE)
    moving = cluster.reassigned_topics((*able, *trashing))
    for name in moving:
        hold(step, name, CauseKind.REASSIGNMENT)
    ready = tuple(name for name in able if name not in moving)
    to_note = pace.to_note(step.context, ready, task.begun)
    note_and_queue(step, tuple(to_note), loading=task.loading)
    for name in ready if not to_note else (name for name in ready if name not in to_note):
        _queue(step, name)
    freezing = tuple(name for name in trashing if name not in moving)
    for name in freezing:
        known = cluster.marks.get(name)
        error = known.last_error if known is not None and known.held_by is CauseKind.TRASH else None
        hold(step, name, CauseKind.TRASH, error)
    if not task.loading:
        step.do(ResumeDeletions(task.topics), *((FreezeTopics(freezing),) if freezing else ()))
    if moving:
        step.do(EndReassignments(moving, task.loading))


def _queue(step: StepContext, name: str) -> None:
    step.context.refused_marks.pop(name, None)
    queue_deletion(step.context.cluster, name, step.now_ms)
    marked_at_ms = step.context.cluster.deletions[name].marked_at_ms
    phase(step, name, "queued", since_ms=step.now_ms, marked_at_ms=marked_at_ms)
