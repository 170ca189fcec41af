"""Takes the cluster over after an election, in Kafka's order.

1. Delete the notifications from before the election; read brokers, topics, states and deletion markers.
2. Send every broker the live brokers and the new epoch: a follower needs the addresses before it can follow.
3. Announce every replica to its broker, except those of topics queued for deletion.
4. Elect leaders for partitions without one.
5. Continue reassignments and deletions, then elect the preferred leaders that were requested.

External events wait in the queue until the last read or write has its result.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core import brokers, caches, preferred
from lethe.controller.core.context import Role
from lethe.controller.core.continuations import NotificationsListed, ReplicasAnnounced, StatesRead
from lethe.controller.core.election import without_foreign_isr_members
from lethe.controller.core.mutation import enter_partition_state, set_first_replica_states, set_leader_and_isr
from lethe.controller.core.partition_sets import Bits
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import BecomeActive, StartPartitions
from lethe.controller.core.tasks_advertising import EvictReplicas, Register
from lethe.controller.core.tasks_deletion import ResumeDeletions
from lethe.controller.core.tasks_partitions import BringOnline, MoveReplicas
from lethe.controller.core.tasks_reassignment import ProgressReassignments, ReadReassignments
from lethe.controller.core.tasks_requests import NotificationsDeleted, ReadPreferredElections, RemoveForeignIsrMembers
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    ReadOutcome,
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


def read_states(step: StepContext) -> None:
    """Read the states of all partitions without leadership in memory, in one read."""
    partitions = tuple(
        tp for tp, partition in step.context.cluster.all_partitions() if partition.leader_and_isr is None
    )
    if partitions:
        step.read((GetData(paths.partition_state(*tp)) for tp in partitions), StatesRead(partitions))


def on_states_read(step: StepContext, task: StatesRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the states. One that is missing or cannot be understood means no leadership, as in Kafka."""
    # Many thousands of states have few distinct contents: each is parsed once, and equal states share one object.
    known: dict[tuple[bytes | None, int], LeaderAndIsr | None] = {}
    for topic_partition, outcome in zip(task.partitions, outcomes, strict=True):
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
                    set_leader_and_isr(step.context.cluster, topic_partition, state)
        elif (error := read_error(outcome)) is not None:
            problem = f"reading it failed with {error.name}"
        if problem is not None:
            step.refuse(f"partition/{topic_partition}", "reading its state", problem)


# --- acting -------------------------------------------------------------------------------------------------------


def take_over(step: StepContext) -> None:
    """Open the channels, announce the live brokers and all replicas, and set the first replica states."""
    cluster = step.context.cluster
    for broker in cluster.brokers.values():
        brokers.open_channel(step, broker)
    brokers.show(step)
    batch = step.batch()
    batch.add_update_metadata(cluster.brokers)
    step.flush(batch)
    batch = step.batch()
    offline: dict[str, dict[BrokerId, Bits]] = {}
    for name, topic in cluster.topics.items():
        set_first_replica_states(cluster, name)
        if not cluster.is_queued(name):
            batch.add_leader_and_isrs(name, topic.led, topic.assigned(), is_new=False)
        elif cluster.paused is not None:
            # Not announced: brokers would create again what they have already deleted. While deletions are paused, only
            # this UpdateMetadata makes brokers stop serving clients for the partition.
            batch.add_update_metadata(cluster.brokers, {name: topic.numbers})
        if absent := {broker: bits for broker, bits in topic.assigned().items() if broker not in cluster.brokers}:
            offline[name] = absent
    step.flush(batch)
    step.do(MoveReplicas(offline, ReplicaState.OFFLINE), StartPartitions())


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
    step.do(
        BringOnline(),
        RemoveForeignIsrMembers(tuple(with_foreign_isr_members)),
        ReadReassignments(),
        ProgressReassignments(announce=True),
        ResumeDeletions(tuple(cluster.deletions)),
        ReadPreferredElections(),
        EvictReplicas(),
        Register(),
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
