"""Handles failed log directories of brokers.

A broker reports a failed log directory, without the replicas in it. So every replica on the broker is announced to it
again with unchanged epochs. The broker answers KAFKA_STORAGE_ERROR for the lost ones, and `answers` takes them offline.

A queued topic's replica is announced in the same way, and its deletion is retried: then the topic waits visibly for the
failed directory. If the replica was never announced, DescribeLogDirs comes first (`evidence`).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.partition_sets import Bits, chosen
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_deletion import ResumeDeletions
from lethe.controller.core.tasks_partitions import MoveReplicas
from lethe.controller.core.tasks_requests import CheckLogDirs
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import BrokerId

_ASKED_ABOUT: Final = (ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE)
"""States of replicas to announce. New ones were just announced, and a deletion has its own answer."""


def check(step: StepContext, task: CheckLogDirs) -> None:
    """Announce the replicas on these brokers, except those known to be lost, and retry deletions there."""
    cluster = step.context.cluster
    lost = tuple(broker for broker in task.brokers if broker in cluster.brokers)
    for broker in task.brokers:
        if broker in lost:
            step.record(EventRecordType.BROKER, f"broker/{broker}", what="log directory failed")
        else:
            step.refuse(f"broker/{broker}", "looking for its failed log directory", "the broker is not registered")
    replicas = chosen(cluster.replicas_on(lost), partial(_asked_about, cluster))
    doomed = tuple(name for name in replicas if cluster.is_queued(name))
    step.do(MoveReplicas(replicas, ReplicaState.ONLINE), ResumeDeletions(doomed, unblock=True))


def _asked_about(cluster: ClusterState, name: str, broker: BrokerId, partitions: Bits) -> Bits:
    if not cluster.is_live(broker) and not cluster.is_queued(name):
        # A broker that is shutting down gets nothing to serve, but may still delete.
        return 0
    return cluster.reachable(name, broker, partitions) & cluster.topics[name].in_states(broker, _ASKED_ABOUT)
