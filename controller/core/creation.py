"""Handles new topics, and topics whose znode was removed by others.

    the topic's znode                               result
    ----------------------------------------------  --------------------------------------------------------------
    has an id, or the protocol version has no ids   the topic comes into service
    has no id                                       an id is written, if the znode is unchanged; then the same
    was quarantined, or its name was reserved       the states of its partitions are read first: those that exist are
                                                    announced as they are, as at a takeover
    cannot be understood, or has an illegal name    quarantined with the reason; other topics are not affected
    was removed                                     brokers get the tombstone, and the topic is dropped from memory

Every znode is watched; `expansion` handles later changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core import debts, relisting, trash
from lethe.controller.core.cluster_state import QuarantinedZnode
from lethe.controller.core.context import Context
from lethe.controller.core.continuations import TopicIdsWritten, TopicsListed, TopicsRead
from lethe.controller.core.deletion import phase
from lethe.controller.core.deletion_memory import KEEPING, REFUSED, VANISHED
from lethe.controller.core.drawing import fresh_topic_id
from lethe.controller.core.mutation import add_topic, enter_partition_state, queue_deletion, remove_topic
from lethe.controller.core.partition_sets import PartitionColumns, ReplicaColumns, chosen
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import AnnounceTopics, CreateTopics, ListTopics, ReadStates, ReadTopics, ServeAnnounced
from lethe.controller.core.tasks_advertising import EvictReplicas
from lethe.controller.core.tasks_deletion import ListDeletions
from lethe.controller.core.tasks_partitions import BringOnline, MovePartitions, MoveReplicas
from lethe.controller.core.tasks_reassignment import ProgressReassignments, ReadReassignments, TrimReassignments
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import TopicId, topic_name_problem
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    GetChildren,
    GetData,
    Operation,
    ReadOutcome,
    SetData,
    ZkError,
    error_words,
    failure_words,
    is_absent,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome


def topics_changed(step: StepContext) -> None:
    """List the topics, now or after the removals under way."""
    if not relisting.postpone(step):
        step.do(ListTopics())


def list_topics(step: StepContext, task: ListTopics) -> None:
    """List the topics, and watch for changes."""
    step.read((GetChildren(paths.broker_topics(), watch=True),), TopicsListed(task.loading))


def on_topics_listed(step: StepContext, task: TopicsListed, outcomes: Sequence[ReadOutcome]) -> None:
    """Read new topics, and drop topics that are gone."""
    context = step.context
    cluster = context.cluster
    names = outcomes[0].names if isinstance(outcomes[0], Children) else ()
    present = frozenset(names)
    unreadable = [name for name in cluster.quarantined_topics if name not in present]
    for name in unreadable:
        _forget_unreadable(step, name)
    relisting.listed(step, present)
    under_way = cluster.removals.under_way
    cluster.removals.missing = {name: None for name in under_way if name not in present}
    gone = (name for name, topic in cluster.topics.items() if topic.was_absent or name not in present)
    vanished = [name for name in gone if name not in under_way]
    if unreadable or any(cluster.is_queued(name) or name in cluster.marks for name in vanished):
        # Their markers have no topic any more.
        step.do(ListDeletions())
    if vanished:
        forget(step, vanished)
    if vanished or unreadable:
        context.tasks.append(TrimReassignments())
    new = tuple(n for n in names if n not in cluster.topics and n not in cluster.quarantined_topics)
    if new:
        step.do(ReadTopics(new, task.loading))


def forget(step: StepContext, names: list[str]) -> None:
    """Drop topics whose znodes were removed by hand; the tombstone leaves no ghosts in metadata caches.

    While a takeover loads, no broker can be sent one yet."""
    cluster = step.context.cluster
    batch = step.batch()
    for name in names:
        _record_vanished(step, name)
        queue_deletion(cluster, name, step.now_ms)
    if cluster.channels_are_open:
        batch.add_update_metadata(cluster.brokers, cluster.all_of(names))
    step.flush(batch)
    for name in names:
        remove_topic(cluster, name)
        step.refuse(f"topic/{name}", KEEPING, "another process removed its znode")
        debts.look_again(step, name)
    trash.vanished(step, names)


def _forget_unreadable(step: StepContext, name: str) -> None:
    _record_vanished(step, name)
    step.context.cluster.marks.pop(name, None)
    step.context.cluster.quarantined_topics.pop(name, None)
    debts.look_again(step, name)


def _record_vanished(step: StepContext, name: str) -> None:
    """Record the last phase of a deletion or hold whose topic has vanished."""
    deletion, mark = step.context.cluster.deletions.get(name), step.context.cluster.marks.get(name)
    if deletion is not None:
        phase(step, name, VANISHED, since_ms=deletion.queued_at_ms)
    elif mark is not None and mark.held_by not in REFUSED:
        phase(step, name, VANISHED, since_ms=mark.since_ms)


def read_topics(step: StepContext, task: ReadTopics) -> None:
    """Read the znodes of these topics, and watch them."""
    step.read(
        (GetData(paths.topic(name), watch=True) for name in task.topics),
        TopicsRead(task.topics, task.loading),
    )


def on_topics_read(step: StepContext, task: TopicsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the topics that can be understood, and set the others aside."""
    context = step.context
    cluster = context.cluster
    taken: list[str] = []
    without_id: list[tuple[str, znodes.TopicZnode, int]] = []
    repaired: list[str] = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        if is_absent(outcome):
            if name in cluster.quarantined_topics and not task.loading:
                # Requested reassignments have waited for its repair.
                context.tasks.append(TrimReassignments())
            _forget_unreadable(step, name)
            continue
        znode = understood(name, outcome)
        cause = CauseKind.READABLE_ZNODE
        if isinstance(znode, znodes.TopicZnode) and (taken_by := cluster.trash.reserves(name)):
            znode, cause = taken_by
        if not isinstance(znode, znodes.TopicZnode) or not isinstance(outcome, Data):
            is_first_look = name not in cluster.quarantined_topics
            _quarantined(step, name, str(znode), cause, outcome.stat.czxid if isinstance(outcome, Data) else 0)
            if is_first_look and not task.loading:
                # It may be marked already: then its hold must be shown.
                step.do(ListDeletions())
            continue
        was_quarantined = cluster.quarantined_topics.pop(name, None) is not None
        version, created_zxid = outcome.stat.version, outcome.stat.czxid
        assignments = dict(znode.assignments)
        add_topic(
            cluster,
            name,
            znode.topic_id,
            assignments,
            now_ms=step.now_ms,
            version=version,
            created_zxid=created_zxid,
        )
        (repaired if was_quarantined else taken).append(name)
        if was_quarantined and not task.loading:
            debts.void_kept(step, (name,))
            debts.look_again(step, name)
        if znode.topic_id is None and context.config.ibp.creates_topic_ids:
            without_id.append((name, znode, version))
    if taken and not task.loading:
        step.do(EvictReplicas(tuple(taken)), CreateTopics(tuple(taken)))
    if repaired and not task.loading:
        # Their reassignments have waited in their znodes.
        moving = tuple(each for each in cluster.reassignments if each.topic in repaired)
        progress = ProgressReassignments(moving, announce=True)
        step.do(CreateTopics(tuple(repaired), may_have_states=True), ReadReassignments(), progress)
    if without_id:
        _write_ids(step, without_id, task.loading)


