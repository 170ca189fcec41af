"""Bugs in how a cluster is led: terms, writes, brokers, leaders, ISRs, configuration, reassignments.

See `planted` for what they are for.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from lethe.controller.core import (
    brokers,
    caches,
    configuration,
    controlled_shutdown,
    election,
    eviction,
    expansion,
    leader_changes,
    notifications,
    reassignment_end,
    requests,
    results,
)
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context
from lethe.controller.core.continuations import BrokersRead
from lethe.controller.core.effects import Reply
from lethe.controller.core.events import BrokerRequested
from lethe.controller.core.mutation import set_leaders, set_replica_state
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import ElectLeaders, LeadersElected, UncleanConfigsRead
from lethe.controller.core.tasks_reassignment import EndReassignments, ReassignmentsEnded, RetireReplicas
from lethe.controller.core.tasks_requests import (
    ConfigurationRead,
    ControlShutdown,
    DeleteNotifications,
    Notification,
    NotificationsRead,
)
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownResponse,
)
from lethe.protocol.vocabulary import LEADER_NONE, ControllerEpoch, LeaderAndIsr
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Data, Operation, ReadOutcome, SetData
from lethe.protocol.zookeeper.packing import GroupDone, GroupOutcome, GroupUnknown
from lethe.protocol.zookeeper.znodes import TopicZnode, encode_topic
from tests.simulation.planting import everywhere, method


def ghosts_left() -> AbstractContextManager[object]:
    """What a broker's metadata cache has from before is never looked at."""
    return everywhere(caches.schedule, lambda step, brokers: None)


def replicas_left_on_controllers() -> AbstractContextManager[object]:
    """What brokers place on a controller stays there."""
    return everywhere(eviction.evict, lambda step, task: None)


def fence_off() -> AbstractContextManager[object]:
    """A controller writes without checking that it still is one."""
    write = StepContext.write

    def unfenced(self: StepContext, groups: Sequence[tuple[Operation, ...]], then: Any, *, fenced: bool = True) -> None:
        write(self, groups, then, fenced=False)

    return method(StepContext, "write", unfenced)


def bounce_unnoticed() -> AbstractContextManager[object]:
    """A broker that is registered under a higher epoch counts as the one that was known."""
    read = brokers.on_brokers_read

    def deaf(step: StepContext, task: BrokersRead, outcomes: Sequence[ReadOutcome]) -> None:
        known = step.context.cluster.brokers
        seen = [
            o._replace(stat=o.stat._replace(czxid=known[b].epoch)) if isinstance(o, Data) and b in known else o
            for b, o in zip(task.ids, outcomes, strict=True)
        ]
        read(step, task, seen)

    return everywhere(read, deaf)


def unknown_taken_for_done() -> AbstractContextManager[object]:
    """A write whose reply was lost counts as one that was done."""
    written = results._written

    def hopeful(step: StepContext, then: Any, outcomes: Sequence[GroupOutcome]) -> None:
        written(step, then, tuple(GroupDone(()) if isinstance(o, GroupUnknown) else o for o in outcomes))

    return everywhere(written, hopeful)


def last_in_sync_dropped() -> AbstractContextManager[object]:
    """The last replica in sync leaves the ISR like any other."""

    def shrunk(current: LeaderAndIsr, gone: tuple[int, ...], epoch: ControllerEpoch) -> LeaderAndIsr | None:
        isr = tuple(broker for broker in current.isr if broker not in gone)
        leader = LEADER_NONE if current.leader in gone else current.leader
        if (leader, isr) == (current.leader, current.isr):
            return None
        return current._replace(leader=leader, leader_epoch=current.leader_epoch + 1, isr=isr, controller_epoch=epoch)

    return everywhere(election.shrunk, shrunk)


def always_unclean() -> AbstractContextManager[object]:
    """A replica that lacks records may lead, whatever the configuration says."""

    def allowed(step: StepContext, task: UncleanConfigsRead, outcomes: Sequence[ReadOutcome]) -> None:
        step.do(ElectLeaders(task.partitions, task.topics))

    return everywhere(leader_changes.on_unclean_configs_read, allowed)


def znode_written_over() -> AbstractContextManager[object]:
    """A topic's znode is written whatever somebody has written there meanwhile."""

    def over(context: Context, name: str, znode: TopicZnode) -> Operation:
        return SetData(paths.topic(name), encode_topic(znode), ANY_VERSION)

    return everywhere(expansion.set_topic, over)


