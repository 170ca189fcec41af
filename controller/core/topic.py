"""The controller's memory of a topic: partitions, brokers that host replicas, and reassignments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.vocabulary import BrokerEpoch, LeaderAndIsr, ReplicaAssignment, TopicId


class ReplicaConfirmation(NamedTuple):
    """The latest LeaderAndIsr for a replica to a broker incarnation.

    `request_id`: id of that request. `confirmed`: it was answered without a storage error. Only then does the answer to
    a later StopReplica prove a deletion, because brokers answer NONE for replicas on a failed disk.

    `by_look`: no LeaderAndIsr was sent; the log directories prove answers to StopReplica with an id above `request_id`
    (`evidence`)."""

    broker_epoch: BrokerEpoch
    request_id: int
    confirmed: bool
    by_look: bool = False


@dataclass(slots=True)
class Partition:
    """One partition: assignment, leadership as last written or read, and the states of both state machines."""

    assignment: ReplicaAssignment
    leader_and_isr: LeaderAndIsr | None = None
    state: PartitionState = PartitionState.NON_EXISTENT
    replicas: dict[int, ReplicaState] = field(default_factory=dict)
    """Broker id to state; a replica without an entry is NonExistent."""
    confirmations: dict[int, ReplicaConfirmation] = field(default_factory=dict)


@dataclass(slots=True)
class Topic:
    id: TopicId | None
    partitions: dict[int, Partition]
    version: int = 0
    """Version of the topic's znode, as last read or written: the next write expects it."""
    created_zxid: int = 0
    """czxid of the topic's znode: with another czxid, the same name is another topic."""
    is_made_up: bool = False
    """The znode could not be understood: this value is derived for the deletion, and never written."""

    @property
    def replica_count(self) -> int:
        return sum(len(partition.assignment.replicas) for partition in self.partitions.values())


@dataclass(slots=True)
class Reassignment:
    """A partition's reassignment from its origin to its target replicas."""

    since_ms: int
    written: ReplicaAssignment
    """The assignment in the topic's znode until the reassignment is done: all brokers that may host a replica."""
    is_announced: bool = False
    """The replicas were sent the reassignment."""
    held_target: tuple[int, ...] | None = None
    """A newer requested target, which would lose records with the present ISR."""
    is_led: bool = False
    """A target replica leads, and the others are out of service."""
    retiring: dict[int, None] = field(default_factory=dict)
    """Brokers that were sent the deletion of a removed replica and have not answered."""
