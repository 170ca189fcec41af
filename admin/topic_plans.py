"""What creating, marking and describing a topic mean in znodes, for tools that go to ZooKeeper themselves.

A topic is created by its configuration and its assignment, written together; the controller does the rest. It is
marked for deletion by a znode without data. Neither is fenced by a controller epoch: tools have none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.admin.topic_config import topic_config_problem
from lethe.protocol.vocabulary import (
    INTERNAL_TOPICS,
    LEADER_NONE,
    ReplicaAssignment,
    TopicId,
    collides_with,
    topic_name_problem,
)
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Operation, SetData
from lethe.protocol.zookeeper.znodes import TopicZnode, encode_config, encode_topic

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
MOST_PARTITIONS = 100_000
"""Of one topic: the assignment of more does not fit into a znode of one mebibyte, however short the brokers' ids."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to be created: replicas by partition, the preferred one first, and its overrides of the defaults."""

    name: str
    topic_id: TopicId | None
    assignment: tuple[tuple[int, ...], ...]
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int:
        return len(self.assignment[0])


def partition_count_problem(partitions: int) -> str | None:
    """Why no topic can have that many partitions, in words that can be shown; None where one can."""
    if partitions < 1:
        return f"--partitions must be larger than 0, not {partitions}"
    if partitions > MOST_PARTITIONS:
        return f"--partitions is {partitions}, but a topic's znode has no room for more than {MOST_PARTITIONS}"
    return None


def creation_problem(plan: TopicPlan, *, topics: Collection[str], marked: Collection[str]) -> str | None:
    """Why the topic cannot be created among `topics`, of which `marked` are to be deleted; None where it can."""
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
    """The configuration first, then the topic, to be applied together. A configuration that an earlier topic of that
    name left behind is replaced."""
    config = encode_config(dict(sorted(plan.config.items())))
    path = paths.config_topic(plan.name)
    assignments = {partition: ReplicaAssignment(replicas) for partition, replicas in enumerate(plan.assignment)}
    return (
        SetData(path, config, ANY_VERSION) if config_exists else Create(path, config),
        Create(paths.topic(plan.name), encode_topic(TopicZnode(assignments, plan.topic_id))),
    )


def deletion_problem(name: str, *, topics: Collection[str]) -> str | None:
    """Why the topic cannot be marked for deletion; None where it can, or is already."""
    if name in INTERNAL_TOPICS:
        return f"topic {name} is internal to Kafka and is not deleted by this command"
    if name not in topics:
        return f"topic {name} does not exist"
    return None


def deletion_operation(name: str) -> Create:
    """The mark: what asks the controller for the deletion."""
    return Create(paths.delete_topic(name), None)


class PartitionDescription(NamedTuple):
    """One partition as its znodes have it; leader and ISR are None and empty where there is no state znode."""

    partition: int
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    assignment: ReplicaAssignment
    requested: tuple[int, ...] | None = None
    """The replicas that `/admin/reassign_partitions` asks for, where it names the partition."""

    @property
    def is_under_replicated(self) -> bool:
        """Fewer replicas in sync than there are to be, counted without those that a reassignment adds."""
        return len(self.isr) < len(self.assignment.origin)

    @property
    def pending(self) -> tuple[int, ...] | None:
        """The replicas of a reassignment that is asked for and has not begun; None where there is none."""
        return None if self.requested == self.assignment.target else self.requested

    def is_unavailable(self, live: Collection[int]) -> bool:
        """No leader, or a leader that is not among the live brokers."""
        return self.leader is None or self.leader == LEADER_NONE or self.leader not in live


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic as its znodes have it. `problem` says what could not be understood; then the rest may be missing."""

    name: str
    topic_id: TopicId | None
    is_marked: bool
    config: Mapping[str, str]
    partitions: tuple[PartitionDescription, ...]
    problem: str | None = None

    @property
    def replication_factor(self) -> int:
        """Replicas of the first partition, as Kafka's tool counts; 0 where there is none."""
        return len(self.partitions[0].assignment.origin) if self.partitions else 0
