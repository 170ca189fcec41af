"""`/admin/reassign_partitions`: reads the requested reassignments, and removes finished ones.

The znode has partitions with their target replicas. It is read when it is created or rewritten, so that users can
change or cancel a reassignment (Kafka's controller acts on creation only). Writes expect the version that was read, so
that no concurrent entry is lost.

    entry                                                    result
    -------------------------------------------------------  -------------------------------------------------------
    new target                                               the reassignment starts
    done                                                     removed; an empty list is deleted
    older than the topic that has its name now               void, because it was for an earlier topic: removed
    an unreadable topic                                      kept until its repair, if it is not older
    a queued topic, repeated brokers, or a controller        void: removed
    a marked topic in service, whose reassignment has ended  kept, and read again when the marker is gone
    a topic whose znodes are being removed                   kept, and read again after the removal: it may be for the
                                                             next topic of that name; the list is not written before
    an unknown partition                                     looked for again after the list was read, because it may
                                                             be new; if it is still unknown, removed as void
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lethe.controller.core.context import Context
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ListTopics, ReadModifiedTopics, Task
from lethe.controller.core.tasks_reassignment import (
    ReadReassignments,
    ReassignmentsRead,
    ReassignmentsTrimmed,
    StartReassignments,
    Target,
)
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Data,
    Delete,
    Exists,
    GetData,
    Operation,
    ReadOutcome,
    SetData,
    ZkError,
    error_words,
    read_error,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome


def read(step: StepContext, task: ReadReassignments) -> None:
    """Read the requested reassignments, and watch for changes."""
    path = paths.reassign_partitions()
    then = ReassignmentsRead(trimming=False, looked_for=task.looked_for)
    step.read((Exists(path, watch=True), GetData(path)), then)


def trim(step: StepContext) -> None:
    """Read the znode again, if it exists, to remove finished entries."""
    if step.context.cluster.reassignments_requested:
        path = paths.reassign_partitions()
        step.read((Exists(path, watch=True), GetData(path)), ReassignmentsRead(trimming=True))


def read_again(step: StepContext, names: Iterable[str]) -> None:
    """Read the requested reassignments, if there are any, and one of these topics is in service without a marker.

    Its marker may have ended a reassignment whose request was not withdrawn."""
    cluster = step.context.cluster
    stays = any(name in cluster.topics and not cluster.is_queued(name) for name in names)
    if stays and cluster.reassignments_requested:
        step.context.tasks.append(ReadReassignments())


def on_reassignments_read(step: StepContext, task: ReassignmentsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Start new reassignments, and remove finished and void entries."""
    context = step.context
    outcome = outcomes[1]
    context.cluster.reassignments_requested = isinstance(outcome, Data)
    if not isinstance(outcome, Data):
        if (error := read_error(outcome)) is not None:
            step.refuse("reassignments", f"reading {paths.reassign_partitions()}", error_words(error))
        return
    try:
        asked = znodes.decode_reassignment(outcome.data)
    except znodes.MalformedZnode as error:
        step.refuse("reassignments", f"reading {paths.reassign_partitions()}", f"{error}; it is removed, as Kafka does")
        _write(step, {}, outcome.stat.version)
        return
    if task.looked_for != outcome.stat.mzxid and (looks := _looks_for(context, asked)):
        step.do(*looks, ReadReassignments(looked_for=outcome.stat.mzxid))
        return
    removals = context.cluster.removals
    kept = {tp for tp in asked if tp.topic in removals.under_way}
    removals.reassignments_kept |= bool(kept)
    verdicts = {tp: _moot(context, tp, r, outcome.stat.mzxid) for tp, r in asked.items() if tp not in kept}
    for topic_partition, known in context.cluster.reassignments.items():
        if asked.get(topic_partition) != known.held_target:
            known.held_target = None
    if not task.trimming:
        for topic_partition, why in verdicts.items():
            if why is not None:
                step.refuse(f"partition/{topic_partition}", "reassigning it", why)
        valid = [tp for tp, why in verdicts.items() if why is None]
        new = [Target(tp, asked[tp]) for tp in valid if not _is_known(context, tp, asked[tp])]
        if new:
            step.do(StartReassignments(tuple(new)))
    left = {tp: r for tp, r in asked.items() if tp in kept or (verdicts[tp] is None and not _is_done(context, tp, r))}
    if left != asked and not kept:
        # A write makes all entries younger than the next topic of a name: those for the earlier one would move it.
        _write(step, left, outcome.stat.version)


