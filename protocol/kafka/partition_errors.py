"""What a broker answers for the partitions of one topic, as rows and as bit sets.

Nearly all partitions of a topic have the same error, NONE, so an answer about hundreds of thousands of replicas is
mostly one bit set for each topic. Topics of one size share the value. There are two bit sets and not one for each
error, because a peer may answer each row with another one.

    rows                0: NONE, 1: NONE, 2: KAFKA_STORAGE_ERROR
    among(0b1111)       0b0011 without an error, 0b0100 with one; 3 was not answered
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from lethe.protocol.partition_bits import Bits, bits_of
from lethe.protocol.vocabulary import TopicId

_SMALL: Final = 4_096
"""A bit set takes as many bits as its highest number says, so a peer may make only small ones that are kept."""


class PartitionErrors(NamedTuple):
    """Errors of one topic's partitions; `of_rows` makes it."""

    rows: tuple[tuple[int, int], ...]
    """(partition, error), as answered. Partitions may be repeated, or be numbers that no topic has."""
    kept: tuple[Bits, Bits] | None
    """The partitions without and with an error, where all numbers are small."""

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[int, int]]) -> PartitionErrors:
        """Return the errors in these rows of (partition, error)."""
        listed = tuple(rows)
        return cls(listed, _split(listed, _SMALL) if all(number < _SMALL for number, _ in listed) else None)

    def among(self, asked: Bits) -> tuple[Bits, Bits]:
        """Return those of these partitions that were answered without an error, and those with one: a partition with
        two rows may be both."""
        fine, failed = _split(self.rows, asked.bit_length()) if self.kept is None else self.kept
        return fine & asked, failed & asked

    @property
    def has_error(self) -> bool:
        """Return whether any row has an error."""
        return any(error for _, error in self.rows) if self.kept is None else self.kept[1] != 0

    @classmethod
    def uniform(cls, numbers: Iterable[int], error: int) -> PartitionErrors:
        """Return the same error for all these partitions."""
        return cls.of_rows((number, error) for number in numbers)

    @classmethod
    def joined(cls, parts: Sequence[PartitionErrors]) -> PartitionErrors:
        """Return the errors in the rows of all parts."""
        return parts[0] if len(parts) == 1 else cls.of_rows(row for each in parts for row in each.rows)


def _split(rows: Iterable[tuple[int, int]], below: int) -> tuple[Bits, Bits]:
    """Return the partitions below this number without and with an error."""
    fine: list[int] = []
    failed: list[int] = []
    for number, error in rows:
        if 0 <= number < below:
            (failed if error else fine).append(number)
    return bits_of(fine), bits_of(failed)


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
