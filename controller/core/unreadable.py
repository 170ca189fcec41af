"""Deletes topics whose znode cannot be understood, on explicit order.

Such a topic is quarantined: its partitions and replicas are unknown. A plain marker holds it. Only a marker with the
order in its data (`znodes.decode_deletion_marker`) deletes it. The topic is then derived:

    part            derived from
    --------------  ---------------------------------------------------------------------------------------------
    partitions      the children of `/brokers/topics/T/partitions`
    replicas        the ISR of the partition's state, if readable, then every registered broker
    topic id        none: the incarnation is unknown, and brokers delete the replicas by name

A broker that never had a replica answers NONE. From then on the topic is queued like any other: announced, stopped,
deleted, its tree searched and removed. A broker that is neither registered then nor in an ISR may keep its bytes. This
is recorded, and the survey finds them. While a topic in the trash has the name, or may have it, nothing is deleted:
brokers would delete that one's replicas too.

A znode that has become readable when it is read again is loaded normally. A later repair is not used: this controller
finishes the deletion. A topic with a name that Kafka refuses is not announced: no broker can host it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lethe.controller.core.context import Context
from lethe.controller.core.creation import understood
from lethe.controller.core.deletion_memory import NO_ORDERS, OTHER_INCARNATION
from lethe.controller.core.mutation import add_topic, enter_partition_state, set_first_replica_states
from lethe.controller.core.orders import names_another, said
from lethe.controller.core.protection import protecting_pattern
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ReadTopics
from lethe.controller.core.tasks_deletion import (
    ListDeletions,
    MarkersRead,
    QueueDeletions,
    ReadMarkers,
    ReadUnreadable,
    UnreadableRead,
    UnreadableStatesRead,
    UnreadableTopic,
)
from lethe.controller.core.transitions import PartitionState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import MAX_PARTITIONS, ReplicaAssignment, TopicPartition, topic_name_problem
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    GetChildren,
    GetData,
    ReadOutcome,
    error_words,
    is_absent,
    read_error,
)

RESERVED: Final = "its name is reserved by a topic in the trash, and brokers would delete that one's replicas too"


def read_markers(step: StepContext, task: ReadMarkers) -> None:
    """Read the data of these topics' markers, and watch it."""
    step.read((GetData(paths.delete_topic(name), watch=True) for name in task.topics), MarkersRead(task.topics))


def on_markers_read(step: StepContext, task: MarkersRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Read the remains of the topics whose markers order the deletion."""
    ordered = {
        name: said(outcome)
        for name, outcome in zip(task.topics, outcomes, strict=True)
        if isinstance(outcome, Data) and znodes.decode_deletion_marker(outcome.data).unreadable
    }
    step.context.cluster.marker_orders |= ordered
    wanted = tuple(name for name in ordered if _may_be_built(step.context, name))
    for name in ordered:
        if step.context.cluster.trash.may_keep(name):
            _give_up(step, name, RESERVED)
    if wanted:
        step.do(ReadUnreadable(wanted))


def _may_be_built(context: Context, name: str) -> bool:
    return (
        name in context.cluster.quarantined_topics
        and not context.cluster.trash.may_keep(name)
        and context.cluster.paused is None
        and context.delete_topic_enable
        and protecting_pattern(context, name) is None
    )


def read(step: StepContext, task: ReadUnreadable) -> None:
    """Read the topics' znodes again, and list their partitions."""
    step.read(
        (
            read
            for name in task.topics
            for read in (GetData(paths.topic(name), watch=True), GetChildren(paths.topic_partitions(name)))
        ),
        UnreadableRead(task.topics),
    )


def on_unreadable_read(step: StepContext, task: UnreadableRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Load topics that are readable now; read the partition states of the others."""
    repaired: list[str] = []
    topics: list[UnreadableTopic] = []
    for number, name in enumerate(task.topics):
        topic, children = outcomes[2 * number], outcomes[2 * number + 1]
        if is_absent(topic):
            continue
        if not isinstance(understood(name, topic), str):
            repaired.append(name)
        elif (error := read_error(children)) is not None:
            _give_up(step, name, f"{paths.topic_partitions(name)}: {error_words(error)}")
        else:
            stat = topic.stat if isinstance(topic, Data) else None
            if names_another(step.context.cluster.marker_orders.get(name, NO_ORDERS), stat.czxid if stat else 0):
                # Also where its czxid cannot be read.
                _give_up(step, name, OTHER_INCARNATION)
                continue
            numbers = () if topic_name_problem(name) is not None else _numbers(name, children)
            topics.append(UnreadableTopic(name, numbers, stat.version if stat else 0, stat.czxid if stat else 0))
    if repaired:
        step.do(ReadTopics(tuple(repaired)), ListDeletions())
    if not topics:
        return
    step.do(QueueDeletions(tuple(topic.name for topic in topics)))
    then = UnreadableStatesRead(tuple(topics))
    states = [GetData(paths.partition_state(topic.name, n)) for topic in topics for n in topic.partitions]
    if states:
        step.read(states, then)
    else:
        on_unreadable_states_read(step, then, ())


def _numbers(name: str, children: ReadOutcome) -> tuple[int, ...]:
    if not isinstance(children, Children):
        return ()
    spelled = (paths.partition_of(f"{paths.topic_partitions(name)}/{child}") for child in children.names)
    numbers = (partition.partition for partition in spelled if partition is not None)
    return tuple(sorted(number for number in numbers if number < MAX_PARTITIONS))


def _give_up(step: StepContext, name: str, what: str) -> None:
    """Record the problem. The topic stays held until its marker or its znode is written again."""
    step.refuse(f"topic/{name}", "deleting the unreadable topic", what)
    mark = step.context.cluster.marks.get(name)
    if mark is not None:
        step.context.cluster.marks[name] = mark._replace(last_error=what)


def on_unreadable_states_read(step: StepContext, task: UnreadableStatesRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Derive the topics and add them to memory; `QueueDeletions` is next."""
    context = step.context
    cluster = context.cluster
    states = iter(outcomes)
    for topic in task.topics:
        reason = cluster.quarantined_topics.pop(topic.name).reason
        assignments = {n: _assignment(context, TopicPartition(topic.name, n), next(states)) for n in topic.partitions}
        add_topic(
            cluster,
            topic.name,
            None,
            assignments,
            now_ms=step.now_ms,
            version=topic.version,
            created_zxid=topic.created_zxid,
            is_made_up=True,
        )
        set_first_replica_states(cluster, topic.name)
        enter_partition_state(cluster, cluster.all_of((topic.name,)), PartitionState.NEW)
        step.record(
            EventRecordType.SET_ASIDE,
            f"topic/{topic.name}",
            topic_id=step.id_of(topic.name),
            path=paths.topic(topic.name),
            reason=f"deleted although {reason}; brokers that are not registered now and in no ISR may keep bytes of it",
        )


def _assignment(context: Context, topic_partition: TopicPartition, outcome: ReadOutcome) -> ReplicaAssignment:
    return ReplicaAssignment(tuple(dict.fromkeys((*_in_sync(topic_partition, outcome), *context.cluster.brokers))))


def _in_sync(topic_partition: TopicPartition, outcome: ReadOutcome) -> Iterator[int]:
    if isinstance(outcome, Data):
        try:
            state = znodes.decode_state(*topic_partition, outcome.data, outcome.stat.version)
        except znodes.MalformedZnode:
            return
        yield from () if state is None else state.isr
