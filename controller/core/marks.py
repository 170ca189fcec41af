"""Deletion markers: which topics somebody wants gone, which of them are queued, and which are held back, and why.

Theory of operation. The children of `/admin/delete_topics` are read whenever they change, and everything follows from
the list, never from what changed in it. A marked topic that we know is *queued*, and from then on it is `deletion`'s.
One that must not be queued yet is *held*: it has a `Mark` that names the reason, and stays in service as if nobody had
marked it. It is held while deletions are paused, while its partitions are being moved (that is ended first), while its
znode cannot be understood, and where only other topics are to be deleted. A held topic whose marker somebody removes
is let go of, untouched. Once it is queued the marker is no longer looked at: its replicas may be gone already, and half
a topic is of use to nobody.

A deletion is as old as its marker: the time at which ZooKeeper made the znode is read once for each new marker, for all
new ones together, so that a failover does not make it younger. ZooKeeper's clock may be ahead of ours: what it dates
later than now counts as made now.

    marker made at 10:00, failover at 10:30  ->  marked since 10:00, queued by this controller since 10:30

A marker goes at once where deletion is known to be disabled and nothing of the topic has been deleted yet, and where
there is no such topic; that it was refused, and why, is remembered for who asks.

What a pause means, and what becomes of a deletion that had begun before it: `pausing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.controller.core.agenda import ListTopics, Task
from lethe.controller.core.agenda_deletion import (
    DeletionsListed,
    ListDeletions,
    MarkersDated,
    MarkersRemoved,
    QueueDeletions,
    ReadBegun,
    ReadMarkers,
    ResumeDeletions,
    SettleUnknownMarkers,
)
from lethe.controller.core.agenda_reassignment import EndReassignments
from lethe.controller.core.deletion import phase
from lethe.controller.core.deletion_memory import (
    DELETING,
    DISABLED,
    LET_GO,
    NO_SUCH_TOPIC,
    REFUSED,
    VANISHED,
    Mark,
    RefusedMark,
)
from lethe.controller.core.mutation import queue_deletion
from lethe.controller.core.turn import Turn
from lethe.protocol.causes import CauseKind
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Children,
    Create,
    Delete,
    Exists,
    GetChildren,
    Operation,
    Present,
    ReadOutcome,
    ZkError,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome

MAX_REFUSED: Final = 1_000
"""Of more refused markers than this, the oldest are forgotten."""
_CONFIG: Final = 2
"""Where the configuration stands among the operations that remove a ghost."""


# --- which are marked ---------------------------------------------------------------------------------------------


def list_deletions(turn: Turn, task: ListDeletions) -> None:
    """Read which topics are marked, and be told when that changes."""
    turn.read((GetChildren(paths.delete_topics(), watch=True),), DeletionsListed(task.loading))


def listed(turn: Turn, task: DeletionsListed, outcomes: Sequence[ReadOutcome]) -> None:
    """Ask when the new markers were made; with all of them dated, go on."""
    cluster = turn.context.cluster
    marked = outcomes[0].names if isinstance(outcomes[0], Children) else ()
    _let_go(turn, marked)
    cluster.marker_times = {name: cluster.marker_times[name] for name in marked if name in cluster.marker_times}
    undated = tuple(name for name in marked if name not in cluster.marker_times and not cluster.is_queued(name))
    if undated:
        reads = (Exists(paths.delete_topic(name)) for name in undated)
        turn.read(reads, MarkersDated(marked, undated, task.loading))
    else:
        _sort_out(turn, marked, loading=task.loading)


def dated(turn: Turn, task: MarkersDated, outcomes: Sequence[ReadOutcome]) -> None:
    """Remember when the markers were made. One without a time, or gone since it was listed, counts as made now."""
    for name, outcome in zip(task.undated, outcomes, strict=True):
        if isinstance(outcome, Present) and outcome.created_at_ms > 0:
            turn.context.cluster.marker_times[name] = min(outcome.created_at_ms, turn.now_ms)
    _sort_out(turn, task.topics, loading=task.loading)


def _sort_out(turn: Turn, marked: tuple[str, ...], *, loading: bool) -> None:
    """Queue the topics we know; look again for those we do not; with deletion disabled, remove every marker."""
    context = turn.context
    cluster = context.cluster
    marked = _chosen(turn, marked)
    if not context.delete_topic_enable and cluster.dynamic.deletion_unknown is None:
        # What has been started ends: some of its replicas are gone.
        refused = tuple(name for name in marked if not cluster.is_queued(name))
        _refuse(turn, refused, CauseKind.DISABLED, DISABLED)
        if refused:
            turn.write([(Delete(paths.delete_topic(name)),) for name in refused], MarkersRemoved(refused))
        return
    known = tuple(name for name in marked if name in cluster.topics)
    unknown: list[str] = []
    unreadable: list[str] = []
    for name in marked:
        if name in cluster.topics:
            continue
        aside = cluster.set_aside_topics.get(name)
        if aside is not None:
            unreadable.append(name)
            _hold(turn, name, CauseKind.READABLE_ZNODE, aside.reason)
        else:
            unknown.append(name)
            _hold(turn, name, CauseKind.MARKER_WITHOUT_TOPIC)
    settling: list[Task] = []
    if unreadable and cluster.paused is None:
        settling += [ReadMarkers(tuple(unreadable))]
    if unknown:
        settling += [ListTopics(), SettleUnknownMarkers(tuple(unknown), loading)]
    if loading:
        # After the takeover: by then the topics have been read later than these markers were.
        context.agenda.extend(settling)
        turn.do(QueueDeletions(known, loading=True) if cluster.paused is None else ReadBegun(known))
    elif marked:
        turn.do(QueueDeletions(known), *settling)


def _chosen(turn: Turn, marked: tuple[str, ...]) -> tuple[str, ...]:
    """Those that may be deleted at all; of the others nothing is touched, not even a marker that is of no use."""
    only = turn.context.config.only_topics
    if only is None:
        return marked
    for name in marked:
        if name not in only:
            _hold(turn, name, CauseKind.NOT_CHOSEN)
    return tuple(name for name in marked if name in only)


def _let_go(turn: Turn, marked: Sequence[str]) -> None:
    """Topics whose marker is gone, and that were not queued, are nobody's business here any more."""
    cluster = turn.context.cluster
    if not cluster.marks:
        return
    present = frozenset(marked)
    for name in [name for name in cluster.marks if name not in present]:
        _record_end(turn, name, cluster.marks.pop(name))


