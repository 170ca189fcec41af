"""Whether deletions are paused, and which of them had begun by then.

Theory of operation. `/lethe/deletions_paused` exists: nothing new is queued, and nothing is sent or removed for what is
queued. Answers that are on their way are taken in, and brokers that return are told what they host. The pause is a
znode, so that it outlives controllers. Deletions are paused too while nobody can say whether topics may be deleted at
all (`configuration`).

What has been deleted of a topic outlives no controller: it is in our memory only, and in service again the topic would
begin anew with replicas that are empty. So when the pause is seen, the markers of the topics whose deletion has begun
are written: each says for which life of its topic that holds (the czxid of the topic's znode). The controller that
takes over while deletions are paused reads the markers, and queues those instead of holding them: they stay out of
service, and nothing is sent for them either. A marker that says so about another life of the topic says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core.agenda_deletion import (
    BegunNoted,
    BegunRead,
    ListDeletions,
    PauseRead,
    QueueDeletions,
    ReadBegun,
    ReadPause,
    ResumeDeletions,
)
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import Pause
from lethe.controller.core.turn import Turn
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import FactType
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Data,
    Exists,
    GetData,
    ReadFailed,
    ReadOutcome,
    SetData,
    ZkError,
    is_absent,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome


def read_pause(turn: Turn, task: ReadPause) -> None:
    """Read whether deletions are paused, and be told when that changes."""
    path = paths.deletions_paused()
    turn.read((Exists(path, watch=True), GetData(path, watch=True)), PauseRead(task.loading))


def pause_read(turn: Turn, task: PauseRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Hold on, or queue what was held and go on with what was queued."""
    context = turn.context
    cluster = context.cluster
    before = cluster.paused
    now = _ordered(outcomes, before, turn.now_ms) or _own(context)
    cluster.paused = now
    if (before and before.held_by) is (now and now.held_by):
        return
    turn.record(
        FactType.EVENT,
        f"controller/{context.config.controller_id}",
        what="deletions are paused" if now is not None else "deletions go on",
        reason=now.reason if now is not None else "",
        held_by=now.held_by.held_code if now is not None else "",
        topics=len(cluster.deletions),
        partitions=sum(len(cluster.topics[name].partitions) for name in cluster.deletions if name in cluster.topics),
    )
    if now is not None and before is None:
        _note_begun(turn)
    elif now is not None and not task.loading:
        # What is marked is held by something else from now on.
        turn.do(ListDeletions())
    elif not task.loading:
        turn.do(ResumeDeletions(tuple(cluster.deletions), unblock=True), ListDeletions())


def _ordered(outcomes: Sequence[ReadOutcome], before: Pause | None, now_ms: int) -> Pause | None:
    """That the znode is there is what counts, whatever it says and whether or not it may be read."""
    exists, content = outcomes
    if is_absent(exists) and not isinstance(content, Data):
        return None
    if isinstance(content, Data):
        said = znodes.decode_deletions_paused(content.data)
    else:
        error = content.error.name if isinstance(content, ReadFailed) else "nothing"
        said = znodes.DeletionsPaused(None, f"unreadable: reading it failed with {error}")
    since_ms = said.since_ms
    if since_ms is None:
        is_same = before is not None and before.held_by is CauseKind.RESUMPTION
        since_ms = before.since_ms if before is not None and is_same else now_ms
    return Pause(since_ms, said.reason, CauseKind.RESUMPTION, paths.deletions_paused())


def _own(context: Context) -> Pause | None:
    """The pause that the controller holds itself, because it cannot tell whether topics may be deleted."""
    unknown = context.cluster.dynamic.deletion_unknown
    if unknown is None:
        return None
    return Pause(unknown.since_ms, unknown.why, CauseKind.CONFIGURATION, unknown.path)


def pauses(context: Context) -> tuple[Pause, ...]:
    """Everything that has to end before deletions go on; empty where they are not paused."""
    paused, own = context.cluster.paused, _own(context)
    if paused is None:
        return ()
    return (paused,) if own is None or paused.held_by is own.held_by else (paused, own)


# --- what had begun -----------------------------------------------------------------------------------------------


def _note_begun(turn: Turn) -> None:
    """Write into the markers of the topics whose deletion has begun that it has, for the controllers to come."""
    cluster = turn.context.cluster
    begun = tuple(name for name, deletion in cluster.deletions.items() if deletion.started_at_ms is not None)
    groups = []
    for name in begun:
        topic = cluster.topics[name]
        data = znodes.encode_deletion_marker(topic.is_made_up, topic.created_zxid)
        groups.append((SetData(paths.delete_topic(name), data, ANY_VERSION),))
    if groups:
        turn.write(groups, BegunNoted(begun))


def begun_noted(turn: Turn, task: BegunNoted, outcomes: Sequence[GroupOutcome]) -> None:
    """Where somebody has removed the marker there is nothing to be said any more."""
    for name, outcome in zip(task.topics, outcomes, strict=True):
        if isinstance(outcome, GroupFailed) and outcome.error is not ZkError.NO_NODE:
            turn.refuse(f"topic/{name}", "noting in its marker that its deletion has begun", outcome.error.name)


def read_begun(turn: Turn, task: ReadBegun) -> None:
    """Read the markers of these topics."""
    turn.read((GetData(paths.delete_topic(name)) for name in task.topics), BegunRead(task.topics))


def begun_read(turn: Turn, task: BegunRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Have those queued whose deletion had begun, and the others held."""
    topics = turn.context.cluster.topics
    begun = tuple(
        name
        for name, outcome in zip(task.topics, outcomes, strict=True)
        if isinstance(outcome, Data) and znodes.decode_deletion_begun(outcome.data) == topics[name].created_zxid
    )
    turn.do(QueueDeletions(task.topics, loading=True, begun=begun))
