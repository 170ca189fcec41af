"""Replicas of queued topics that no broker is asked to delete: on a controller, or given up with their broker."""

from __future__ import annotations

from typing import Final

from lethe.controller.core.mutation import enter_replica_state
from lethe.controller.core.partition_sets import ReplicaColumns, chosen, ranges_of
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.journal import EventRecordType

GIVEN_UP: Final = "its broker was given up"
"""The reason in event records. Old journals contain it: never change it."""
ON_NO_DISK: Final = "placed on a controller, which has no disk"
"""Another such reason."""


def confirm(step: StepContext, replicas: ReplicaColumns) -> None:
    """Acknowledge replicas that are placed on a controller."""
    enter_replica_state(step.context.cluster, replicas, ReplicaState.DELETION_SUCCESSFUL)
    _record(step, replicas, ON_NO_DISK)


def record_given_up(step: StepContext, replicas: ReplicaColumns) -> None:
    """Record those of these replicas that were given up."""
    is_given_up = step.context.cluster.is_given_up
    _record(step, chosen(replicas, lambda _, broker, bits: bits if is_given_up(broker) else 0), GIVEN_UP)


def _record(step: StepContext, replicas: ReplicaColumns, why: str) -> None:
    """Write one event record per topic and broker."""
    for name, columns in replicas.items():
        for broker, bits in columns.items():
            step.record(
                EventRecordType.ACK,
                f"topic/{name}",
                topic_id=step.id_of(name),
                broker=broker,
                partitions=ranges_of(bits),
                why=why,
            )