def _record_end(turn: Turn, name: str, mark: Mark) -> None:
    """A hold that was recorded has ended without the topic being queued."""
    if mark.held_by not in REFUSED:
        is_there = name in turn.context.cluster.topics or name in turn.context.cluster.set_aside_topics
        phase(turn, name, LET_GO if is_there else VANISHED, since_ms=mark.since_ms)


def _hold(turn: Turn, name: str, held_by: CauseKind, last_error: str | None = None) -> None:
    cluster = turn.context.cluster
    known = cluster.marks.get(name)
    mark = Mark(turn.now_ms if known is None else known.since_ms, held_by, last_error)
    if known == mark:
        return
    cluster.marks[name] = mark
    if held_by in REFUSED:
        if known is not None:
            _record_end(turn, name, known)
    elif known is None or known.held_by is not held_by:
        marked_at_ms = cluster.marker_times.get(name, mark.since_ms)
        phase(turn, name, "held", since_ms=mark.since_ms, held_by=held_by.held_code, marked_at_ms=marked_at_ms)


# --- which are queued ---------------------------------------------------------------------------------------------


def queue(turn: Turn, task: QueueDeletions) -> None:
    """Put these marked topics into the queue, those that may go now, and go on with those that are in it."""
    cluster = turn.context.cluster
    waiting = tuple(name for name in task.topics if name in cluster.topics and not cluster.is_queued(name))
    if cluster.paused is not None:
        for name in waiting:
            if name in task.begun:
                _queue(turn, name)
            else:
                _hold(turn, name, cluster.paused.held_by)
        return
    moving = cluster.reassigned_topics(waiting)
    for name in moving:
        _hold(turn, name, CauseKind.REASSIGNMENT)
    for name in waiting:
        if name not in moving:
            _queue(turn, name)
    if not task.loading:
        turn.do(ResumeDeletions(task.topics))
    if moving:
        turn.do(EndReassignments(moving, task.loading))


