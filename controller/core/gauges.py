"""Values of the controller's gauges, from the context. All are 0 while it does not lead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.controller.core import caches
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import NOT_WAITED_FOR, DeletionStage
from lethe.controller.core.transitions import ReplicaState
from lethe.controller.core.trash_view import TrashSummary, summary
from lethe.protocol.vocabulary import BrokerId


class OwedTombstones(NamedTuple):
    """Tombstones that one broker owes."""

    topics: int
    since_ms: int
    """When the oldest debt began."""


class OpenDebts(NamedTuple):
    """What one broker owes of deleted topics."""

    debts: int
    size_bytes: int | None
    """As far as it is known; None: of no debt."""
    since_ms: int
    """When the oldest debt began."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """Names are Kafka's, in snake case; those from `quarantined_topic_count` on are Lethe's."""

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
    quarantined_topic_count: int = 0
    quarantined_broker_count: int = 0
    held_topic_count: int = 0
    deletions_paused: int = 0
    paced_topic_count: int = 0
    ghost_count: int = 0
    unseen_cache_count: int = 0
    topics_in_stage: Mapping[DeletionStage, int] = field(default_factory=dict)
    """Queued topics by stage; zeros may be missing."""
    doomed_replicas: Mapping[ReplicaState, int] = field(default_factory=dict)
    """Replicas of queued topics by state; zeros may be missing."""
    owed_tombstones: Mapping[BrokerId, OwedTombstones] = field(default_factory=dict)
    """Owed tombstones of registered brokers, without brokers that owe none."""
    debts: Mapping[BrokerId, OpenDebts] = field(default_factory=dict)
    """Debts of brokers, absent or not, without brokers of which no debt is known."""
    unreadable_debts: int = 0
    """Znodes of debts, or lists of them, that cannot be read or understood."""
    trash: TrashSummary = field(default_factory=TrashSummary)
    unreadable_trash: int = 0
    """Entries of the trash that cannot be read or understood."""
    trash_unseen: int = 0
    """1: it is unknown which topics are in the trash."""


def gauges(context: Context) -> Gauges:
    """Return the gauges as of the last event, at constant cost for any number of topics.

    Debts and trash are counted."""
    cluster = context.cluster
    if not context.is_leading:
        return Gauges()
    replicas = cluster.doomed_replicas
    return Gauges(
        active_controller_count=1,
        offline_partitions_count=cluster.offline_partitions,
        preferred_replica_imbalance_count=cluster.preferred_imbalance,
        global_topic_count=len(cluster.topics),
        global_partition_count=cluster.partitions_with_leader_and_isr,
        topics_to_delete_count=len(cluster.deletions),
        replicas_to_delete_count=sum(count for state, count in replicas.items() if state not in NOT_WAITED_FOR),
        topics_ineligible_to_delete_count=cluster.topics_in_stage.get(DeletionStage.WAITING, 0),
        replicas_ineligible_to_delete_count=replicas.get(ReplicaState.DELETION_INELIGIBLE, 0),
        active_broker_count=len(cluster.brokers),
        quarantined_topic_count=len(cluster.quarantined_topics),
        quarantined_broker_count=len(cluster.quarantined_brokers),
        held_topic_count=len(cluster.marks),
        deletions_paused=int(cluster.paused is not None),
        paced_topic_count=len(cluster.pacing.line),
        ghost_count=sum(len(ghosts) for ghosts in cluster.caches.ghosts.values()),
        unseen_cache_count=len(caches.unseen(context)),
        topics_in_stage=dict(cluster.topics_in_stage),
        doomed_replicas=dict(replicas),
        owed_tombstones={
            broker: OwedTombstones(len(owing_broker.topics), owing_broker.since_ms)
            for broker, owing_broker in cluster.owed.items()
            if broker in cluster.brokers
        },
        debts=_debts(context),
        unreadable_debts=len(cluster.debts.unreadable),
        trash=summary(context),
        unreadable_trash=len(cluster.trash.unreadable),
        trash_unseen=int(cluster.trash.unseen is not None),
    )


def _debts(context: Context) -> Mapping[BrokerId, OpenDebts]:
    found: dict[BrokerId, OpenDebts] = {}
    for key, each in context.cluster.debts.all():
        debts, size_bytes, since_ms = found.get(key.broker, (0, None, each.debt.since_ms))
        if each.debt.size_bytes is not None:
            size_bytes = (size_bytes or 0) + each.debt.size_bytes
        found[key.broker] = OpenDebts(debts + 1, size_bytes, min(since_ms, each.debt.since_ms))
    return found
