"""Whether deletions are paused, and which deletions had begun before the pause.

Deletions are paused while `/lethe/deletions_paused` exists (a znode, so that the pause survives controllers), or while
it is unknown whether topics may be deleted (`configuration`). In a pause no topic is newly queued, and nothing is sent
or removed for queued topics. Pending answers still count, and replicas are still announced to brokers that return.

Only the controller's memory has what was deleted of a topic. If such a topic came back into service, its deleted
replicas would be empty. So at the pause the controller writes into the marker of each deletion that has begun the czxid
of the topic's znode. A controller that takes over during the pause reads the markers:

    the marker has            the topic is
    ------------------------  ----------------------------------------------------------
    the czxid of the topic    queued: it stays out of service, and nothing is sent for it
    another czxid, or none    held: it stays in service

The note is written too where a later controller may hold the topic back for another reason (`protection`, `pace`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import PAUSED, RESUMED, DeletionPause
from lethe.controller.core.orders import names_another, said
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_debts import PayDebts
from lethe.controller.core.tasks_deletion import (
    BegunNoted,
    BegunRead,
    ListDeletions,
    NoteBegun,
    PauseRead,
    QueueDeletions,
    ReadBegun,
    ReadPause,
    ResumeDeletions,
)
from lethe.controller.core.topic import Topic
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Data,
    Exists,
    GetData,
    Operation,
    ReadOutcome,
    SetData,
    ZkError,
    error_words,
    failure_words,
    is_absent,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome

NOTING: Final = "noting in its marker that its deletion has begun"
"""The refused action in event records."""


def read_pause(step: StepContext, task: ReadPause) -> None:
    """Read whether deletions are paused, and watch for changes."""
    path = paths.deletions_paused()
    step.read((Exists(path, watch=True), GetData(path, watch=True)), PauseRead(task.loading))


def on_pause_read(step: StepContext, task: PauseRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Begin the pause; or end it, queue held topics and continue queued ones."""
    context = step.context
    cluster = context.cluster
    before = cluster.paused
    now = _ordered(outcomes, before, step.now_ms) or _own(context)
    cluster.paused = now
    if (before and before.held_by) is (now and now.held_by):
        return
    step.record(
        EventRecordType.EVENT,
        f"controller/{context.config.controller_id}",
        what=PAUSED if now is not None else RESUMED,
        reason=now.reason if now is not None else "",
        held_by=now.held_by.held_code if now is not None else "",
        topics=len(cluster.deletions),
        partitions=sum(len(cluster.topics[name].partitions) for name in cluster.deletions if name in cluster.topics),
    )
    if now is not None and before is None:
        deletions = cluster.deletions.items()
        note_begun(step, (name for name, deletion in deletions if deletion.started_at_ms is not None))
    elif now is not None and not task.loading:
        # Marked topics are held for another reason from now on.
        step.do(ListDeletions())
    elif not task.loading:
        debtors = PayDebts(tuple(cluster.debts.by_broker))
        step.do(ResumeDeletions(tuple(cluster.deletions), unblock=True), ListDeletions(), debtors)


def _ordered(outcomes: Sequence[ReadOutcome], before: DeletionPause | None, now_ms: int) -> DeletionPause | None:
    """Return the pause that the znode orders: it is enough that the znode exists, readable or not."""
    exists, content = outcomes
    if is_absent(exists) and not isinstance(content, Data):
        return None
    if isinstance(content, Data):
        said = znodes.decode_deletions_paused(content.data)
    else:
        said = znodes.DeletionsPaused(None, f"unreadable: reading it failed with {failure_words(content)}")
    since_ms = said.since_ms
    if since_ms is None:
        is_same = before is not None and before.held_by is CauseKind.RESUMPTION
        since_ms = before.since_ms if before is not None and is_same else now_ms
    return DeletionPause(since_ms, said.reason, CauseKind.RESUMPTION, paths.deletions_paused())


def _own(context: Context) -> DeletionPause | None:
    """Return the controller's own pause, if it is unknown whether topics may be deleted."""
    unknown = context.cluster.dynamic.deletion_unknown
    if unknown is None:
        return None
    return DeletionPause(unknown.since_ms, unknown.why, CauseKind.CONFIGURATION, unknown.path)


