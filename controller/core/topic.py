"""What the controller remembers of a topic: its partitions, who holds their replicas, and where they move to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.vocabulary import BrokerEpoch, LeaderAndIsr, ReplicaAssignment, TopicId


class Hosting(NamedTuple):
    """What we know of a broker incarnation's hold on a replica: LeaderAndIsr was sent to it last with `request_id`,
    and that was answered without a storage error (`confirmed`). Only then does the answer to a later StopReplica
    prove a deletion: brokers answer NONE for what lies on a failed disk.

    `by_look`: no LeaderAndIsr was sent. An answer to a StopReplica with an id above `request_id` is proven by a look at
    the log directories instead: see `evidence`."""

    broker_epoch: BrokerEpoch
    request_id: int
    confirmed: bool
    by_look: bool = False


@dataclass(slots=True)
class Partition:
    """One partition: its assignment, its leadership as last written or read, and the two state machines' states."""

    assignment: ReplicaAssignment
    leadership: LeaderAndIsr | None = None
    state: PartitionState = PartitionState.NON_EXISTENT
    replicas: dict[int, ReplicaState] = field(default_factory=dict)
    """Broker id to state; a replica without an entry is NonExistent."""
    hosting: dict[int, Hosting] = field(default_factory=dict)


@dataclass(slots=True)
class Topic:
    id: TopicId | None
    partitions: dict[int, Partition]
    version: int = 0
    """Of the topic's znode, as last read or written: what we write next expects it."""
    created_zxid: int = 0
    """czxid of the topic's znode: a znode of the same name with another one is another topic."""
    is_made_up: bool = False
    """Its znode could not be understood, and it is being deleted with what there was: none of this is ever written."""


@dataclass(slots=True)
class Reassignment:
    """A partition that moves from its origin to its target replicas."""

    since_ms: int
    written: ReplicaAssignment
    """As the topic's znode has it until the reassignment is done: all that may hold a replica."""
    is_announced: bool = False
    """The replicas have been told where it goes."""
    held_target: tuple[int, ...] | None = None
    """Another target that is asked for, and that would lose records as long as the ISR is what it is."""
    is_led: bool = False
    """A target replica leads, and the others have been taken out of service."""
    retiring: dict[int, None] = field(default_factory=dict)
    """Brokers that were told to delete a replica that was moved away and have not answered."""
