"""Content of a broker's metadata cache, derived from its Metadata response.

In a response about all topics, a broker omits the topics that the client is not authorized to describe, without an
error. Asked about such a topic by name it answers TOPIC_AUTHORIZATION_FAILED, whether or not it has the topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataTopic
from lethe.protocol.vocabulary import ZERO_TOPIC_ID, TopicId

FIRST_WITHOUT_CREATION: Final = 4
"""First Metadata version in which a client can forbid that the broker creates the requested topics."""


class CachedTopic(NamedTuple):
    """A topic in a broker's metadata cache."""

    topic_id: TopicId | None
    """None if the cache has no id for the topic, or if the version of the response has no ids."""
    partitions: tuple[int, ...]
    """In ascending order."""


def cached_topics(answered: Iterable[MetadataTopic]) -> dict[str, CachedTopic]:
    """Return the topics in the cache by name, without those that the broker lacks or hides."""
    return {
        topic.name: CachedTopic(
            None if topic.topic_id == ZERO_TOPIC_ID else topic.topic_id,
            tuple(sorted(partition.partition for partition in topic.partitions)),
        )
        for topic in sorted(answered, key=lambda topic: topic.name or "")
        if topic.name is not None and topic.partitions
    }


def undecided_topics(answered: Iterable[MetadataTopic]) -> tuple[MetadataTopic, ...]:
    """Return the topics that the broker reports neither as existing nor as unknown."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return tuple(topic for topic in answered if not topic.partitions and topic.error != unknown)