def pauses(context: Context) -> tuple[DeletionPause, ...]:
    """Return all pauses that must end before deletions go on; empty if they are not paused."""
    paused, own = context.cluster.paused, _own(context)
    if paused is None:
        return ()
    return (paused,) if own is None or paused.held_by is own.held_by else (paused, own)


# --- what had begun -----------------------------------------------------------------------------------------------


def note_begun(step: StepContext, names: Iterable[str]) -> None:
    """Note in the markers of these topics that their deletion has begun, for later controllers."""
    _read_before_noting(step, NoteBegun(tuple(names)))


def note_and_queue(step: StepContext, names: tuple[str, ...], *, loading: bool) -> None:
    """As `note_begun`, and queue the topics when that is written: nothing of them is destroyed before."""
    _read_before_noting(step, NoteBegun(names, queue=True, loading=loading))


def _read_before_noting(step: StepContext, task: NoteBegun) -> None:
    if task.topics:
        step.read((GetData(paths.delete_topic(name)) for name in task.topics), task)


def on_markers_read_before_noting(step: StepContext, task: NoteBegun, outcomes: Sequence[ReadOutcome]) -> None:
    """Write the notes, and keep the other orders in the markers. A topic is not queued if they cannot be understood, or
    if the marker is another one by now, which names another topic."""
    cluster = step.context.cluster
    groups: list[tuple[Operation, ...]] = []
    noted: list[str] = []
    ready: list[str] = []
    unclear: list[str] = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        topic = cluster.topics.get(name)
        if topic is None or is_absent(outcome):
            continue
        ordered = said(outcome)
        if task.queue:
            cluster.marker_orders[name] = ordered
        if ordered.problem is not None or not isinstance(outcome, Data):
            step.refuse(f"topic/{name}", NOTING, ordered.problem or "no data")
            unclear.append(name)
        elif task.queue and names_another(ordered, topic.created_zxid):
            unclear.append(name)
        elif ordered.begun == topic.created_zxid:
            ready.append(name)
        else:
            ordered = replace(ordered, begun=topic.created_zxid, unreadable=ordered.unreadable or topic.is_made_up)
            data = znodes.encode_deletion_marker(ordered)
            groups.append((SetData(paths.delete_topic(name), data, outcome.stat.version),))
            noted.append(name)
    if groups:
        step.write(groups, BegunNoted(tuple(noted), task.queue, task.loading))
    if unclear and task.queue:
        step.do(ListDeletions(task.loading))
    if ready and task.queue:
        step.do(QueueDeletions(tuple(ready), task.loading, tuple(ready)))


def on_begun_noted(step: StepContext, task: BegunNoted, outcomes: Sequence[GroupOutcome]) -> None:
    """Queue the topics if that was asked for; note again where the marker has changed; record other failures."""
    again: list[str] = []
    ready: list[str] = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        error = outcome.error if isinstance(outcome, GroupFailed) else None
        if error is ZkError.BAD_VERSION:
            again.append(name)
        elif error is not ZkError.NO_NODE:
            ready.append(name)
        if error is not None and error not in (ZkError.BAD_VERSION, ZkError.NO_NODE):
            step.refuse(f"topic/{name}", NOTING, error_words(error))
    if ready and task.queue:
        step.do(QueueDeletions(tuple(ready), task.loading, tuple(ready)))
    _read_before_noting(step, NoteBegun(tuple(again), task.queue, task.loading))


def read_begun(step: StepContext, task: ReadBegun) -> None:
    """Read the markers of these topics."""
    step.read((GetData(paths.delete_topic(name)) for name in task.topics), BegunRead(task.topics))


def on_begun_read(step: StepContext, task: BegunRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Queue the topics whose deletion had begun, and hold the others."""
    topics = step.context.cluster.topics
    begun = tuple(name for name, outcome in zip(task.topics, outcomes, strict=True) if has_begun(topics[name], outcome))
    step.do(QueueDeletions(task.topics, loading=True, begun=begun))


def has_begun(topic: Topic, marker: ReadOutcome) -> bool:
    """Return True if the marker says that the deletion of this incarnation has begun.

    One that was created in the same write as the topic is of a topic that has left the trash: see `trash_end`."""
    if not isinstance(marker, Data):
        return False
    return topic.created_zxid in (znodes.decode_deletion_marker(marker.data).begun, marker.stat.czxid)
