"""Handles changes that others write into the znode of a known topic.

    change                                   result
    ---------------------------------------  ---------------------------------------------------------------------
    partitions are added                     they come into service
    the same, while the topic is deleted     refused, and written back: they would survive their topic
    another assignment or topic id,          written back from memory, so that the next controller reads what brokers
    or partitions are missing                were sent (a tool may have read the znode before our last write)
    removed and created again (new czxid)    another topic
    cannot be understood any more            shown; the topic goes on as it is in memory

Replicas are moved through `/admin/reassign_partitions` only. Kafka ignores other changes and overwrites them some time
later; it restores the znode only during a deletion.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core.context import Context
from lethe.controller.core.continuations import ModifiedTopicsRead, TopicsRestored
from lethe.controller.core.creation import forget, understood
from lethe.controller.core.mutation import set_assignment
from lethe.controller.core.partition_sets import Bits, bits_of
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ReadModifiedTopics, ReadTopics
from lethe.controller.core.tasks_advertising import EvictReplicas, ServePartitions
from lethe.controller.core.tasks_deletion import ListDeletions
from lethe.controller.core.tasks_reassignment import TrimReassignments
from lethe.controller.core.topic import Topic
from lethe.protocol.journal import EventRecordType, partition_ranges
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Data,
    GetData,
    Operation,
    ReadOutcome,
    SetData,
    ZkError,
    error_words,
    is_absent,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome


def topics_modified(step: StepContext, topics: tuple[str, ...]) -> None:
    """Read known topics again; read topics that were quarantined as new ones, and list the markers."""
    cluster = step.context.cluster
    known = [name for name in topics if name in cluster.topics]
    aside = [name for name in topics if name in cluster.quarantined_topics]
    if known:
        step.do(ReadModifiedTopics(tuple(known)))
    if aside:
        step.do(ReadTopics(tuple(aside)), ListDeletions())


def read_modified(step: StepContext, task: ReadModifiedTopics) -> None:
    """Read the znodes of these topics, and watch them; topics whose removal is under way later, if they are left."""
    removals = step.context.cluster.removals
    names = tuple(name for name in task.topics if name not in removals.under_way)
    removals.modified.update(dict.fromkeys(name for name in task.topics if name in removals.under_way))
    if names:
        step.read((GetData(paths.topic(name), watch=True) for name in names), ModifiedTopicsRead(names))


def on_modified_topics_read(step: StepContext, task: ModifiedTopicsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Bring added partitions into service, and write other changes back."""
    context = step.context
    replaced: list[str] = []
    added: dict[str, Bits] = {}
    restoring: list[str] = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        topic = context.cluster.topics.get(name)
        if topic is None:
            continue
        if is_absent(outcome):
            # The watch on the list of topics reports the removal.
            topic.was_absent = True
            continue
        if isinstance(outcome, Data) and outcome.stat.czxid != topic.created_zxid:
            replaced.append(name)
            continue
        znode = understood(name, outcome)
        if isinstance(znode, str) or not isinstance(outcome, Data):
            step.refuse(f"topic/{name}", "taking in its changed znode", str(znode))
            continue
        if outcome.stat.version == topic.version:
            continue
        topic.version = outcome.stat.version
        if topic.is_made_up:
            why = "the topic is being deleted with what was made up when its znode could not be understood"
            step.refuse(f"topic/{name}", "taking in its changed znode", why)
            continue
        if new := _ingest(step, name, topic, znode):
            added[name] = new
        if _differs(context, name, znode):
            restoring.append(name)
    # While a takeover loads, topics are only read: it brings them into service when the channels are open.
    loading = not context.cluster.channels_are_open
    if replaced:
        forget(step, replaced)
        if loading:
            step.do(ReadTopics(tuple(replaced), loading))
            context.tasks.append(ListDeletions())
        else:
            step.do(ReadTopics(tuple(replaced)), ListDeletions())
        context.tasks.append(TrimReassignments())
    if added and not loading:
        step.do(EvictReplicas(tuple(added)), ServePartitions(added))
    if restoring:
        _restore(step, restoring)


def _ingest(step: StepContext, name: str, topic: Topic, znode: znodes.TopicZnode) -> Bits:
    """Store and return the new partitions; refuse them if the topic is being deleted."""
    new = sorted(number for number in znode.assignments if number not in topic.partitions)
    if not new:
        return 0
    if step.context.cluster.is_queued(name):
        why = "the topic is being deleted; its znode is written back"
        step.refuse(f"topic/{name}", "adding partitions", why, partitions=partition_ranges(new))
        return 0
    for number in new:
        # A new partition has no reassignment.
        target = znode.assignments[number].target
        set_assignment(step.context.cluster, TopicPartition(name, number), ReplicaAssignment(target))
    step.record(EventRecordType.EVENT, f"topic/{name}", what="partitions added", partitions=partition_ranges(new))
    return bits_of(new)


def _differs(context: Context, name: str, znode: znodes.TopicZnode) -> bool:
    topic = context.cluster.topics[name]
    return znode.topic_id != topic.id or dict(znode.assignments) != znode_of(context, name).assignments


# --- writing what must be there -----------------------------------------------------------------------------------


def znode_of(context: Context, name: str) -> znodes.TopicZnode:
    """Return the required content of the topic's znode, with the reassignments that are not finished."""
    cluster = context.cluster
    topic = cluster.topics[name]
    assignments = {number: partition.assignment for number, partition in topic.partitions.items()}
    for number in assignments if cluster.reassignments else ():
        moving = cluster.reassignments.get(TopicPartition(name, number))
        if moving is not None:
            assignments[number] = moving.written
    return znodes.TopicZnode(assignments, topic.id)


def set_topic(context: Context, name: str, znode: znodes.TopicZnode) -> Operation:
    """Return the write of the topic's znode, which expects the version in memory."""
    return SetData(paths.topic(name), znodes.encode_topic(znode), context.cluster.topics[name].version)


def _restore(step: StepContext, names: list[str]) -> None:
    context = step.context
    for name in names:
        step.refuse(
            f"topic/{name}", "changing its znode", "only added partitions are accepted; the rest is written back"
        )
    groups = [(set_topic(context, name, znode_of(context, name)),) for name in names]
    step.write(groups, TopicsRestored(tuple(names)))


def on_topics_restored(step: StepContext, task: TopicsRestored, outcomes: Sequence[GroupOutcome]) -> None:
    """Store the new versions; read topics again that others have written."""
    again = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        if isinstance(outcome, GroupDone):
            note_written(step.context, name)
        elif isinstance(outcome, GroupFailed) and outcome.error is ZkError.BAD_VERSION:
            again.append(name)
        elif isinstance(outcome, GroupFailed) and outcome.error is not ZkError.NO_NODE:
            step.refuse(f"topic/{name}", "writing its znode back", error_words(outcome.error))
    if again:
        step.do(ReadModifiedTopics(tuple(again)))


def note_written(context: Context, name: str) -> None:
    """Raise the topic's version in memory by one, after a write of its znode."""
    topic = context.cluster.topics.get(name)
    if topic is not None:
        topic.version += 1
