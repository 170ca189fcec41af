"""What a Metadata answer says about the metadata cache of the broker that gave it. Pure.

A broker leaves out of an answer about all topics those that the asker is not authorized to describe, and names no
error. Asked about such a topic by its name it answers TOPIC_AUTHORIZATION_FAILED, whether or not it has the topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataTopic
from lethe.protocol.vocabulary import ZERO_TOPIC_ID, TopicId

FIRST_WITHOUT_CREATION: Final = 4
"""The first Metadata version that can say that the broker shall not create the topics that it is asked about."""


class CachedTopic(NamedTuple):
    """A topic as a broker's metadata cache has it."""

    topic_id: TopicId | None
    """None where the cache has no id for it, or the version of the answer carries none."""
    partitions: tuple[int, ...]
    """In ascending order."""


def cached_topics(answered: Iterable[MetadataTopic]) -> dict[str, CachedTopic]:
    """Return the topics that the cache has, by name. A topic that the broker does not have, or hides, is left out."""
    return {
        topic.name: CachedTopic(
            None if topic.topic_id == ZERO_TOPIC_ID else topic.topic_id,
            tuple(sorted(partition.partition for partition in topic.partitions)),
        )
        for topic in sorted(answered, key=lambda topic: topic.name or "")
        if topic.name is not None and topic.partitions
    }


def undecided_topics(answered: Iterable[MetadataTopic]) -> tuple[MetadataTopic, ...]:
    """Return the topics about which the broker answers neither that it has them nor that they are unknown to it."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return tuple(topic for topic in answered if not topic.partitions and topic.error != unknown)
