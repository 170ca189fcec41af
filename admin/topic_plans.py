"""Creating, marking and describing a topic in znodes, for tools that write to ZooKeeper themselves.

Two znodes written together create a topic: its configuration and its assignment. The controller does the rest. A znode
without data marks a topic for deletion. Tools have no controller epoch, so these writes are not fenced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.admin.topic_config import topic_config_problem
from lethe.controller.core.replica_assignment import RacksIncomplete, ReplicaAssignmentError
from lethe.protocol.vocabulary import (
    CLUSTER_METADATA_TOPIC,
    INTERNAL_TOPICS,
    LEADER_NONE,
    ReplicaAssignment,
    TopicId,
    collides_with,
    topic_name_problem,
)
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Operation
from lethe.protocol.zookeeper.packing import REQUEST_LIMIT_BYTES
from lethe.protocol.zookeeper.topic_creation import creation_of_topic
from lethe.protocol.zookeeper.znodes import most_partitions


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to create: replicas by partition, the preferred one first, and the settings that override defaults."""

    name: str
    topic_id: TopicId | None
    assignment: tuple[tuple[int, ...], ...]
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int:
        return len(self.assignment[0])


def partition_count_problem(partitions: int) -> str | None:
    """Return why no topic can have this number of partitions, as a message for users; None if it can."""
    if partitions < 1:
        return f"--partitions must be larger than 0, not {partitions}"
    most = most_partitions(1, REQUEST_LIMIT_BYTES)
    if partitions > most:
        return f"--partitions is {partitions}, but a topic's znode has no room for more than {most}"
    return None


def creation_problem(plan: TopicPlan, *, topics: Collection[str], marked: Collection[str]) -> str | None:
    """Return why the topic cannot be created; None if it can. `marked` are topics marked for deletion."""
    name = plan.name
    problem = topic_name_problem(name) or topic_config_problem(plan.config)
    if problem is not None:
        return problem
    if name == CLUSTER_METADATA_TOPIC:
        return f"topic {name} is Kafka's own and cannot be created"
    if name in marked:
        return f"topic {name} is marked for deletion: create it again when `lethe topics list` no longer shows it"
    if name in topics:
        return f"topic {name} already exists"
    colliding = sorted(other for other in topics if collides_with(name, other))
    if colliding:
        return f"topic {name} collides with {', '.join(colliding)}: metric names cannot tell '.' from '_'"
    if not plan.assignment or not all(plan.assignment):
        return f"topic {name} would have a partition without replicas"
    return None


def creation_operations(plan: TopicPlan, *, config_exists: bool) -> tuple[Operation, ...]:
    """Return the writes that create the topic, to be applied together."""
    return creation_of_topic(plan.name, plan.topic_id, plan.assignment, plan.config, config_exists=config_exists)


def deletion_problem(name: str, *, topics: Collection[str]) -> str | None:
    """Return why the topic cannot be marked for deletion; None if it can, also if it is marked already."""
    if name not in topics and name not in INTERNAL_TOPICS:
        return f"topic {name} does not exist"
    return internal_topic_problem(name)


def internal_topic_problem(name: str) -> str | None:
    """Return why no command deletes the topic; None for a topic that is not internal to Kafka."""
    return f"topic {name} is internal to Kafka and is not deleted by this command" if name in INTERNAL_TOPICS else None


def deletion_operation(name: str) -> Create:
    """Return the creation of the deletion marker."""
    return Create(paths.delete_topic(name), None)


class PartitionDescription(NamedTuple):
    """One partition according to its znodes or to brokers. Without a readable state znode, `leader` is None and `isr`
    is empty."""

    partition: int
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    assignment: ReplicaAssignment
    requested: tuple[int, ...] | None = None
    """Replicas that `/admin/reassign_partitions` requests for this partition, if any."""
    state_unseen: str | None = None
    """Why the state znode cannot be read or understood; None where it is seen or does not exist."""

    @property
    def is_under_replicated(self) -> bool:
        """True if fewer replicas are in sync than required, not counting those that a reassignment adds."""
        return len(self.isr) < len(self.assignment.origin)

    @property
    def pending(self) -> tuple[int, ...] | None:
        """Replicas of a requested reassignment that has not begun; None if there is none."""
        return None if self.requested == self.assignment.target else self.requested

    def is_unavailable(self, live: Collection[int]) -> bool:
        """True if the partition has no leader, or a leader that is not live."""
        return self.leader is None or self.leader == LEADER_NONE or self.leader not in live


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic according to its znodes or to brokers. If `problem` names something unreadable, other fields may be
    empty."""

    name: str
    topic_id: TopicId | None
    is_marked: bool | None
    """None: brokers do not show it."""
    config: Mapping[str, str]
    partitions: tuple[PartitionDescription, ...]
    problem: str | None = None
    requests_unseen: str | None = None
    """Why requested reassignments are unseen; then no partition has `requested`."""
    config_unseen: str | None = None
    moving_unseen: str | None = None
    """Why reassignments under way are unseen; then no assignment has any."""
    is_refused: bool = False
    """True: ZooKeeper refuses to give a znode that `problem` names."""

    @property
    def are_partitions_seen(self) -> bool:
        """False where a problem may have hidden all of them."""
        return self.problem is None or bool(self.partitions)

    @property
    def replication_factor(self) -> int:
        """Number of replicas of the first partition, as Kafka's tool counts; 0 without partitions."""
        return len(self.partitions[0].assignment.origin) if self.partitions else 0


def unplaceable(topic: str, error: ReplicaAssignmentError) -> str:
    """Return why the topic's replicas cannot be placed, with the remedy if there is one."""
    remedy = " (--disable-rack-aware places them regardless)" if isinstance(error, RacksIncomplete) else ""
    return f"topic {topic}: {error}{remedy}"
