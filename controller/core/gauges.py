"""The numbers that Kafka's controller shows as gauges, read off the context. All 0 while not active."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.context import Context
from controller.core.transitions import ReplicaState


@dataclass(frozen=True, slots=True)
class Gauges:
    """Names are Kafka's, in snake case; the last three are ours."""

    active_controller_count: int = 0
    offline_partitions_count: int = 0
    preferred_replica_imbalance_count: int = 0
    global_topic_count: int = 0
    global_partition_count: int = 0
    topics_to_delete_count: int = 0
    replicas_to_delete_count: int = 0
    topics_ineligible_to_delete_count: int = 0
    replicas_ineligible_to_delete_count: int = 0
    active_broker_count: int = 0
    fenced_broker_count: int = 0
    set_aside_topic_count: int = 0
    held_topic_count: int = 0
    deletions_paused: int = 0


def gauges(context: Context) -> Gauges:
    """The gauges as of the last event. Costs a look at every queued topic, not at every partition."""
    if not context.is_leading:
        return Gauges()
    deletions = context.deletions.values()
    return Gauges(
        active_controller_count=1,
        offline_partitions_count=context.offline_partitions,
        preferred_replica_imbalance_count=context.preferred_imbalance,
        global_topic_count=len(context.topics),
        global_partition_count=context.partitions_with_leadership,
        topics_to_delete_count=len(deletions),
        replicas_to_delete_count=sum(
            count
            for deletion in deletions
            for state, count in deletion.by_state.items()
            if state is not ReplicaState.DELETION_SUCCESSFUL
        ),
        topics_ineligible_to_delete_count=sum(deletion.ineligible for deletion in deletions),
        replicas_ineligible_to_delete_count=sum(
            deletion.by_state.get(ReplicaState.DELETION_INELIGIBLE, 0) for deletion in deletions
        ),
        active_broker_count=len(context.brokers),
        set_aside_topic_count=len(context.set_aside_topics),
        held_topic_count=len(context.marks),
        deletions_paused=int(context.paused is not None),
    )
