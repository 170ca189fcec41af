"""What somebody writes into the znode of a topic that we know: partitions that are added, and what must not stand.

Only partitions that are added are taken in. Everything else in a topic's znode is ours to write: replicas are moved
through `/admin/reassign_partitions`, and a topic keeps its id and its partitions for as long as it lives. What a tool
has written over (it may have read the znode before our last write) is put back from memory, so that the next
controller finds there what brokers have been told. While the topic is being deleted nothing is taken in at all: an
added partition would outlive its topic.

A znode that was removed and made again is another topic, known by its czxid. One that cannot be understood any more is
left alone and shown; the topic goes on as it is remembered.

Kafka ignores what it does not take in and writes it over some time later; it restores only during a deletion.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core.agenda import ReadModifiedTopics, ReadTopics
from lethe.controller.core.agenda_deletion import ListDeletions
from lethe.controller.core.agenda_residence import EvictReplicas, ServePartitions
from lethe.controller.core.context import Context
from lethe.controller.core.continuations import ModifiedTopicsRead, TopicsRestored
from lethe.controller.core.creation import forget, understood
from lethe.controller.core.mutation import set_assignment
from lethe.controller.core.topic import Topic
from lethe.controller.core.turn import Turn
from lethe.protocol.journal import FactType, partition_ranges
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Data, GetData, Operation, ReadOutcome, SetData, ZkError, is_absent
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome


def topics_modified(turn: Turn, topics: tuple[str, ...]) -> None:
    """Read those again that we know; what was set aside may make sense now, and may be marked already."""
    cluster = turn.context.cluster
    known = [name for name in topics if name in cluster.topics]
    aside = [name for name in topics if name in cluster.set_aside_topics]
    if known:
        turn.do(ReadModifiedTopics(tuple(known)))
    if aside:
        turn.do(ReadTopics(tuple(aside)), ListDeletions())


def read_modified(turn: Turn, task: ReadModifiedTopics) -> None:
    """Read the znodes, and be told when they change again."""
    turn.read((GetData(paths.topic(name), watch=True) for name in task.topics), ModifiedTopicsRead(task.topics))


def modified(turn: Turn, task: ModifiedTopicsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Take in what was added, and put back what was written over."""
    context = turn.context
    replaced: list[str] = []
    added: list[TopicPartition] = []
    restoring: list[str] = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        topic = context.cluster.topics.get(name)
        if topic is None or is_absent(outcome):
            # That it is gone is told by the list of topics.
            continue
        if isinstance(outcome, Data) and outcome.stat.czxid != topic.created_zxid:
            replaced.append(name)
            continue
        znode = understood(name, outcome)
        if isinstance(znode, str) or not isinstance(outcome, Data):
            turn.refuse(f"topic/{name}", "taking in its changed znode", str(znode))
            continue
        if outcome.stat.version == topic.version:
            continue
        topic.version = outcome.stat.version
        if topic.is_made_up:
            why = "the topic is being deleted with what was made up when its znode could not be understood"
            turn.refuse(f"topic/{name}", "taking in its changed znode", why)
            continue
        added.extend(_take_in(turn, name, topic, znode))
        if _differs(context, name, znode):
            restoring.append(name)
    if replaced:
        forget(turn, replaced)
        turn.do(ReadTopics(tuple(replaced)), ListDeletions())
    if added:
        turn.do(EvictReplicas(tuple(dict.fromkeys(tp.topic for tp in added))), ServePartitions(tuple(added)))
    if restoring:
        _restore(turn, restoring)


def _take_in(turn: Turn, name: str, topic: Topic, znode: znodes.TopicZnode) -> list[TopicPartition]:
    """The partitions that are new, unless the topic is being deleted."""
    new = sorted(number for number in znode.assignments if number not in topic.partitions)
    if not new:
        return []
    if turn.context.cluster.is_queued(name):
        why = "the topic is being deleted; its znode is written back"
        turn.refuse(f"topic/{name}", "adding partitions", why, partitions=partition_ranges(new))
        return []
    for number in new:
        # Nothing moves in a partition that does not exist yet.
        target = znode.assignments[number].target
        set_assignment(turn.context.cluster, TopicPartition(name, number), ReplicaAssignment(target))
    turn.record(FactType.EVENT, f"topic/{name}", what="partitions added", partitions=partition_ranges(new))
    return [TopicPartition(name, number) for number in new]


def _differs(context: Context, name: str, znode: znodes.TopicZnode) -> bool:
    topic = context.cluster.topics[name]
    return znode.topic_id != topic.id or dict(znode.assignments) != znode_of(context, name).assignments


# --- writing what must be there -----------------------------------------------------------------------------------


def znode_of(context: Context, name: str) -> znodes.TopicZnode:
    """The topic's znode as it must be: a partition that moves is written as moving until that is finished."""
    cluster = context.cluster
    topic = cluster.topics[name]
    assignments = {number: partition.assignment for number, partition in topic.partitions.items()}
    for number in assignments if cluster.reassignments else ():
        moving = cluster.reassignments.get(TopicPartition(name, number))
        if moving is not None:
            assignments[number] = moving.written
    return znodes.TopicZnode(assignments, topic.id)


def set_topic(context: Context, name: str, znode: znodes.TopicZnode) -> Operation:
    """Write the topic's znode, provided nobody else has since we last saw it."""
    return SetData(paths.topic(name), znodes.encode_topic(znode), context.cluster.topics[name].version)


def _restore(turn: Turn, names: list[str]) -> None:
    context = turn.context
    for name in names:
        turn.refuse(
            f"topic/{name}", "changing its znode", "only adding partitions is taken in; the rest is written back"
        )
    groups = [(set_topic(context, name, znode_of(context, name)),) for name in names]
    turn.write(groups, TopicsRestored(tuple(names)))


def restored(turn: Turn, task: TopicsRestored, outcomes: Sequence[GroupOutcome]) -> None:
    """Where somebody has written once more, look again."""
    again = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        if isinstance(outcome, GroupDone):
            note_written(turn.context, name)
        elif isinstance(outcome, GroupFailed) and outcome.error is ZkError.BAD_VERSION:
            again.append(name)
        elif isinstance(outcome, GroupFailed) and outcome.error is not ZkError.NO_NODE:
            turn.refuse(f"topic/{name}", "writing its znode back", outcome.error.name)
    if again:
        turn.do(ReadModifiedTopics(tuple(again)))


def note_written(context: Context, name: str) -> None:
    """Our write raised the version of the topic's znode by one."""
    topic = context.cluster.topics.get(name)
    if topic is not None:
        topic.version += 1
