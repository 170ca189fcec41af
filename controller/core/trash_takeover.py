"""What a takeover finds in the trash: reads it before the topics, and continues where earlier controllers stopped."""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core import owed, trash, trash_in
from lethe.controller.core.batching import update_metadata
from lethe.controller.core.context import Context
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_trash import FreezeTopics, TrashListed, TrashRead
from lethe.controller.core.trash_frozen import frozen_version
from lethe.controller.core.trash_memory import TrashedTopic
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import (
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaTopic,
    UpdateMetadataPartition,
    UpdateMetadataTopic,
)
from lethe.protocol.vocabulary import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Exists,
    GetChildren,
    GetData,
    Present,
    ReadOutcome,
    error_words,
    failure_words,
    is_absent,
    read_error,
)
from lethe.protocol.zookeeper.znodes import TrashEntry, TrashPhase


def read(step: StepContext) -> None:
    """List the trash."""
    step.read((GetChildren(paths.trash()),), TrashListed())


def on_trash_listed(step: StepContext, outcomes: Sequence[ReadOutcome]) -> None:
    """Read the entries. While the list cannot be read, every name may be reserved."""
    memory = step.context.cluster.trash
    if isinstance(outcomes[0], Children):
        memory.parents_exist = True
        names = outcomes[0].names
        if names:
            reads = (
                read
                for name in names
                for read in (
                    Exists(paths.trashed(name)),
                    GetData(paths.trashed(name)),
                    GetData(paths.config_topic(name)),
                )
            )
            step.read(reads, TrashRead(names))
    elif (error := read_error(outcomes[0])) is not None:
        memory.unseen = f"reading {paths.trash()} failed with {error_words(error)}"
        step.refuse("cluster", "reading the trash", memory.unseen)


def on_trash_read(step: StepContext, task: TrashRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the entries; set aside those that cannot be understood."""
    memory = step.context.cluster.trash
    for name, written, outcome, settings in zip(task.topics, *(outcomes[nth::3] for nth in range(3)), strict=True):
        if is_absent(outcome):
            continue
        written_ms = min(written.modified_at_ms, step.now_ms) if isinstance(written, Present) else 0
        try:
            if not isinstance(outcome, Data):
                raise znodes.MalformedZnode(paths.trashed(name), f"reading it failed with {failure_words(outcome)}")
            entry = znodes.decode_trash(name, outcome.data)
            memory.topics[name] = TrashedTopic(
                entry, step.now_ms, written_ms=written_ms, frozen_version=frozen_version(name, settings)
            )
        except znodes.MalformedZnode as problem:
            memory.unreadable[name] = problem.reason
            step.record(
                EventRecordType.SET_ASIDE, f"topic/{name}", topic_id=None, path=problem.path, reason=problem.reason
            )


def resume(step: StepContext) -> None:
    """Continue with every topic in the trash, at the end of the takeover."""
    context, cluster = step.context, step.context.cluster
    if context.config.only_topics is not None:
        return
    known = [name for name in cluster.trash.topics if not trash.is_unknown(context, name)]
    _announce_absence(step)
    # Another controller may have deleted some, and served others of their names.
    valid = trash.drop_void(step, known)
    freezing = [name for name in valid if cluster.trash.in_phase(name, TrashPhase.FREEZING) is not None]
    trash_in.thaw_unmarked(step, freezing)
    held = tuple(name for name, mark in cluster.marks.items() if mark.held_by is CauseKind.TRASH)
    if held:
        step.do(FreezeTopics(held))
    trash.arm(step)
    trash.look_soon(step)


def _announce_absence(step: StepContext) -> None:
    """Send the tombstones and StopReplica of topics in the trash again: the controller before may have died first.

    Brokers owe these tombstones until they have answered without an error (`owed`). Also where another topic has the
    name: that one is set aside, and not served."""
    cluster = step.context.cluster
    topics = {
        name: found.entry
        for name, found in cluster.trash.topics.items()
        if found.phase is TrashPhase.TRASHED and name not in cluster.topics
    }
    if not topics:
        return
    tombstones = tuple(_tombstone(step.context, name, entry) for name, entry in topics.items())
    request = update_metadata(step.context, tombstones)
    for broker in cluster.brokers:
        step.send(broker, request)
        owed.note_sent(step, broker, tombstones)
        stops = tuple(stop for name, entry in topics.items() if (stop := _stop(name, entry, broker)).partitions)
        if stops:
            step.send(broker, StopReplicaRequest(step.context.config.controller_id, cluster.epoch, stops))


def _tombstone(context: Context, name: str, entry: TrashEntry) -> UpdateMetadataTopic:
    epoch = context.cluster.epoch
    rows = (
        UpdateMetadataPartition(number, epoch, LEADER_DURING_DELETE, 0, saved.isr, 0, saved.replicas, ())
        for number, saved in sorted(entry.partitions.items())
    )
    return UpdateMetadataTopic(name, entry.topic_id, tuple(rows))


def _stop(name: str, entry: TrashEntry, broker: BrokerId) -> StopReplicaTopic:
    numbers = (number for number, saved in sorted(entry.partitions.items()) if broker in saved.replicas)
    return StopReplicaTopic(name, tuple(StopReplicaPartition(n, EPOCH_DURING_DELETE, False) for n in numbers))
