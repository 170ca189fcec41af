"""Names of directories inside a log directory, both ways.

`<topic>-<partition>` is a replica, `<topic>-<partition>.<32 hex digits>-delete` one that was deleted and waits for its
removal, the same with `-stray` one that was set aside. Everything else is unknown and left alone, and so is what has a
number that no partition has. A name is a replica's only if building it again gives the same text, so no two names mean
one replica and no name leaves the directory.
"""

from __future__ import annotations

import enum
import hashlib
import re
from typing import Final, NamedTuple

from lethe.protocol.vocabulary import TopicPartition, topic_name_problem

MAX_DIRECTORY_NAME_LENGTH: Final = 255
"""What file systems take, and where Kafka cuts the topic in a name that it makes."""
MAX_PARTITION: Final = 2**31 - 1

DELETE_SUFFIX: Final = "-delete"
NEVER_CUT: Final = MAX_DIRECTORY_NAME_LENGTH - len(f"-{MAX_PARTITION}.{'0' * 32}{DELETE_SUFFIX}") - 1
"""A topic of which the name of a directory tells at most so many characters is told whole, whatever its partition."""
STRAY_SUFFIX: Final = "-stray"
_TAGGED: Final = re.compile(r"(?P<stem>.+)-(?P<partition>\d+)\.[0-9a-f]{32}(?P<suffix>-delete|-stray)\Z", re.ASCII)


class DirectoryKind(enum.Enum):
    REPLICA = "replica"
    DELETED = "deleted"
    STRAY = "stray"
    UNKNOWN = "unknown"


class ParsedName(NamedTuple):
    kind: DirectoryKind
    topic_partition: TopicPartition | None
    """Of a replica; of a deleted or stray one as far as its name tells, the topic may have been cut."""


def partition_problem(topic_partition: TopicPartition) -> str | None:
    """Why no directory can be named for this partition, in words that can be shown; None where one can."""
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
    """Whether there may be such a partition, however long its directory's name would be."""
    return topic_name_problem(topic_partition.topic) is None and 0 <= topic_partition.partition <= MAX_PARTITION


def directory_name(topic_partition: TopicPartition) -> str:
    """`orders-3`. Raises ValueError for a partition that no directory can be named for."""
    if problem := partition_problem(topic_partition):
        raise ValueError(problem)
    return str(topic_partition)


def deletion_name(topic_partition: TopicPartition, unique: str) -> str:
    """`orders-3.<unique>-delete`, the topic cut so that the whole fits; `unique` is 32 hex digits. Of a partition that
    has a directory, so that its name need not be judged again."""
    return _tagged(topic_partition, unique, DELETE_SUFFIX)


def stray_name(topic_partition: TopicPartition, unique: str) -> str:
    """`orders-3.<unique>-stray`, otherwise like `deletion_name`."""
    return _tagged(topic_partition, unique, STRAY_SUFFIX)


def parse_directory_name(name: str) -> ParsedName:
    """What a directory of that name inside a log directory is."""
    if tagged := _TAGGED.match(name):
        kind = DirectoryKind.DELETED if tagged["suffix"] == DELETE_SUFFIX else DirectoryKind.STRAY
        topic_partition = TopicPartition(tagged["stem"], int(tagged["partition"]))
        if is_of_a_partition(topic_partition):
            return ParsedName(kind, topic_partition)
        return ParsedName(DirectoryKind.UNKNOWN, None)
    topic, dash, digits = name.rpartition("-")
    if dash and digits.isascii() and digits.isdigit():
        topic_partition = TopicPartition(topic, int(digits))
        if partition_problem(topic_partition) is None and str(topic_partition) == name:
            return ParsedName(DirectoryKind.REPLICA, topic_partition)
    return ParsedName(DirectoryKind.UNKNOWN, None)


def unique_name(seed: str, counter: int) -> str:
    """32 hex digits, the same for the same seed and counter; a seed is used by one run of one agent."""
    return hashlib.blake2b(f"{seed}/{counter}".encode(), digest_size=16).hexdigest()


def _tagged(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    ending = f"-{topic_partition.partition}.{unique}{suffix}"
    return topic_partition.topic[: MAX_DIRECTORY_NAME_LENGTH - len(ending)] + ending
