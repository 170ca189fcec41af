"""Reassignments for tools: Kafka's JSON file, and the move of a partition from its replicas to the target ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import orjson

from lethe.admin.partition_views import PartitionViews
from lethe.admin.refusal import Refusal
from lethe.protocol.counting import listed
from lethe.protocol.topic_names import unknown_topic
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition, topic_name_problem
from lethe.protocol.zookeeper.znodes import encode_reassignment

ANY_LOG_DIR = "any"


class Move(NamedTuple):
    """One partition: its present assignment and its target replicas, the preferred one first."""

    partition: TopicPartition
    now: ReplicaAssignment
    target: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a replica, relative to the assignment before a reassignment in progress."""
        return tuple(broker for broker in self.target if broker not in self.now.origin)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose their replica, relative to the same assignment."""
        return tuple(broker for broker in self.now.origin if broker not in self.target)

    @property
    def is_done(self) -> bool:
        """True if the partition has exactly the target replicas and no reassignment is in progress."""
        return self.now.replicas == self.target and not self.now.is_being_reassigned


def parse_reassignment_file(data: bytes, name: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Parse a file of kafka-reassign-partitions.sh. Raises ValueError naming the file and the place."""
    try:
        fields = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{name} is not JSON: {error}") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("partitions"), list):
        raise ValueError(f"{name} has no list 'partitions'")
    if fields.get("version", 1) != 1:
        raise ValueError(f"{name} has version {fields['version']!r}: only 1 is known")
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for place, item in enumerate(fields["partitions"]):
        partition, replicas = _item(item, f"{name}, item {place} of 'partitions'")
        if partition in found:
            raise ValueError(f"{name} names {partition} twice")
        found[partition] = replicas
    if not found:
        raise ValueError(f"{name} names no partition")
    return found


def _item(item: Any, where: str) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(item, dict):
        raise ValueError(f"{where} is not an object")
    topic, number, replicas = item.get("topic"), item.get("partition"), item.get("replicas")
    if not isinstance(topic, str) or topic_name_problem(topic) is not None:
        raise ValueError(f"{where}: 'topic' is no topic name")
    if not isinstance(number, int) or not _is_natural(number):
        raise ValueError(f"{where}: 'partition' is no partition number")
    partition = TopicPartition(topic, number)
    if not isinstance(replicas, list) or not replicas or not all(map(_is_natural, replicas)):
        raise ValueError(f"{where}: 'replicas' of {partition} is no list of broker ids")
    if len(set(replicas)) < len(replicas):
        raise ValueError(f"{where}: 'replicas' of {partition} names a broker twice")
    log_dirs = item.get("log_dirs", [ANY_LOG_DIR] * len(replicas))
    if not isinstance(log_dirs, list) or len(log_dirs) != len(replicas):
        raise ValueError(f"{where}: 'log_dirs' of {partition} has not one entry for each replica")
    if any(log_dir != ANY_LOG_DIR for log_dir in log_dirs):
        raise ValueError(
            f"{where}: 'log_dirs' of {partition} names a directory: only the brokers can place a replica in one of "
            "their log directories, ZooKeeper cannot ask them to; write \"any\", or leave 'log_dirs' out"
        )
    return partition, tuple(replicas)


def _is_natural(value: object) -> bool:
    return type(value) is int and 0 <= value <= 2**31 - 1


def reassignment_text(targets: Mapping[TopicPartition, tuple[int, ...]]) -> str:
    """Return Kafka's JSON file for these reassignments."""
    return encode_reassignment(targets).decode()


def move_problem(move: Move, *, live: Collection[int], marked: Collection[str]) -> str | None:
    """Return why this move is impossible, as a message for users; None if it is possible."""
    if move.partition.topic in marked:
        return f"topic {move.partition.topic} is marked for deletion: nothing of it is moved any more"
    if not move.target:
        return f"{move.partition} would have no replica"
    absent = sorted(set(move.adding).difference(live))
    if absent:
        return f"{move.partition} would move to brokers that are not registered: {absent}"
    return None


def planned_moves(views: PartitionViews, targets: dict[TopicPartition, tuple[int, ...]]) -> list[Move]:
    """Return the moves to these replicas. Raises Refusal, naming every problem, where one is impossible."""
    problems = []
    moves = []
    known = views.by_topic
    for tp, target in targets.items():
        if tp.topic in views.problems:
            problems.append(views.problems[tp.topic])
        elif tp.topic not in known:
            problems.append(unknown_topic(tp.topic, views.there.names))
        elif tp not in views.assignments:
            problems.append(f"topic {tp.topic} has no partition {tp.partition}")
        else:
            move = Move(tp, views.assignments[tp], target)
            problem = move_problem(move, live=views.brokers, marked=views.there.marked)
            moves.append(move)
            if problem is not None:
                problems.append(problem)
    distinct = list(dict.fromkeys(problems))
    if distinct:
        raise Refusal(listed(distinct, 5, "; "), data={"problems": [*distinct]})
    return moves
