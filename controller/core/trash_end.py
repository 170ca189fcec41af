"""Ends topics in the trash: when their time is over, or on request. See `trash`.

The topic's znodes are created again with a marker, and the entry is removed, in one multi. So it is deleted as any
marked topic is: replicas on brokers that are away are waited for or owed, every answer is awaited, and any controller
can go on. While deletion is disabled, or the topic is protected, it stays in the trash; so it does until the pace of
deletions lets it go, unless a disk is full.

The topic is not announced, and queued at once: nothing may elect leaders for it, whose ISR may name a broker with a new
disk by now. The next controller knows by the zxids that its deletion has begun (`pausing.has_begun`), since topic and
marker are of one write.

The same multi restores the settings: a later controller serves the topic again where deletion is disabled by then, and
nothing would switch its retention on again. Settings that cannot be read or written are left, with a record. Its
offsets are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lethe.controller.core import pace, protection, trash
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import DISABLED, PROTECTED, DeletionProblem
from lethe.controller.core.holding import drop_markers
from lethe.controller.core.mutation import enter_partition_state, set_first_replica_states
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ReadStates, ReadTopics
from lethe.controller.core.tasks_deletion import ListDeletions, QueueDeletions
from lethe.controller.core.tasks_trash import (
    LoadPurged,
    PurgedEnd,
    PurgedSettingsRead,
    QueuePurged,
    ReadTopicRequests,
    TopicsPurged,
)
from lethe.controller.core.transitions import PartitionState
from lethe.controller.core.trash import PURGING
from lethe.controller.core.trash_frozen import decoded
from lethe.controller.core.trash_memory import TrashedTopic
from lethe.controller.core.trash_out import next_state, refuse, topic_creates, version_bytes, version_writes
from lethe.controller.core.trash_settings import restored
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal_trash import EXPIRED, GAVE_WAY, PURGED
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.config_writes import config_operations
from lethe.protocol.zookeeper.operations import (
    Create,
    Data,
    Delete,
    GetData,
    Operation,
    ReadOutcome,
    ZkError,
    error_words,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.znodes import DeletionOrders, RequestedAction, TopicRequest, TrashEntry, TrashPhase

TURN: Final = CauseKind.PACE.value.sentence.format(since="", detail="")
VERSION_BYTES: Final = 20_000
"""How much of the write may raise the states' data versions. ZooKeeper keeps the last 500 writes in memory, and a
thousand topics may end at once."""


def forbidden(context: Context, name: str) -> str | None:
    """Return why no topic of this name may be deleted now: its marker would be refused."""
    if not context.delete_topic_enable:
        return DISABLED
    return None if protection.protecting_pattern(context, name) is None else PROTECTED


def purge(step: StepContext, requests: Mapping[str, int | None], *, paced: bool = True) -> None:
    """Mark these topics of the trash for deletion, in their turn if that is `paced`. With each topic the version of the
    request for it, if any."""
    memory = step.context.cluster.trash
    chosen: dict[str, int | None] = {}
    wait_ms = 0
    for name, version in requests.items():
        found = memory.in_phase(name, TrashPhase.TRASHED)
        if found is None or found.is_asked or (version is None and found.is_requested):
            continue
        must_pay = paced and not found.has_paid
        # Those behind the first that has to wait are not judged: thousands may wait, and ask every second.
        if not (must_pay and wait_ms) and not _may_be_marked(step, name, version):
            continue
        if must_pay and (wait_ms := wait_ms or pace.wait_to_leave_ms(step, memory.seen_bytes(name))):
            _wait_for_turn(found, version, step.now_ms, wait_ms)
            continue
        chosen[name] = version
        found.is_asked, found.end_requested, found.has_paid = True, None, found.has_paid or paced
    if chosen:
        reads = (read for name in chosen for read in (GetData(paths.config_topic(name)), GetData(paths.request(name))))
        step.read(reads, PurgedSettingsRead(chosen))
    trash.arm(step)


def _wait_for_turn(found: TrashedTopic, version: int | None, now_ms: int, wait_ms: int) -> None:
    found.end_requested, found.retry_at_ms = version, now_ms + wait_ms
    if found.problem is None or found.problem.what != TURN:
        found.problem = DeletionProblem.met(found.problem, TURN, now_ms)


def forget_turn(context: Context, name: str) -> None:
    """Drop the problem that the topic's turn has not come, where only a request waited, which is withdrawn."""
    found = context.cluster.trash.topics[name]
    if found.end_requested is not None and found.problem is not None and found.problem.what == TURN:
        found.problem = None


