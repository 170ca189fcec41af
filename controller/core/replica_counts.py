"""Counts of replicas of queued topics: by state (of each topic and in total), and by the broker that must delete them.

Only `mutation` calls these functions, wherever a replica's state changes.
"""

from __future__ import annotations

from typing import TypeVar

from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.deletion_memory import NOT_WAITED_FOR, Deletion
from lethe.controller.core.partition_sets import changes
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.vocabulary import BrokerId

C = TypeVar("C")


def count_replicas(cluster: ClusterState, deletion: Deletion, sign: int) -> None:
    """Add the topic's replicas to the total (`sign` 1), or remove them (-1)."""
    for state, count in deletion.by_state.items():
        add(cluster.doomed_replicas, state, sign * count)


def add(counts: dict[C, int], key: C, number: int) -> None:
    """Add to a count. Zeros are dropped, so that equal memories compare equal."""
    left = counts.get(key, 0) + number
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)


def move_replica(deletion: Deletion, before: ReplicaState, after: ReplicaState | None, number: int = 1) -> None:
    left = deletion.by_state.get(before, 0) - number
    if left > 0:
        deletion.by_state[before] = left
    else:
        deletion.by_state.pop(before, None)
    if after is not None:
        deletion.by_state[after] = deletion.by_state.get(after, 0) + number


def move_doomed(cluster: ClusterState, before: ReplicaState, after: ReplicaState, number: int) -> None:
    """As `move_replica`, for the total of all queued topics."""
    add(cluster.doomed_replicas, before, -number)
    add(cluster.doomed_replicas, after, number)


def count_waiting(
    cluster: ClusterState, broker: BrokerId, before: ReplicaState | None, after: ReplicaState | None, number: int = 1
) -> None:
    """Count the state change of queued topics' replicas on the broker. State None: not assigned."""
    change = (after is not None and after not in NOT_WAITED_FOR) - (before is not None and before not in NOT_WAITED_FOR)
    if change:
        add(cluster.waiting_replicas, broker, change * number)


def stop_waiting(cluster: ClusterState, topic: str, deletion: Deletion) -> None:
    """Remove the topic's replicas from the counts of waiting replicas."""
    known = cluster.topics.get(topic)
    if deletion.all_acknowledged or known is None:
        return
    for broker, bits in known.assigned().items():
        for state, here in changes(known.replicas.get(broker, ()), bits, None, ReplicaState.NON_EXISTENT):
            count_waiting(cluster, broker, state, None, here.bit_count())
