"""Log directories that brokers have lost.

A broker says that it has lost one, and not what was in it. So every replica that it hosts is announced to it again,
with unchanged epochs: its answers name those that it cannot reach (KAFKA_STORAGE_ERROR), and `answers` takes them
offline. A replica whose topic is being deleted is asked about in the same way, and its deletion is tried again, so that
what the topic waits for is the failed directory, by name, and not an answer that will never prove anything. Where it
was never announced, the broker is asked for the state of its log directories first: see `evidence`.
"""

from __future__ import annotations

from typing import Final

from lethe.controller.core.agenda_deletion import ResumeDeletions
from lethe.controller.core.agenda_partitions import MoveReplicas
from lethe.controller.core.agenda_requests import CheckLogDirs
from lethe.controller.core.transitions import ReplicaState
from lethe.controller.core.turn import Turn
from lethe.protocol.journal import FactType

_ASKED_ABOUT: Final = (ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE)
"""New ones have just been announced; a deletion that was asked for, or is done, has its own answer."""


def check(turn: Turn, task: CheckLogDirs) -> None:
    """Announce what these brokers host, but for what they are known not to reach, and go on with deletions there."""
    cluster = turn.context.cluster
    lost = frozenset(broker for broker in task.brokers if broker in cluster.brokers)
    for broker in task.brokers:
        if broker in lost:
            turn.record(FactType.BROKER, f"broker/{broker}", what="log directory failed")
        else:
            turn.refuse(f"broker/{broker}", "looking for its failed log directory", "the broker is not registered")
    replicas = tuple(
        replica
        for replica in cluster.replicas_on(lost)
        if cluster.is_replica_reachable(replica)
        # One that is shutting down is given nothing to serve any more, but may still delete.
        and (cluster.is_live(replica.broker) or cluster.is_queued(replica.topic))
        and cluster.replica_state(replica) in _ASKED_ABOUT
    )
    doomed = tuple(dict.fromkeys(r.topic for r in replicas if cluster.is_queued(r.topic)))
    turn.do(MoveReplicas(replicas, ReplicaState.ONLINE), ResumeDeletions(doomed, unblock=True))
