"""Ends topics in the trash: when their time is over, or on request. See `trash`.

The topic's znodes are created again with a marker, and the entry is removed, in one multi. So it is deleted as any
marked topic is: replicas on brokers that are away are waited for or owed, every answer is awaited, and any controller
can go on. The topic is not announced, so no broker serves it meanwhile. While deletion is disabled, or the topic is
protected, it stays in the trash.

The same multi restores the settings: the marker may be removed before the deletion begins, by hand or since deletion
was disabled just then. Then it is in service again, under any controller, and nothing would switch its retention on
again. Settings that cannot be read or written are left, with a record. Its offsets are gone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from lethe.controller.core import protection, trash
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import DISABLED, PROTECTED
from lethe.controller.core.holding import drop_markers
from lethe.controller.core.mutation import enter_partition_state, set_first_replica_states
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ReadStates, ReadTopics
from lethe.controller.core.tasks_deletion import ListDeletions
from lethe.controller.core.tasks_trash import (
    AnnounceRestored,
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
from lethe.protocol.journal_trash import EXPIRED, GAVE_WAY, PURGED
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.config_writes import config_operations
from lethe.protocol.zookeeper.operations import Create, Data, Delete, GetData, Operation, ReadOutcome, ZkError
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.znodes import DeletionOrders, RequestedAction, TopicRequest, TrashEntry, TrashPhase

VERSION_BYTES: Final = 20_000
"""How much of the write may raise the states' data versions. ZooKeeper keeps the last 500 writes in memory, and a
thousand topics may end at once."""


def forbidden(context: Context, name: str) -> str | None:
    """Return why no topic of this name may be deleted now: its marker would be refused."""
    if not context.delete_topic_enable:
        return DISABLED
    return None if protection.protecting_pattern(context, name) is None else PROTECTED


def purge(step: StepContext, requests: Mapping[str, int | None]) -> None:
    """Mark these topics of the trash for deletion. With each topic the version of the request for it, if any."""
    chosen = {name: version for name, version in requests.items() if _may_be_marked(step, name, version)}
    for name in chosen:
        step.context.cluster.trash.topics[name].is_asked = True
    if chosen:
        step.read((GetData(paths.config_topic(name)) for name in chosen), PurgedSettingsRead(chosen))


def on_settings_read(step: StepContext, task: PurgedSettingsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Write the markers."""
    memory = step.context.cluster.trash
    groups: list[tuple[Operation, ...]] = []
    ends: dict[str, PurgedEnd] = {}
    for (name, version), outcome in zip(task.requests.items(), outcomes, strict=True):
        found = memory.in_phase(name, TrashPhase.TRASHED)
        if found is None:
            continue
        found.is_asked = False
        if _may_be_marked(step, name, version):
            end, settings = _end(step.context, found, name, version), _settings(step, found, name, outcome)
            groups.append((*end, *settings))
            ends[name] = PurgedEnd(version, len(end), has_settings=bool(settings))
    if groups:
        step.write(groups, TopicsPurged(ends))


def _may_be_marked(step: StepContext, name: str, version: int | None) -> bool:
    found = step.context.cluster.trash.in_phase(name, TrashPhase.TRASHED)
    if found is None or found.is_asked or (version is None and found.is_requested):
        return False
    if (why := forbidden(step.context, name)) is not None:
        trash.put_off(step, name, PURGING, why)
        return False
    return True


def _end(context: Context, found: TrashedTopic, name: str, version: int | None) -> tuple[Operation, ...]:
    """Return the writes that end the topic's stay. The last one is about the request, if there is one."""
    states = {number: next_state(context, saved, ()) for number, saved in sorted(found.entry.partitions.items())}
    orders = DeletionOrders(grace_ms=0, offline_replicas=found.entry.offline_replicas)
    # If it is spared, brokers that stayed up follow it.
    versions = version_writes(name, states) if version_bytes(name, states) <= VERSION_BYTES else ()
    return (
        *topic_creates(name, found.entry, states),
        *versions,
        Create(paths.delete_topic(name), znodes.encode_deletion_marker(orders)),
        *trash.entry_deletes(name, found.entry),
        *(() if version is None else (Delete(paths.request(name), version),)),
    )


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
    memory, topics = step.context.cluster.trash, step.context.cluster.topics
    memory.ending = {name: topic_id for name, topic_id in memory.ending.items() if name in topics}
    purged: list[str] = []
    refusals: dict[str, tuple[int, TopicRequest, str]] = {}
    for (name, end), outcome in zip(task.ends.items(), outcomes, strict=True):
        if isinstance(outcome, GroupFailed) and end.request is not None and _is_taken(end, outcome):
            request = TopicRequest(RequestedAction.PURGE, memory.topics[name].entry.topic_id)
            refusals[name] = (end.request, request, trash.NAME_IS_TAKEN)
            trash.put_off(step, name, PURGING, trash.NAME_IS_TAKEN)
        elif isinstance(outcome, GroupFailed):
            _put_off(step, name, end, outcome)
        else:
            if (found := memory.topics.pop(name, None)) is not None:
                memory.ending[name] = found.entry.topic_id
                _record_end(step, name, found.entry)
            purged.append(name)
    if refusals:
        refuse(step, refusals)
    if purged:
        # The write has created these markers: what is stored is of the marker of another topic, which is gone.
        drop_markers(step, purged)
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
        why = f"its settings are not restored: {error.name}"
    else:
        why = trash.NAME_IS_TAKEN if _is_taken(end, failed) else error.name
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
    """Set first states, without telling brokers; then the markers are found."""
    cluster = step.context.cluster
    for name in task.topics:
        if name in cluster.topics:
            set_first_replica_states(cluster, name)
            enter_partition_state(cluster, cluster.all_of((name,)), PartitionState.NEW)
    step.do(ListDeletions())


def listed(step: StepContext, marked: Collection[str]) -> None:
    """Serve the topics that have left the trash and are marked no more: deletion was disabled, or the topic protected,
    before it was queued, or somebody has removed the marker. Nothing else would end them.
    """
    cluster = step.context.cluster
    spared = tuple(
        name
        for name in cluster.trash.ending
        if name in cluster.topics and not cluster.is_queued(name) and name not in marked
    )
    for name in spared:
        del cluster.trash.ending[name]
    if spared:
        step.context.tasks.append(AnnounceRestored(spared))