def _queue(turn: Turn, name: str) -> None:
    turn.context.refused_marks.pop(name, None)
    queue_deletion(turn.context.cluster, name, turn.now_ms)
    marked_at_ms = turn.context.cluster.deletions[name].marked_at_ms
    phase(turn, name, "queued", since_ms=turn.now_ms, marked_at_ms=marked_at_ms)


# --- which are refused --------------------------------------------------------------------------------------------


def settle_unknown(turn: Turn, task: SettleUnknownMarkers) -> None:
    """A marker of a topic that does not exist goes; one whose topic has appeared meanwhile is taken up."""
    context = turn.context
    cluster = context.cluster
    ghosts = tuple(n for n in task.topics if n not in cluster.topics and n not in cluster.set_aside_topics)
    _remove_ghosts(turn, ghosts, with_config=task.with_config)
    if any(name in cluster.topics and not cluster.is_queued(name) for name in task.topics):
        context.agenda.append(ListDeletions())


def _refuse(turn: Turn, names: Sequence[str], held_by: CauseKind, why: str) -> None:
    refused = turn.context.refused_marks
    for name in names:
        turn.refuse(f"topic/{name}", DELETING, why)
        _hold(turn, name, held_by)
        refused.pop(name, None)
        refused[name] = RefusedMark(turn.now_ms, why)
    for name in list(refused)[: max(0, len(refused) - MAX_REFUSED)]:
        del refused[name]


def _remove_ghosts(turn: Turn, names: Sequence[str], *, with_config: bool) -> None:
    """Remove markers, and make sure in the same breath that their topics do not exist.

    ZooKeeper can check the version of a znode but not its absence: that the topic's znode can be made, and unmade, says
    it. Otherwise a topic that is made between our look and this write would lose the marker that somebody gave it.
    """
    groups: list[tuple[Operation, ...]] = []
    for name in names:
        topic, config = paths.topic(name), (Delete(paths.config_topic(name)),) if with_config else ()
        groups.append((Create(topic, None), Delete(topic), *config, Delete(paths.delete_topic(name))))
    if groups:
        turn.write(groups, MarkersRemoved(tuple(names), ghosts=True, with_config=with_config))


def markers_removed(turn: Turn, task: MarkersRemoved, outcomes: Sequence[GroupOutcome]) -> None:
    """Where there was no configuration beside the marker, remove the marker alone; where the topic is there after all,
    take the marker up."""
    context = turn.context
    cluster = context.cluster
    alone: list[str] = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        if isinstance(outcome, GroupFailed):
            if task.with_config and outcome == GroupFailed(_CONFIG, ZkError.NO_NODE):
                alone.append(name)
                continue
            if task.ghosts and outcome.error is ZkError.NODE_EXISTS:
                context.agenda.extend((ListTopics(), ListDeletions()))
                continue
            if outcome.error is not ZkError.NO_NODE:
                turn.refuse(f"topic/{name}", "removing its deletion marker", outcome.error.name)
                mark = cluster.marks.get(name)
                if mark is not None:
                    cluster.marks[name] = mark._replace(last_error=outcome.error.name)
                continue
        if task.ghosts:
            _refuse(turn, (name,), CauseKind.MARKER_WITHOUT_TOPIC, NO_SUCH_TOPIC)
        cluster.marks.pop(name, None)
    _remove_ghosts(turn, alone, with_config=False)