def understood(name: str, outcome: ReadOutcome) -> znodes.TopicZnode | str:
    """Return the znode's content, or the problem with it or with the topic's name."""
    problem = topic_name_problem(name)
    if problem is not None:
        return problem
    if not isinstance(outcome, Data):
        return f"reading it failed with {failure_words(outcome)}"
    try:
        return znodes.decode_topic(name, outcome.data)
    except znodes.MalformedZnode as error:
        return error.reason


def _quarantined(step: StepContext, name: str, problem: str, cause: CauseKind, created_zxid: int) -> None:
    cluster = step.context.cluster
    known = cluster.quarantined_topics.get(name)
    path = paths.topic(name)
    if known is not None and known.reason == problem:
        cluster.quarantined_topics[name] = known._replace(created_zxid=created_zxid)
    else:
        cluster.quarantined_topics[name] = QuarantinedZnode(path, problem, step.now_ms, cause, created_zxid)
        topic_id = step.id_of(name)
        step.record(EventRecordType.SET_ASIDE, f"topic/{name}", topic_id=topic_id, path=path, reason=problem)


# --- ids ----------------------------------------------------------------------------------------------------------


def _write_ids(step: StepContext, topics: list[tuple[str, znodes.TopicZnode, int]], loading: bool) -> None:
    groups: list[tuple[Operation, ...]] = []
    ids: list[TopicId] = []
    for name, znode, version in topics:
        topic_id = fresh_topic_id(step.context)
        ids.append(topic_id)
        data = znodes.encode_topic(znodes.TopicZnode(znode.assignments, topic_id))
        groups.append((SetData(paths.topic(name), data, version),))
    step.write(groups, TopicIdsWritten(tuple(name for name, _, _ in topics), tuple(ids), loading))


