"""The controller's memory of a topic: partitions, brokers that host replicas, and reassignments."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.controller.core.partition_sets import (
    Bits,
    Sets,
    by_broker,
    key_of,
    numbers_in,
    partitions_of,
    partitions_where,
)
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicId

_NO_STATE: Final = PartitionState.NON_EXISTENT


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
    """One partition: assignment, and leadership as last written or read."""

    assignment: ReplicaAssignment
    leader_and_isr: LeaderAndIsr | None = None


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
    was_absent: bool = False
    """The znode was absent when it was read: one that is listed later is another topic."""
    # --- columns: only `mutation` writes them
    numbers: Bits = 0
    """All partitions."""
    led: Bits = 0
    """Partitions with leadership."""
    imbalanced: Bits = 0
    """Partitions not led by their preferred replica."""
    states: Sets[PartitionState] = ()
    """Partitions by state; one without a state is NonExistent."""
    replicas: dict[int, Sets[ReplicaState]] = field(default_factory=dict)
    """Broker id to its replicas by state; a replica without a state is NonExistent."""
    confirmations: dict[int, Sets[ReplicaConfirmation]] = field(default_factory=dict)
    """Broker id to its replicas by the latest LeaderAndIsr."""
    assigned_columns: Mapping[BrokerId, Bits] | None = field(default=None, compare=False)
    """Result of `assigned`; None: an assignment has changed since."""

    def assigned(self) -> Mapping[BrokerId, Bits]:
        """Return the partitions that each broker is to host, brokers in the order of the assignments."""
        if self.assigned_columns is None:
            self.assigned_columns = by_broker((n, each.assignment.replicas) for n, each in self.partitions.items())
        return self.assigned_columns

    def leaders(self, partitions: Bits) -> Iterator[tuple[int, Partition, LeaderAndIsr]]:
        """Yield those of these partitions that have leadership, with it."""
        for number in numbers_in(partitions & self.led):
            partition = self.partitions[number]
            if partition.leader_and_isr is not None:
                yield number, partition, partition.leader_and_isr

    def partitions_in_states(self, states: Container[PartitionState]) -> Bits:
        """Return the partitions that are in one of these states."""
        stateless = self.numbers & ~partitions_of(self.states) if _NO_STATE in states else 0
        return stateless | partitions_where(self.states, states.__contains__)

    def partition_state(self, number: int) -> PartitionState:
        return _NO_STATE if (state := key_of(self.states, number)) is None else state

    def replica_state(self, number: int, broker: int) -> ReplicaState:
        sets = self.replicas.get(broker)
        return (None if sets is None else key_of(sets, number)) or ReplicaState.NON_EXISTENT

    def in_states(self, broker: int, states: Container[ReplicaState]) -> Bits:
        """Return the replicas on the broker that are in one of these states, assigned or not."""
        return partitions_where(self.replicas.get(broker, ()), states.__contains__)

    def in_other_states(self, broker: int, *states: ReplicaState) -> Bits:
        """Return the replicas on the broker that have another state than these; NonExistent is none."""
        return partitions_where(self.replicas.get(broker, ()), lambda state: state not in states)

    def hosts(self, number: int) -> tuple[int, ...]:
        """Return the brokers with a replica of the partition that is not NonExistent."""
        return tuple(broker for broker, sets in self.replicas.items() if partitions_of(sets) >> number & 1)

    def announced(self, broker: int, counts: Callable[[ReplicaConfirmation], bool]) -> Bits:
        """Return the replicas on the broker whose latest LeaderAndIsr counts."""
        return partitions_where(self.confirmations.get(broker, ()), counts)

    @property
    def replica_count(self) -> int:
        return sum(bits.bit_count() for bits in self.assigned().values())


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
