"""The controller's memory of a topic: partitions, brokers that host replicas, and reassignments."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.controller.core.partition_sets import Bits, Sets, bits_of, key_of, partitions_of, partitions_where
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicId


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
    """One partition: assignment, leadership as last written or read, and its state."""

    assignment: ReplicaAssignment
    leader_and_isr: LeaderAndIsr | None = None
    state: PartitionState = PartitionState.NON_EXISTENT


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
    replicas: dict[int, Sets[ReplicaState]] = field(default_factory=dict)
    """Broker id to its replicas by state; a replica without a state is NonExistent. Only `mutation` writes it."""
    confirmations: dict[int, Sets[ReplicaConfirmation]] = field(default_factory=dict)
    """Broker id to its replicas by the latest LeaderAndIsr. Only `mutation` writes it."""

    def assigned(self, numbers: Iterable[int] | None = None) -> dict[BrokerId, Bits]:
        """Return which of these partitions (None: all) each broker is to host, brokers in the order of the
        assignments."""
        found: dict[int, list[int]] = {}
        for number in self.partitions if numbers is None else numbers:
            partition = self.partitions.get(number)
            for broker in () if partition is None else partition.assignment.replicas:
                found.setdefault(broker, []).append(number)
        return {BrokerId(broker): bits_of(listed) for broker, listed in found.items()}

    def replica_state(self, number: int, broker: int) -> ReplicaState:
        sets = self.replicas.get(broker)
        return (None if sets is None else key_of(sets, number)) or ReplicaState.NON_EXISTENT

    def in_states(self, broker: int, states: Container[ReplicaState]) -> Bits:
        """Return the replicas on the broker that are in one of these states, assigned or not."""
        return partitions_where(self.replicas.get(broker, ()), states.__contains__)

    def hosts(self, number: int) -> tuple[int, ...]:
        """Return the brokers with a replica of the partition that is not NonExistent."""
        return tuple(broker for broker, sets in self.replicas.items() if partitions_of(sets) >> number & 1)

    def announced(self, broker: int, counts: Callable[[ReplicaConfirmation], bool]) -> Bits:
        """Return the replicas on the broker whose latest LeaderAndIsr counts."""
        return partitions_where(self.confirmations.get(broker, ()), counts)

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