def on_topic_ids_written(step: StepContext, task: TopicIdsWritten, outcomes: Sequence[GroupOutcome]) -> None:
    """Store the written ids; read topics again whose znode has changed or vanished."""
    cluster = step.context.cluster
    changed = []
    for name, topic_id, outcome in zip(task.topics, task.ids, outcomes, strict=True):
        if isinstance(outcome, GroupDone):
            topic = cluster.topics[name]
            topic.id, topic.version = topic_id, topic.version + 1
        elif isinstance(outcome, GroupFailed) and outcome.error not in (ZkError.BAD_VERSION, ZkError.NO_NODE):
            # Not a concurrent write: a retry would fail in the same way.
            step.refuse(f"topic/{name}", "giving the topic an id", error_words(outcome.error))
        else:
            remove_topic(cluster, name)
            changed.append(name)
    if changed:
        step.do(ReadTopics(tuple(changed), task.loading))


# --- into service -------------------------------------------------------------------------------------------------


def create(step: StepContext, task: CreateTopics) -> None:
    """Bring these topics into service, unless they are already.

    A topic that has vanished has no partitions here. A topic whose znode changed before its id was written was read and
    created again already. Topics with states are announced; while a takeover loads, it announces them itself."""
    cluster = step.context.cluster
    known = cluster.all_of(task.topics)
    new = {name: bits for name, bits in known.items() if bits and not cluster.topics[name].states}
    if task.may_have_states and new:
        names = tuple(new)
        # Those with states are moved off controllers when they are served.
        step.do(ReadStates(names), EvictReplicas(names, loading=True, states_read=True), CreateTopics(names))
        return
    had_leaders = tuple(name for name in new if cluster.topics[name].led)
    if had_leaders and cluster.channels_are_open:
        step.do(AnnounceTopics(had_leaders), ServeAnnounced(had_leaders))
    on_new_partition_creation(step, {name: bits for name, bits in new.items() if name not in had_leaders})


def serve(step: StepContext, task: ServeAnnounced) -> None:
    """Set the first states, as at a takeover; elect leaders where there are none; move replicas off controllers."""
    cluster = step.context.cluster
    names = tuple(name for name in task.topics if name in cluster.topics)
    assigned = {name: cluster.topics[name].assigned() for name in names}
    absent = chosen(assigned, lambda _, broker, bits: 0 if broker in cluster.brokers else bits)
    offline = {name: cluster.led_offline(name) for name in names}
    for name in names:
        topic = cluster.topics[name]
        enter_partition_state(cluster, {name: topic.numbers & ~topic.led}, PartitionState.NEW)
        enter_partition_state(cluster, {name: topic.led & ~offline[name]}, PartitionState.ONLINE)
        enter_partition_state(cluster, {name: offline[name]}, PartitionState.OFFLINE)
    step.do(
        MoveReplicas(absent, ReplicaState.OFFLINE),
        BringOnline(cluster.all_of(names)),
        # Brokers may have come while it was out of service.
        EvictReplicas(names),
    )


def on_new_partition_creation(step: StepContext, partitions: PartitionColumns) -> None:
    """Bring new partitions into service: first states, leaders and announcements, in Kafka's order."""
    context = step.context
    if not partitions:
        return
    replicas = _assigned(context, partitions)
    step.record(
        EventRecordType.EVENT,
        f"controller/{context.config.controller_id}",
        what="creating partitions",
        topics=len(partitions),
        partitions=sum(bits.bit_count() for bits in partitions.values()),
        replicas=sum(bits.bit_count() for columns in replicas.values() for bits in columns.values()),
    )
    step.do(
        MovePartitions(partitions, PartitionState.NEW),
        MoveReplicas(replicas, ReplicaState.NEW),
        BringOnline(partitions),
        MoveReplicas(replicas, ReplicaState.ONLINE),
    )


def _assigned(context: Context, partitions: PartitionColumns) -> ReplicaColumns:
    """Return the replicas assigned to these partitions."""
    topics = context.cluster.topics
    assigned = {name: topics[name].assigned() for name in partitions if name in topics}
    return chosen(assigned, lambda name, _, bits: bits & partitions[name])