def on_settings_read(step: StepContext, task: PurgedSettingsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Write the markers, unless a request has become another one since it was read."""
    memory = step.context.cluster.trash
    groups: list[tuple[Operation, ...]] = []
    ends: dict[str, PurgedEnd] = {}
    changed = False
    for (name, version), settings_read, request in zip(
        task.requests.items(), outcomes[::2], outcomes[1::2], strict=True
    ):
        found = memory.in_phase(name, TrashPhase.TRASHED)
        if found is None:
            continue
        found.is_asked = False
        if version is not None and not _is_asked_for(name, version, found.entry, request):
            changed = True
        elif _may_be_marked(step, name, version):
            end, settings = _end(step.context, found, name, version), _settings(step, found, name, settings_read)
            groups.append((*end, *settings))
            ends[name] = PurgedEnd(version, len(end), has_settings=bool(settings))
    if groups:
        step.write(groups, TopicsPurged(ends, step.now_ms))
    if changed:
        step.context.tasks.append(ReadTopicRequests())


def _is_asked_for(name: str, version: int, entry: TrashEntry, request: ReadOutcome) -> bool:
    """Return whether the request still asks for this end: another one in its place has the same version."""
    if not isinstance(request, Data) or request.stat.version != version:
        return False
    try:
        asked = znodes.decode_topic_request(name, request.data)
    except znodes.MalformedZnode:
        return False
    return asked == TopicRequest(RequestedAction.PURGE, entry.topic_id)


def _may_be_marked(step: StepContext, name: str, version: int | None) -> bool:
    context = step.context
    why = forbidden(context, name)
    if why is None and version is None and name in context.cluster.quarantined_topics:
        why = trash.NAME_IS_TAKEN
    if why is not None:
        trash.put_off(step, name, PURGING, why)
    return why is None


def _end(context: Context, found: TrashedTopic, name: str, version: int | None) -> tuple[Operation, ...]:
    """Return the writes that end the topic's stay. The last one is about the request, if there is one."""
    states = {number: next_state(context, saved, ()) for number, saved in sorted(found.entry.partitions.items())}
    # If it is spared, brokers that stayed up follow it.
    versions = version_writes(name, states) if version_bytes(name, states) <= VERSION_BYTES else ()
    return (
        *topic_creates(name, found.entry, states),
        *versions,
        Create(paths.delete_topic(name), znodes.encode_deletion_marker(_orders(found.entry))),
        *trash.entry_deletes(name, found.entry),
        *(() if version is None else (Delete(paths.request(name), version),)),
    )


def _orders(entry: TrashEntry) -> DeletionOrders:
    return DeletionOrders(grace_ms=0, offline_replicas=entry.offline_replicas)


def _settings(step: StepContext, found: TrashedTopic, name: str, outcome: ReadOutcome) -> tuple[Operation, ...]:
    """Return the writes that restore the settings. None that nobody can read or write keep a topic in the trash."""
    if found.leaves_settings:
        return ()
    present = decoded(name, outcome)
    if isinstance(present, str):
        step.refuse(f"topic/{name}", PURGING, f"its settings are not restored: {present}")
        return ()
    settings = restored(found, present) or {}
    version = outcome.stat.version if isinstance(outcome, Data) else None
    return () if settings == present else config_operations(paths.config_topic(name), settings, version)


def on_topics_purged(step: StepContext, task: TopicsPurged, outcomes: Sequence[GroupOutcome]) -> None:
    """Load the topics for their deletion."""
    cluster = step.context.cluster
    memory = cluster.trash
    purged: dict[str, DeletionOrders] = {}
    refusals: dict[str, tuple[int, TopicRequest, str]] = {}
    for (name, end), outcome in zip(task.ends.items(), outcomes, strict=True):
        if isinstance(outcome, GroupFailed) and end.request is not None and _is_taken(end, outcome):
            request = TopicRequest(RequestedAction.PURGE, memory.topics[name].entry.topic_id)
            refusals[name] = (end.request, request, trash.NAME_IS_TAKEN)
            trash.put_off(step, name, PURGING, trash.NAME_IS_TAKEN)
        elif isinstance(outcome, GroupFailed):
            _put_off(step, name, end, outcome)
        else:
            entry = memory.topics.pop(name).entry
            _record_end(step, name, entry)
            purged[name] = _orders(entry)
    if refusals:
        refuse(step, refusals)
    if purged:
        # The write has created these markers: what is stored is of the marker of another topic, which is gone.
        drop_markers(step, tuple(purged))
        cluster.marker_orders |= purged
        cluster.marker_times |= dict.fromkeys(purged, task.at_ms)
        step.do(ReadTopics(tuple(purged), loading=True), LoadPurged(tuple(purged)))
    trash.arm(step)


def _record_end(step: StepContext, name: str, entry: TrashEntry) -> None:
    giving = step.context.cluster.trash.disks.giving
    if giving is not None and (giving.topic, giving.topic_id) == (name, entry.topic_id):
        broker, path, usable, total = giving.broker, giving.path, giving.usable_bytes, giving.total_bytes
        trash.record(step, name, GAVE_WAY, entry, broker=broker, path=path, usable_bytes=usable, total_bytes=total)
    trash.record(step, name, EXPIRED if step.now_ms >= entry.until_ms else PURGED, entry)


def _is_taken(end: PurgedEnd, failed: GroupFailed) -> bool:
    return failed.error is ZkError.NODE_EXISTS and failed.index_in_group < end.settings


def _put_off(step: StepContext, name: str, end: PurgedEnd, failed: GroupFailed) -> None:
    """Try again later. A request is read again at once only where it has changed: what else failed may fail again."""
    at, error = failed
    found = step.context.cluster.trash.topics.get(name)
    has_changed = at >= end.settings and error in (ZkError.BAD_VERSION, ZkError.NO_NODE, ZkError.NODE_EXISTS)
    # Of a write that is refused as a whole, the settings may be what makes it too large.
    is_about_settings = end.has_settings and (at < 0 or at >= end.settings)
    if has_changed:
        why = "its settings have changed meanwhile"
    elif is_about_settings:
        why = f"its settings are not restored: {error_words(error)}"
    else:
        why = trash.NAME_IS_TAKEN if _is_taken(end, failed) else error_words(error)
    trash.put_off(step, name, PURGING, why)
    if found is None:
        return
    found.leaves_settings |= is_about_settings and not has_changed
    if end.request is not None and at == end.settings - 1:
        step.do(ReadTopicRequests())
    else:
        found.is_requested = end.request is not None


def load(step: StepContext, task: LoadPurged) -> None:
    """Read the states of those topics that are still there."""
    known = tuple(name for name in task.topics if name in step.context.cluster.topics)
    if known:
        step.do(ReadStates(known), QueuePurged(known))


def queue(step: StepContext, task: QueuePurged) -> None:
    """Set first states, without telling brokers, and queue the topics. Of what cannot be read the marker is found."""
    cluster = step.context.cluster
    known = tuple(name for name in task.topics if name in cluster.topics)
    for name in known:
        set_first_replica_states(cluster, name)
        enter_partition_state(cluster, cluster.all_of((name,)), PartitionState.NEW)
    step.do(QueueDeletions(known, begun=known), ListDeletions())
