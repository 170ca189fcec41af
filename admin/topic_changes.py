"""Altering a topic in znodes: adding partitions, setting and deleting topic settings.

The topic's znode is changed in place, on condition of the version that was read. Unknown fields, the topic id and a
reassignment stay unchanged. Settings are written together with the notification that makes brokers read them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lethe.admin.topic_config import topic_config_problem
from lethe.protocol.counting import counted
from lethe.protocol.vocabulary import INTERNAL_TOPICS
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import dump, mapping, parse_object
from lethe.protocol.zookeeper.znodes import TopicZnode
from lethe.survey.causes import ranges

Replicas = tuple[int, ...]

COMPACTION_LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")


def expansion_problem(topic: str, znode: TopicZnode, partitions: int) -> str | None:
    """Return why the topic cannot get this number of partitions, as a message for users; None if it can."""
    existing = len(znode.assignments)
    if topic in INTERNAL_TOPICS:
        return f"topic {topic} is internal to Kafka: its partitions are what its content is found by, none can be added"
    if not existing or list(znode.assignments) != list(range(existing)):
        return (
            f"topic {topic} has the partitions {ranges(tuple(znode.assignments)) or 'none'} instead of 0 to "
            f"{max(existing - 1, 0)}: Kafka adds none to such a topic"
        )
    if moving := tuple(p for p, assignment in znode.assignments.items() if assignment.is_being_reassigned):
        return (
            f"partitions {ranges(moving)} of topic {topic} are being reassigned, and none can be added meanwhile: "
            "see `lethe partitions reassign --list`, and try again when they are done"
        )
    if partitions <= existing:
        return (
            f"topic {topic} has {counted(existing, 'partition')} already: "
            f"their number can only grow, not become {partitions}"
        )
    return None


def assignment_problem(
    topic: str, znode: TopicZnode, assignment: tuple[Replicas, ...], live: Collection[int]
) -> str | None:
    """Return why this assignment is refused; None if it is accepted.

    It lists the replicas of all partitions, the existing ones first. `znode` has passed `expansion_problem`.
    """
    for partition, (wanted, existing) in enumerate(zip(assignment, znode.assignments.values(), strict=False)):
        if wanted != existing.replicas:
            return placement_problem(topic, partition, wanted, existing.replicas)
    new = assignment[len(znode.assignments) :]
    factor = len(znode.assignments[0].replicas)
    for partition, wanted in enumerate(new, start=len(znode.assignments)):
        if len(wanted) != factor:
            return (
                f"--replica-assignment gives partition {partition} of topic {topic} {counted(len(wanted), 'replica')}, "
                f"but the topic's replication factor is {factor}"
            )
    absent = sorted({broker for wanted in new for broker in wanted}.difference(live))
    if absent:
        return f"--replica-assignment names brokers that are not registered: {absent}"
    return None


def placement_problem(topic: str, partition: int, wanted: Replicas, existing: Replicas) -> str:
    """Return that the assignment gives an existing partition other replicas than it has."""
    return (
        f"--replica-assignment gives partition {partition} of topic {topic} the replicas {list(wanted)}, but "
        f"it has {list(existing)}: it lists all partitions, and only new ones can be placed by it "
        "(`lethe partitions reassign` moves the others)"
    )


def with_partitions(topic: str, data: bytes | None, added: Mapping[int, Replicas]) -> bytes:
    """Return the topic's data with further partitions and everything else unchanged. Raises MalformedZnode."""
    path = paths.topic(topic)
    fields = parse_object(path, data)
    listed = mapping(path, "'partitions'", fields.get("partitions"))
    return dump({**fields, "partitions": {**listed, **{str(p): list(replicas) for p, replicas in added.items()}}})


def changed_config(
    topic: str, current: Mapping[str, str], settings: Mapping[str, str], deleted: Collection[str]
) -> dict[str, str]:
    """Return the topic's settings after the change, existing ones first; unknown existing settings stay.

    Raises ValueError if a broker would refuse a value, or if a setting to delete is not set.
    """
    missing = sorted(set(deleted).difference(current))
    if missing:
        raise ValueError(
            f"topic {topic} does not override {', '.join(missing)}, so there is nothing to delete "
            f"(it overrides {', '.join(sorted(current)) or 'nothing'})"
        )
    result = {**{name: value for name, value in current.items() if name not in deleted}, **settings}
    checked = {**{name: result[name] for name in COMPACTION_LAGS if name in result}, **settings}
    problem = topic_config_problem(checked)
    if problem is not None:
        raise ValueError(f"topic {topic}: {problem}")
    return result
