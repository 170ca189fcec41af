"""Which topics clients may create: Kafka's checks (ZkAdminManager, AdminZkClient), in its order and in its words.

The first problem counts. Kafka lacks three of the checks, without which a topic would be unusable, unreadable or
impossible to write: a partition without replicas, a broker id below 0, and more partitions than a znode has room for.

    orders.eu, while orders_eu exists         INVALID_TOPIC_EXCEPTION  Topic 'orders.eu' collides with ...
    3 replicas, 2 brokers                     INVALID_REPLICATION_FACTOR  Replication factor: 3 larger than ...
    replicas on brokers that do not exist     accepted, as Kafka's controller accepts them
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from lethe.controller.core.config import NewTopics
from lethe.controller.core.replica_assignment import BrokerRack, RacksIncomplete, place_replicas
from lethe.controller.core.topic_policy import NO_POLICY, TopicPolicy
from lethe.protocol.client_rows import ROW_BYTES, RowRefused
from lethe.protocol.counting import counted
from lethe.protocol.kafka.admin import BROKERS_DEFAULT, CreatableTopic
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.topic_configs import InvalidTopicConfig, checked_topic_configs
from lethe.protocol.kafka.topic_defaults import BrokerSettings, topic_defaults
from lethe.protocol.vocabulary import metric_name, topic_name_problem
from lethe.protocol.zookeeper.json_fields import INT32_MAX
from lethe.protocol.zookeeper.znodes import most_partitions

Assignment = dict[int, tuple[int, ...]]
"""Replicas by partition, the preferred one first."""
Draw = Callable[[int], int]
"""Return a random number below the argument."""


class TopicNames:
    """Names of topics, among which those that collide with a name are found without looking at the others."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, set[str]] = {}
        """By metric name."""
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        self._names.setdefault(metric_name(name), set()).add(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._names.get(metric_name(name), ())

    def colliding_with(self, name: str) -> list[str]:
        """Return the other topics that Kafka's metric names cannot tell from this one."""
        return sorted(self._names.get(metric_name(name), set()) - {name})


class Surroundings(NamedTuple):
    """What a new topic has to fit to."""

    topics: TopicNames
    """Every topic in ZooKeeper, in service, being deleted or unreadable, and those of the request that are accepted."""
    cached: Container[str]
    """Topics in service: those that brokers show."""
    marked: Container[str]
    brokers: Sequence[BrokerRack]
    defaults: NewTopics
    settings: BrokerSettings
    draw: Draw
    reserved: Callable[[str], str | None]
    """Return why a name is reserved, None if it is not."""
    policy: TopicPolicy = NO_POLICY


def check_topic(topic: CreatableTopic, around: Surroundings) -> Assignment:
    """Return the new topic's assignment. Raises RowRefused."""
    if topic.name in around.cached:
        raise already_exists(topic.name)
    configs = _configs(topic)
    if topic.assignments and (topic.num_partitions, topic.replication_factor) != (BROKERS_DEFAULT, BROKERS_DEFAULT):
        raise RowRefused(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    assignment = _assignment(topic, around)
    _check_name(topic.name, around)
    _check_assignment(assignment)
    try:
        checked_topic_configs(configs, topic_defaults(around.settings), tiered_storage=around.defaults.tiered_storage)
    except InvalidTopicConfig as problem:
        raise RowRefused(ErrorCode.INVALID_CONFIG, str(problem)) from problem
    check_policy(around.policy.of_new_topic(topic.name, len(assignment), len(assignment[0])))
    return assignment


def check_policy(problem: str | None) -> None:
    """Raise RowRefused if the policy has a problem with the row."""
    if problem is not None:
        raise RowRefused(ErrorCode.POLICY_VIOLATION, problem)


def configs_of(topic: CreatableTopic) -> dict[str, str]:
    """Return the settings of a topic that has passed the checks, by name; of one given twice, the last."""
    return {name: value for name, value in topic.configs if value is not None}


def _configs(topic: CreatableTopic) -> dict[str, str]:
    if missing := [name for name, value in topic.configs if value is None]:
        raise RowRefused(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}")
    return configs_of(topic)


def already_exists(name: str) -> RowRefused:
    """Return the refusal of a topic whose name is taken."""
    return RowRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def marked_for_deletion(name: str) -> RowRefused:
    """Return the refusal of a topic while an earlier one of its name is being deleted."""
    return RowRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")


def _check_name(name: str, around: Surroundings) -> None:
    if problem := topic_name_problem(name):
        raise RowRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name in around.marked:
        raise marked_for_deletion(name)
    if name in around.topics:
        raise already_exists(name)
    if reason := around.reserved(name):
        raise RowRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' cannot be created: {reason}.")
    if colliding := around.topics.colliding_with(name):
        raise RowRefused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topics: {', '.join(colliding)}",
        )


# --- the assignment ---------------------------------------------------------------------------------------------------


def _assignment(topic: CreatableTopic, around: Surroundings) -> Assignment:
    if topic.assignments:
        return dict(topic.assignments)
    wanted = topic.num_partitions, topic.replication_factor
    partitions = around.defaults.partitions if wanted[0] == BROKERS_DEFAULT else wanted[0]
    factor = around.defaults.replication_factor if wanted[1] == BROKERS_DEFAULT else wanted[1]
    check_counts(partitions, factor, len(around.brokers))
    start, shift = (around.draw(len(around.brokers)) for _ in range(2))
    return dict(enumerate(placed(around.brokers, partitions, factor, start, shift)))


def check_counts(partitions: int, replication_factor: int, brokers: int) -> None:
    """Raise RowRefused where no assignment is possible."""
    if partitions <= 0:
        raise RowRefused(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise RowRefused(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > brokers:
        raise RowRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {brokers}.",
        )
    check_room(partitions, replication_factor)


def check_room(partitions: int, replication_factor: int) -> None:
    """Raise RowRefused where a topic's znode has no room for so many partitions, whatever the brokers' ids are.

    It is for numbers that would take memory and time to assign; `check_size` refuses what is too large exactly."""
    most = most_partitions(replication_factor, ROW_BYTES)
    if partitions > most:
        raise RowRefused(
            ErrorCode.INVALID_PARTITIONS,
            f"{counted(partitions, 'partition')} are too many: with {counted(replication_factor, 'replica')} each, the "
            f"znode of a topic has no room for more than {most}.",
        )


def placed(
    brokers: Sequence[BrokerRack], partitions: int, replication_factor: int, start: int, shift: int, first: int = 0
) -> tuple[tuple[int, ...], ...]:
    """Return the replicas of partitions from `first` on, by Kafka's rule. Raises RowRefused."""
    try:
        return place_replicas(
            brokers, partitions, replication_factor, start_index=start, shift=shift, first_partition=first
        )
    except RacksIncomplete as problem:
        # Kafka's error without a message, as of everything that it does not expect.
        raise RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, why=str(problem)) from problem


def _check_assignment(assignment: Mapping[int, tuple[int, ...]]) -> None:
    sizes = {len(replicas): None for replicas in assignment.values()}
    if len(sizes) != 1:
        raise bad_assignment("All partitions should have the same number of replicas")
    for replicas in assignment.values():
        if len(replicas) != len(set(replicas)):
            raise bad_assignment(f"Duplicate replica assignment found: {_as_scala(assignment)}")
    if sorted(assignment) != list(range(len(assignment))):
        raise bad_assignment("partitions should be a consecutive 0-based integer sequence")
    for partition, replicas in assignment.items():
        check_replicas(partition, replicas)
    check_room(len(assignment), *sizes)


def check_replicas(partition: int, replicas: tuple[int, ...]) -> None:
    """Raise RowRefused for what a topic's znode must not say of a partition."""
    if not replicas:
        raise bad_assignment(f"Cannot have replication factor of 0 for partition id {partition}.")
    if any(not 0 <= broker <= INT32_MAX for broker in replicas):
        raise bad_assignment(
            f"Replicas of partition id {partition} are no broker ids: {', '.join(map(str, replicas))}."
        )


def bad_assignment(message: str) -> RowRefused:
    """Return the refusal of replicas that a client assigns."""
    return RowRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _as_scala(assignment: Mapping[int, tuple[int, ...]]) -> str:
    rows = (f"{n} -> ArrayBuffer({', '.join(map(str, assignment[n]))})" for n in sorted(assignment))
    return f"HashMap({', '.join(rows)})"
