"""Topics whose znode cannot be understood, and that a person wants gone all the same.

Theory of operation. A topic that is set aside has no partitions and no replicas that we know of, so a marker alone
cannot delete it: it is held. Only a marker whose data says so (`znodes.decode_deletion_marker`) is the order to delete
the topic with what there is. Then its partitions are the children of `/brokers/topics/T/partitions`, and the replicas
of each are the ISR of its state, as far as that can be read, followed by every registered broker: whoever holds a
replica without our knowing is asked as well, and a broker that never had one says NONE. The topic gets no id, since
nobody can say which incarnation it is; brokers are told so, and delete what lies under its name.

From then on it is a topic that is queued like any other: announced, stopped, deleted, its tree searched and removed. A
broker that is neither registered at that moment nor in an ISR may keep its bytes. That is recorded, and the survey
finds them.

What makes sense again by the time it is looked at is taken in normally, and deleted as what it is. A znode that is
repaired later than that is left as it is, for the next controller; this one ends what it has begun. A topic whose very
name Kafka refuses is announced to nobody: no broker can hold it, and its name is fit for no directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lethe.controller.core.agenda import ReadTopics
from lethe.controller.core.agenda_deletion import (
    ListDeletions,
    MarkersRead,
    QueueDeletions,
    ReadMarkers,
    ReadUnreadable,
    UnreadableRead,
    UnreadableStatesRead,
    UnreadableTopic,
)
from lethe.controller.core.context import Context
from lethe.controller.core.creation import understood
from lethe.controller.core.mutation import add_topic, set_first_replica_states, set_partition_state
from lethe.controller.core.transitions import PartitionState
from lethe.controller.core.turn import Turn
from lethe.protocol.journal import FactType
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition, topic_name_problem
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    GetChildren,
    GetData,
    ReadFailed,
    ReadOutcome,
    ZkError,
    is_absent,
)


def read_markers(turn: Turn, task: ReadMarkers) -> None:
    """Read what the markers of these topics say, and be told when that changes."""
    turn.read((GetData(paths.delete_topic(name), watch=True) for name in task.topics), MarkersRead(task.topics))


def markers_read(turn: Turn, task: MarkersRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Look at what there is of those that are to go although they are unreadable."""
    ordered = tuple(
        name
        for name, outcome in zip(task.topics, outcomes, strict=True)
        if isinstance(outcome, Data) and znodes.decode_deletion_marker(outcome.data)
    )
    wanted = tuple(name for name in ordered if _may_be_built(turn.context, name))
    if wanted:
        turn.do(ReadUnreadable(wanted))


def _may_be_built(context: Context, name: str) -> bool:
    return name in context.cluster.set_aside_topics and context.cluster.paused is None and context.delete_topic_enable


def read(turn: Turn, task: ReadUnreadable) -> None:
    """Read the topics' znodes once more, and which partitions they have."""
    turn.read(
        (
            read
            for name in task.topics
            for read in (GetData(paths.topic(name), watch=True), GetChildren(paths.topic_partitions(name)))
        ),
        UnreadableRead(task.topics),
    )


def found(turn: Turn, task: UnreadableRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Take in what makes sense by now; read the states of what does not."""
    repaired: list[str] = []
    topics: list[UnreadableTopic] = []
    for number, name in enumerate(task.topics):
        topic, children = outcomes[2 * number], outcomes[2 * number + 1]
        if is_absent(topic):
            continue
        if not isinstance(understood(name, topic), str):
            repaired.append(name)
        elif isinstance(children, ReadFailed) and children.error is not ZkError.NO_NODE:
            _give_up(turn, name, f"{children.error.name} at {paths.topic_partitions(name)}")
        else:
            stat = topic.stat if isinstance(topic, Data) else None
            numbers = () if topic_name_problem(name) is not None else _numbers(name, children)
            topics.append(UnreadableTopic(name, numbers, stat.version if stat else 0, stat.czxid if stat else 0))
    if repaired:
        turn.do(ReadTopics(tuple(repaired)), ListDeletions())
    if not topics:
        return
    turn.do(QueueDeletions(tuple(topic.name for topic in topics)))
    then = UnreadableStatesRead(tuple(topics))
    states = [GetData(paths.partition_state(topic.name, n)) for topic in topics for n in topic.partitions]
    if states:
        turn.read(states, then)
    else:
        states_read(turn, then, ())


def _numbers(name: str, children: ReadOutcome) -> tuple[int, ...]:
    if not isinstance(children, Children):
        return ()
    spelled = (paths.partition_of(f"{paths.topic_partitions(name)}/{child}") for child in children.names)
    return tuple(sorted(partition.partition for partition in spelled if partition is not None))


def _give_up(turn: Turn, name: str, what: str) -> None:
    """The topic stays held; its marker, or its znode, has to be written again before it is looked at again."""
    turn.refuse(f"topic/{name}", "deleting the unreadable topic", what)
    mark = turn.context.cluster.marks.get(name)
    if mark is not None:
        turn.context.cluster.marks[name] = mark._replace(last_error=what)


def states_read(turn: Turn, task: UnreadableStatesRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Build the topics from what is known; `QueueDeletions` is next."""
    context = turn.context
    cluster = context.cluster
    states = iter(outcomes)
    for topic in task.topics:
        reason = cluster.set_aside_topics.pop(topic.name).reason
        assignments = {n: _assignment(context, TopicPartition(topic.name, n), next(states)) for n in topic.partitions}
        add_topic(
            cluster,
            topic.name,
            None,
            assignments,
            now_ms=turn.now_ms,
            version=topic.version,
            created_zxid=topic.created_zxid,
            is_made_up=True,
        )
        for topic_partition, partition in cluster.partitions_of(topic.name):
            present = [broker for broker in partition.assignment.replicas if broker in cluster.brokers]
            set_first_replica_states(cluster, topic_partition, partition, present)
            set_partition_state(cluster, topic_partition, PartitionState.NEW)
        turn.record(
            FactType.SET_ASIDE,
            f"topic/{topic.name}",
            topic_id=turn.id_of(topic.name),
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
