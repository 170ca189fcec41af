"""What a broker answers for the partitions of one topic, as rows and as bit sets.

Nearly all partitions of a topic have the same error, NONE, so an answer about hundreds of thousands of replicas is
mostly one bit set for each topic. Topics of one size share the value.

    rows         (0, NONE), (1, NONE), (2, KAFKA_STORAGE_ERROR)
    by_error     ((NONE, 0b011), (KAFKA_STORAGE_ERROR, 0b100))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from lethe.protocol.partition_bits import Bits, bits_of
from lethe.protocol.vocabulary import MAX_PARTITIONS, TopicId

_SMALL: Final = 4_096
"""A bit set takes as many bits as its highest number says, so a peer may make only small ones that are kept."""


class PartitionErrors(NamedTuple):
    """Errors of one topic's partitions; `of_rows` makes it."""

    rows: tuple[tuple[int, int], ...]
    """(partition, error), as answered. Partitions may be repeated, or be numbers that no topic has."""
    kept: tuple[tuple[int, Bits], ...] | None
    """`by_error` where all numbers are small."""

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[int, int]]) -> PartitionErrors:
        """Return the errors in these rows of (partition, error)."""
        listed = tuple(rows)
        return cls(listed, _by_error(listed) if all(number < _SMALL for number, _ in listed) else None)

    @property
    def by_error(self) -> tuple[tuple[int, Bits], ...]:
        """The partitions with each error, without numbers that no topic has; errors in the order of their first row."""
        return _by_error(self.rows) if self.kept is None else self.kept

    @classmethod
    def uniform(cls, numbers: Iterable[int], error: int) -> PartitionErrors:
        """Return the same error for all these partitions."""
        return cls.of_rows((number, error) for number in numbers)

    @classmethod
    def joined(cls, parts: Sequence[PartitionErrors]) -> PartitionErrors:
        """Return the errors in the rows of all parts."""
        return parts[0] if len(parts) == 1 else cls.of_rows(row for each in parts for row in each.rows)

    @property
    def only_error(self) -> int | None:
        """The error of every partition; None where they differ, and without partitions."""
        by_error = self.by_error
        return by_error[0][0] if len(by_error) == 1 else None


def _by_error(rows: Iterable[tuple[int, int]]) -> tuple[tuple[int, Bits], ...]:
    found: dict[int, list[int]] = {}
    for number, error in rows:
        if 0 <= number < MAX_PARTITIONS:
            found.setdefault(error, []).append(number)
    return tuple((error, bits_of(numbers)) for error, numbers in found.items())


class TopicErrors(NamedTuple):
    """Errors of one topic. Either the name or the id may be missing (None), or both."""

    topic: str | None
    topic_id: TopicId | None
    errors: PartitionErrors


Row = tuple[str | None, TopicId | None, int, int]
"""(topic, topic id, partition, error)"""
_TOPIC = itemgetter(0, 1)
_PARTITION_AND_ERROR = itemgetter(2, 3)


def by_topic(rows: Iterable[Row]) -> tuple[TopicErrors, ...]:
    """Return the errors in these rows; adjacent rows of a topic share an entry."""
    return tuple(
        TopicErrors(topic, topic_id, PartitionErrors.of_rows(map(_PARTITION_AND_ERROR, each)))
        for (topic, topic_id), each in groupby(rows, _TOPIC)
    )


def without_seams(topics: Iterable[TopicErrors]) -> tuple[TopicErrors, ...]:
    """Return the topics with adjacent entries of one topic joined: its rows came in several responses."""
    return tuple(
        TopicErrors(topic, topic_id, PartitionErrors.joined([each.errors for each in parts]))
        for (topic, topic_id), parts in groupby(topics, _TOPIC)
    )
