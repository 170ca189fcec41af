"""Names of directories inside a log directory, encoded and parsed.

    orders-3                       REPLICA    a replica of partition 3 of topic orders
    orders-3.<32 hex>-future       FUTURE     the same, on its way from one log directory to another
    orders-3.<32 hex>-delete       DELETED    renamed by its broker, to be removed later
    orders-3.<32 hex>-stray        STRAY      quarantined by its broker, for a person to look at
    orders, orders-03, lost+found  UNKNOWN    not Kafka's, or with a number that no partition has

A name is a replica's only if encoding the parsed partition returns the same text. So two names never mean one replica,
and no name points outside of the log directory.
"""

from __future__ import annotations

import enum
import hashlib
import re
from typing import Final, NamedTuple

from lethe.protocol.vocabulary import TopicPartition, topic_name_problem

MAX_DIRECTORY_NAME_LENGTH: Final = 255
"""Limit of file systems; Kafka cuts the topic in longer names."""
MAX_PARTITION: Final = 2**31 - 1

DELETE_SUFFIX: Final = "-delete"
NEVER_CUT: Final = MAX_DIRECTORY_NAME_LENGTH - len(f"-{MAX_PARTITION}.{'0' * 32}{DELETE_SUFFIX}") - 1
"""A topic of at most this length in a directory's name is complete, whatever its partition."""
FUTURE_SUFFIX: Final = "-future"
STRAY_SUFFIX: Final = "-stray"
_TAGGED: Final = re.compile(
    r"(?P<stem>.+)-(?P<partition>\d+)\.[0-9a-f]{32}(?P<suffix>-delete|-future|-stray)\Z", re.ASCII
)


class DirectoryKind(enum.Enum):
    REPLICA = "replica"
    FUTURE = "future"
    """A replica on its way from one log directory to another."""
    DELETED = "deleted"
    """Renamed by its broker, to be removed later."""
    STRAY = "stray"
    """Quarantined by its broker, for a person to look at."""
    UNKNOWN = "unknown"
    """Not Kafka's; ignored."""


_TAGGED_KINDS: Final = {
    DELETE_SUFFIX: DirectoryKind.DELETED,
    FUTURE_SUFFIX: DirectoryKind.FUTURE,
    STRAY_SUFFIX: DirectoryKind.STRAY,
}


class ParsedName(NamedTuple):
    kind: DirectoryKind
    topic_partition: TopicPartition | None
    """None for UNKNOWN. In a deleted, stray or future directory's name the topic may be cut."""


def partition_problem(topic_partition: TopicPartition) -> str | None:
    """Return why this partition can have no directory, as a message for users; None if it can."""
    topic, partition = topic_partition
    if problem := topic_name_problem(topic):
        return problem
    if not 0 <= partition <= MAX_PARTITION:
        return f"partition {partition} of topic {topic!r} is not between 0 and {MAX_PARTITION}"
    if len(str(topic_partition)) > MAX_DIRECTORY_NAME_LENGTH:
        return (
            f"the directory of partition {partition} of the topic with the {len(topic)}-character name would need a "
            f"name of more than {MAX_DIRECTORY_NAME_LENGTH} characters"
        )
    return None


def is_of_a_partition(topic_partition: TopicPartition) -> bool:
    """Return whether such a partition may exist, however long its directory's name would be."""
    return topic_name_problem(topic_partition.topic) is None and 0 <= topic_partition.partition <= MAX_PARTITION


def directory_name(topic_partition: TopicPartition) -> str:
    """Return `orders-3`. Raises ValueError if the partition can have no directory."""
    if problem := partition_problem(topic_partition):
        raise ValueError(problem)
    return str(topic_partition)


def deletion_name(topic_partition: TopicPartition, unique: str) -> str:
    """Return `orders-3.<unique>-delete`, with the topic cut if necessary; `unique` is 32 hex digits.

    The partition must have a directory, because its name is not checked again.
    """
    return _tagged(topic_partition, unique, DELETE_SUFFIX)


def stray_name(topic_partition: TopicPartition, unique: str) -> str:
    """Return `orders-3.<unique>-stray`, otherwise like `deletion_name`."""
    return _tagged(topic_partition, unique, STRAY_SUFFIX)


def parse_directory_name(name: str) -> ParsedName:
    """Return kind and partition of a directory of this name in a log directory."""
    if tagged := _TAGGED.match(name):
        topic_partition = TopicPartition(tagged["stem"], int(tagged["partition"]))
        if is_of_a_partition(topic_partition):
            return ParsedName(_TAGGED_KINDS[tagged["suffix"]], topic_partition)
        return ParsedName(DirectoryKind.UNKNOWN, None)
    topic, dash, digits = name.rpartition("-")
    if dash and digits.isascii() and digits.isdigit():
        topic_partition = TopicPartition(topic, int(digits))
        if partition_problem(topic_partition) is None and str(topic_partition) == name:
            return ParsedName(DirectoryKind.REPLICA, topic_partition)
    return ParsedName(DirectoryKind.UNKNOWN, None)


def unique_name(seed: str, counter: int) -> str:
    """Return 32 hex digits, determined by seed and counter; each run of an agent needs its own seed."""
    return hashlib.blake2b(f"{seed}/{counter}".encode(), digest_size=16).hexdigest()


def _tagged(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    ending = f"-{topic_partition.partition}.{unique}{suffix}"
    return topic_partition.topic[: MAX_DIRECTORY_NAME_LENGTH - len(ending)] + ending
