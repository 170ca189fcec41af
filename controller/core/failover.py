"""Takes the cluster over after an election, in Kafka's order.

1. Delete the notifications from before the election; read brokers, topics and deletion markers.
2. Send every broker the live brokers and the new epoch: a follower needs the addresses before it can follow.
3. Read the states and announce every replica to its broker, except those of topics queued for deletion. Unlike in Kafka
   this is done in slices: brokers work on one while the next is read.
4. Elect leaders for partitions without one.
5. Continue reassignments and deletions, then elect the preferred leaders that were requested.

External events wait in the queue until the last read or write has its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lethe.controller.core import brokers, caches, debts, preferred
from lethe.controller.core.context import Context, Role
from lethe.controller.core.continuations import NotificationsListed, ReplicasAnnounced, StatesRead
from lethe.controller.core.election import without_foreign_isr_members
from lethe.controller.core.mutation import enter_partition_state, set_first_replica_states, set_leaders
from lethe.controller.core.partition_sets import PartitionColumns, chosen, partitions_in
from lethe.controller.core.slices import slices
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import AnnounceTopics, BecomeActive, ReadStates, StartPartitions, StartReplicas
from lethe.controller.core.tasks_advertising import EvictReplicas, Register
from lethe.controller.core.tasks_debts import PayDebts, ReadForgets
from lethe.controller.core.tasks_deletion import ResumeDeletions
from lethe.controller.core.tasks_partitions import BringOnline, MoveReplicas
from lethe.controller.core.tasks_reassignment import ProgressReassignments, ReadReassignments
from lethe.controller.core.tasks_requests import NotificationsDeleted, ReadPreferredElections, RemoveForeignIsrMembers
from lethe.controller.core.tasks_trash import ReadTopicRequests, ResumeTrash
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    ReadOutcome,
    error_words,
    read_error,
)

_NOTIFICATIONS = (paths.log_dir_event_notifications(), paths.isr_change_notifications())


# --- reading ------------------------------------------------------------------------------------------------------


def list_notifications(step: StepContext) -> None:
    """List the notifications from before the election, and watch for new ones."""
    step.read((GetChildren(path, watch=True) for path in _NOTIFICATIONS), NotificationsListed())


def on_notifications_listed(step: StepContext, outcomes: Sequence[ReadOutcome]) -> None:
    """Delete these notifications unread."""
    groups = [
        (Delete(f"{parent}/{name}"),)
        for parent, outcome in zip(_NOTIFICATIONS, outcomes, strict=True)
        if isinstance(outcome, Children)
        for name in outcome.names
    ]
    if groups:
        step.write(groups, NotificationsDeleted())


def read_states(step: StepContext, task: ReadStates) -> None:
    """Read the states of these topics' partitions without leadership in memory, in one read."""
    if partitions := _without_leadership(step.context, task.topics):
        step.read(_state_reads(partitions), StatesRead(partitions))


def _without_leadership(context: Context, topics: Iterable[str]) -> PartitionColumns:
    known = ((name, context.cluster.topics[name]) for name in topics)
    return {name: bits for name, topic in known if (bits := topic.numbers & ~topic.led)}


def _state_reads(partitions: PartitionColumns) -> Iterator[GetData]:
    return (GetData(paths.partition_state(*topic_partition)) for topic_partition in partitions_in(partitions))


