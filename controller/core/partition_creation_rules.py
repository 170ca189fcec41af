"""Which partitions clients may add to a topic: Kafka's checks (ZkAdminManager, AdminZkClient), in its order and words.

    6 partitions, the topic has 6          INVALID_PARTITIONS  Topic already has 6 partitions.
    a partition is being reassigned        REASSIGNMENT_IN_PROGRESS
    partitions 0 and 2, without 1          refused: Kafka would give partition 2 other replicas

A topic keeps its replication factor, that of partition 0. Without an assignment the new partitions go on where the
existing ones end, from the first replica of partition 0 on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lethe.controller.core.replica_assignment import BrokerRack
from lethe.controller.core.topic_creation_rules import (
    Assignment,
    bad_assignment,
    check_counts,
    check_replicas,
    check_room,
    placed,
)
from lethe.protocol.client_rows import RowRefused
from lethe.protocol.kafka.admin import GrowableTopic
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import ReplicaAssignment


def check_growth(
    topic: GrowableTopic, existing: Mapping[int, ReplicaAssignment], brokers: Sequence[BrokerRack]
) -> Assignment:
    """Return the assignment of the new partitions. `existing` is empty where there is no such topic; `brokers` ascend.
    Raises RowRefused."""
    if any(each.is_being_reassigned for each in existing.values()):
        raise RowRefused(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{topic.name}'.",
        )
    if not existing:
        raise RowRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic.name}' does not exist.")
    added = _added(topic, existing)
    given = None if topic.assignments is None else _given(topic.assignments, len(existing), added, brokers)
    if sorted(existing) != list(range(len(existing))):
        raise RowRefused(
            ErrorCode.UNKNOWN_SERVER_ERROR, why=f"its partitions are not 0 to {len(existing) - 1}: {sorted(existing)}"
        )
    first = existing[0].replicas
    if given is not None:
        _check_given(given, len(first))
        return given
    start = next((place for place, broker in enumerate(brokers) if broker.id >= first[0]), 0)
    check_counts(added, len(first), len(brokers))
    return dict(enumerate(placed(brokers, added, len(first), start, start, len(existing)), start=len(existing)))


def _added(topic: GrowableTopic, assigned: Mapping[int, ReplicaAssignment]) -> int:
    existing = len(assigned)
    if topic.total < existing:
        raise RowRefused(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {existing} partitions, which is higher than the requested {topic.total}.",
        )
    if topic.total == existing:
        raise RowRefused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partitions.")
    # They may differ, and have fewer replicas than the new partitions would: the bound is not exact.
    check_room(topic.total, min(len(each.replicas) for each in assigned.values()))
    return topic.total - existing


def _given(
    assignments: Sequence[tuple[int, ...]], existing: int, added: int, brokers: Sequence[BrokerRack]
) -> Assignment:
    known = frozenset(broker.id for broker in brokers)
    named = dict.fromkeys(replica for replicas in assignments for replica in replicas)
    if unknown := [str(broker) for broker in named if broker not in known]:
        raise bad_assignment(f"Unknown broker(s) in replica assignment: {', '.join(unknown)}.")
    if len(assignments) != added:
        raise bad_assignment(
            f"Increasing the number of partitions by {added} but {len(assignments)} assignments provided."
        )
    return dict(enumerate(assignments, start=existing))


def _check_given(given: Assignment, replication_factor: int) -> None:
    for partition, replicas in given.items():
        check_replicas(partition, replicas)
        if len(replicas) != len(set(replicas)):
            raise bad_assignment(
                f"Duplicate brokers not allowed in replica assignment: {', '.join(map(str, replicas))} "
                f"for partition id {partition}."
            )
    if others := {n: len(replicas) for n, replicas in given.items() if len(replicas) != replication_factor}:
        raise bad_assignment(
            f"Inconsistent replication factor between partitions, partition 0 has {replication_factor} while "
            f"partitions [{', '.join(map(str, others))}] have replication factors "
            f"[{', '.join(map(str, others.values()))}], respectively."
        )