def _looks_for(context: Context, asked: Iterable[TopicPartition]) -> list[Task]:
    """Return tasks that look for unknown partitions, whose topics' watches may not have fired yet."""
    cluster = context.cluster
    unknown = [tp for tp in asked if cluster.partition(tp) is None and tp.topic not in cluster.quarantined_topics]
    grown = tuple(dict.fromkeys(tp.topic for tp in unknown if tp.topic in cluster.topics))
    looks: list[Task] = [ReadModifiedTopics(grown)] if grown else []
    if any(tp.topic not in cluster.topics for tp in unknown):
        looks.append(ListTopics())
    return looks


def _moot(
    context: Context, topic_partition: TopicPartition, replicas: tuple[int, ...], written_zxid: int
) -> str | None:
    """Return why the reassignment is impossible, or None."""
    cluster, name = context.cluster, topic_partition.topic
    topic = cluster.topics.get(name) or cluster.quarantined_topics.get(name)
    if topic is not None and topic.created_zxid > written_zxid:
        return "it was requested before the topic was created, for an earlier topic of that name"
    if name in cluster.quarantined_topics:
        return None
    if cluster.partition(topic_partition) is None:
        return "there is no such partition"
    if cluster.is_queued(name):
        return "the topic is being deleted"
    if not replicas or any(replica < 0 for replica in replicas) or len(frozenset(replicas)) != len(replicas):
        return f"{list(replicas)} is no list of different brokers"
    return controller_among(context, replicas)


def controller_among(context: Context, replicas: Iterable[int]) -> str | None:
    """Return the sentence about a controller among these replicas, or None."""
    advertised = next((replica for replica in replicas if context.cluster.is_advertised(replica)), None)
    return None if advertised is None else f"{advertised} is a controller, which holds no replicas"


def _is_known(context: Context, topic_partition: TopicPartition, replicas: tuple[int, ...]) -> bool:
    partition = context.cluster.partition(topic_partition)
    return partition is None or partition.assignment.target == replicas


def _is_done(context: Context, topic_partition: TopicPartition, replicas: tuple[int, ...]) -> bool:
    cluster = context.cluster
    # A partition that is not in memory is one of an unreadable topic: its entry waits for the repair.
    is_loaded = cluster.partition(topic_partition) is not None
    return is_loaded and topic_partition not in cluster.reassignments and _is_known(context, topic_partition, replicas)


def _write(step: StepContext, left: dict[TopicPartition, tuple[int, ...]], version: int) -> None:
    step.write([(write_requested(left, version),)], ReassignmentsTrimmed())


def write_requested(left: dict[TopicPartition, tuple[int, ...]], version: int) -> Operation:
    """Return the write that leaves these entries in this version of the znode. Without any it is deleted."""
    path = paths.reassign_partitions()
    return SetData(path, znodes.encode_reassignment(left), version) if left else Delete(path, version)


def on_reassignments_trimmed(step: StepContext, outcome: GroupOutcome) -> None:
    """Record errors, except conflicts: after those the watch causes another read."""
    if isinstance(outcome, GroupFailed) and outcome.error not in (ZkError.BAD_VERSION, ZkError.NO_NODE):
        step.refuse("reassignments", f"shortening {paths.reassign_partitions()}", error_words(outcome.error))