def on_states_read(step: StepContext, task: StatesRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the states, and announce the topics. One that is missing or cannot be understood means no leadership, as in
    Kafka."""
    # Many thousands of states have few distinct contents: each is parsed once, and equal states share one object.
    known: dict[tuple[bytes | None, int], LeaderAndIsr | None] = {}
    found: dict[str, dict[int, LeaderAndIsr]] = {}
    for topic_partition, outcome in zip(partitions_in(task.partitions), outcomes, strict=True):
        problem = None
        if isinstance(outcome, Data):
            content = (outcome.data, outcome.stat.version)
            try:
                state = known[content] if content in known else znodes.decode_state(*topic_partition, *content)
            except znodes.MalformedZnode as malformed:
                problem = str(malformed)
            else:
                known[content] = state
                if state is not None:
                    found.setdefault(topic_partition.topic, {})[topic_partition.partition] = state
        elif (error := read_error(outcome)) is not None:
            problem = f"reading it failed with {error_words(error)}"
        if problem is not None:
            step.refuse(f"partition/{topic_partition}", "reading its state", problem)
    for name, states in found.items():
        set_leaders(step.context.cluster, name, states)
    _announce(step, task.announced)


# --- acting -------------------------------------------------------------------------------------------------------


def take_over(step: StepContext) -> None:
    """Open the channels and announce the live brokers; the topics follow in slices."""
    context, cluster = step.context, step.context.cluster
    for broker in cluster.brokers.values():
        brokers.open_channel(step, broker)
    cluster.channels_are_open = True
    brokers.show(step)
    batch = step.batch()
    batch.add_update_metadata(cluster.brokers)
    step.flush(batch)
    debts.pay(step, PayDebts(tuple(cluster.brokers)))
    sizes = ((name, len(topic.partitions)) for name, topic in cluster.topics.items())
    step.do(*(AnnounceTopics(names) for names in slices(context, sizes)), StartReplicas(), StartPartitions())


def announce_topics(step: StepContext, task: AnnounceTopics) -> None:
    """Read the states of these topics first."""
    if partitions := _without_leadership(step.context, task.topics):
        step.read(_state_reads(partitions), StatesRead(partitions, task.topics))
    else:
        _announce(step, task.topics)


def _announce(step: StepContext, topics: Iterable[str]) -> None:
    """Set the first states of the topics' replicas, and announce these to their brokers."""
    cluster = step.context.cluster
    batch = step.batch()
    for name in topics:
        topic = cluster.topics[name]
        set_first_replica_states(cluster, name)
        if not cluster.is_queued(name):
            batch.add_leader_and_isrs(name, topic.led, topic.assigned(), is_new=False)
        elif cluster.paused is not None:
            # Not announced: brokers would create again what they have already deleted. While deletions are paused, only
            # this UpdateMetadata makes brokers stop serving clients for the partition.
            batch.add_update_metadata(cluster.brokers, {name: topic.numbers})
    step.flush(batch)


def start_replicas(step: StepContext) -> None:
    """Take the replicas on brokers that are not registered offline."""
    cluster = step.context.cluster
    assigned = {name: topic.assigned() for name, topic in cluster.topics.items()}
    absent = chosen(assigned, lambda _, broker, bits: 0 if broker in cluster.brokers else bits)
    step.do(MoveReplicas(absent, ReplicaState.OFFLINE))


def start_partitions(step: StepContext) -> None:
    """End the step, so that its requests leave and brokers work on them while this controller computes the rest."""
    step.read((Exists(paths.controller_epoch()),), ReplicasAnnounced())


def on_replicas_announced(step: StepContext) -> None:
    """Set the first partition states; queue the tasks for leaders, reassignments and deletions."""
    cluster = step.context.cluster
    with_foreign_isr_members: list[TopicPartition] = []
    for name, topic in cluster.topics.items():
        offline = cluster.led_offline(name)
        enter_partition_state(cluster, {name: topic.numbers & ~topic.led}, PartitionState.NEW)
        enter_partition_state(cluster, {name: topic.led & ~offline}, PartitionState.ONLINE)
        enter_partition_state(cluster, {name: offline}, PartitionState.OFFLINE)
        for number, partition, known in topic.leaders(topic.led):
            if without_foreign_isr_members(partition.assignment, known) is not known:
                with_foreign_isr_members.append(TopicPartition(name, number))
    debts.void_kept(step)
    step.do(
        BringOnline(),
        RemoveForeignIsrMembers(tuple(with_foreign_isr_members)),
        ReadReassignments(),
        ProgressReassignments(announce=True),
        ResumeDeletions(tuple(cluster.deletions)),
        ReadPreferredElections(),
        EvictReplicas(),
        Register(),
        ResumeTrash(),
        ReadTopicRequests(),
        ReadForgets(),
        BecomeActive(),
    )


def become_active(step: StepContext) -> None:
    """Finish the takeover: its requests are in the brokers' channels."""
    context = step.context
    cluster = context.cluster
    context.role = Role.ACTIVE
    preferred.schedule_first_rebalance(step)
    caches.schedule(step, tuple(cluster.brokers))
    step.record(
        EventRecordType.ELECTION,
        f"controller/{context.config.controller_id}",
        what="active",
        epoch=cluster.epoch,
        brokers=len(cluster.brokers),
        topics=len(cluster.topics),
        partitions=sum(len(topic.partitions) for topic in cluster.topics.values()),
        deletions=len(cluster.deletions),
        loading_ms=step.now_ms - cluster.elected_at_ms,
    )