def memory_before_outcome() -> AbstractContextManager[object]:
    """Leaders count as elected before the write that says so has succeeded."""
    write = StepContext.write

    def hasty(self: StepContext, groups: Sequence[tuple[Operation, ...]], then: Any, *, fenced: bool = True) -> None:
        if isinstance(then, LeadersElected):
            for name, states in then.states.items():
                set_leaders(self.context.cluster, name, states)
        write(self, groups, then, fenced=fenced)

    return method(StepContext, "write", hasty)


def verdict_after_term() -> AbstractContextManager[object]:
    """Who is no controller any more judges the ISRs that it is asked for: all it knows is that they are not its own."""
    received = requests.received

    def judge(step: StepContext, event: BrokerRequested) -> None:
        if step.context.is_leading or not isinstance(event.request, AlterPartitionRequest):
            received(step, event)
            return
        topics = tuple(
            AlteredTopic(
                topic.topic,
                topic.topic_id,
                tuple(AlteredPartition(row.partition, ErrorCode.FENCED_LEADER_EPOCH) for row in topic.partitions),
            )
            for topic in event.request.topics
        )
        step.emit(Reply(event.key, AlterPartitionResponse(ErrorCode.NONE, topics)))

    return everywhere(received, judge)


def done_after_term() -> AbstractContextManager[object]:
    """ISRs that were to be written when the term ended are confirmed as if they had been."""
    refuse_all = requests.refuse_all

    def confirm(step: StepContext) -> None:
        for key, asked in list(step.context.cluster.unanswered.items()):
            if isinstance(asked.request, AlterPartitionRequest):
                step.reply(key, AlterPartitionResponse(ErrorCode.NONE, _confirmed(asked.request)))
        refuse_all(step)

    return everywhere(refuse_all, confirm)


def _confirmed(request: AlterPartitionRequest) -> tuple[AlteredTopic, ...]:
    return tuple(
        AlteredTopic(
            topic.topic,
            topic.topic_id,
            tuple(
                AlteredPartition(
                    row.partition,
                    ErrorCode.NONE,
                    request.broker_id,
                    row.leader_epoch,
                    row.new_isr,
                    row.recovery_state,
                    row.partition_epoch + 1,
                )
                for row in topic.partitions
            ),
        )
        for topic in request.topics
    )


def let_go_at_once() -> AbstractContextManager[object]:
    """A broker that asks to shut down may go before its partitions have another leader."""

    def begin(step: StepContext, task: ControlShutdown) -> None:
        step.reply(task.key, ControlledShutdownResponse(ErrorCode.NONE))

    return everywhere(controlled_shutdown.begin, begin)


def given_to_who_leaves() -> AbstractContextManager[object]:
    """A broker that is shutting down may lead while it is registered."""
    return method(ClusterState, "is_live", lambda self, broker: broker in self.brokers)


def notification_deleted_unread() -> AbstractContextManager[object]:
    """What leaders say of their ISRs is deleted, and the states are not read."""
    were_read = notifications.on_notifications_read

    def unread(step: StepContext, task: NotificationsRead, outcomes: Sequence[ReadOutcome]) -> None:
        if task.kind is Notification.ISR_CHANGE:
            step.do(DeleteNotifications(task.paths))
        else:
            were_read(step, task, outcomes)

    return everywhere(were_read, unread)


def configuration_not_followed() -> AbstractContextManager[object]:
    """The configuration is read at the takeover and never again."""
    return everywhere(configuration.changed, lambda step, changes: None)


def unreadable_taken_for_unset() -> AbstractContextManager[object]:
    """A controller that takes over and cannot read whether topics may be deleted uses its own file."""
    was_read = configuration.on_configuration_read

    def careless(step: StepContext, task: ConfigurationRead, outcomes: Sequence[ReadOutcome]) -> None:
        was_read(step, task, outcomes)
        step.context.cluster.dynamic = step.context.cluster.dynamic._replace(deletion_unknown=None)

    return everywhere(was_read, careless)


def move_ended_unmarked() -> AbstractContextManager[object]:
    """A deletion ends the reassignment of its topic without looking whether the marker is still there."""
    with_all = reassignment_end._with_all_replicas

    def cancel(step: StepContext, task: EndReassignments) -> None:
        context = step.context
        names = [name for name in task.topics if name in context.cluster.topics and not context.cluster.is_queued(name)]
        if names:
            groups = [(with_all(context, name),) for name in names]
            step.write(groups, ReassignmentsEnded(tuple(names), task.loading))

    return everywhere(reassignment_end.cancel, cancel)


def removed_replicas_forgotten() -> AbstractContextManager[object]:
    """A broker gets no request for a replica that a reassignment removes."""

    def forget(step: StepContext, task: RetireReplicas) -> None:
        for replica in task.replicas:
            set_replica_state(step.context.cluster, replica, ReplicaState.NON_EXISTENT)

    return everywhere(reassignment_end.retire, forget)
