"""Names of directories inside a log directory, both ways.

    orders-3                       REPLICA    a replica of partition 3 of topic orders
    orders-3.<32 hex>-future       FUTURE     the same, on its way from one log directory to another
    orders-3.<32 hex>-delete       DELETED    renamed by its broker, to be removed later
    orders-3.<32 hex>-stray        STRAY      quarantined by its broker, for a person to look at
    orders, orders-03, lost+found  UNKNOWN    not Kafka's, or with a number that no partition has

A name is a replica's only if building it again gives the same text. So two names never mean one replica, and no name
leaves the directory.
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
    """Not Kafka's; never judged."""


_TAGGED_KINDS: Final = {
    DELETE_SUFFIX: DirectoryKind.DELETED,
    FUTURE_SUFFIX: DirectoryKind.FUTURE,
    STRAY_SUFFIX: DirectoryKind.STRAY,
}


class ParsedName(NamedTuple):
    kind: DirectoryKind
    topic_partition: TopicPartition | None
    """None for UNKNOWN. The topic of a deleted, stray or future directory may have been cut to fit a file system."""


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
    """32 hex digits, the same for the same seed and counter; a seed is used by one run of one agent."""
    return hashlib.blake2b(f"{seed}/{counter}".encode(), digest_size=16).hexdigest()


def _tagged(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    ending = f"-{topic_partition.partition}.{unique}{suffix}"
    return topic_partition.topic[: MAX_DIRECTORY_NAME_LENGTH - len(ending)] + ending
