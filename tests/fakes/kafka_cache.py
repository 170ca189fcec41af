"""A broker's metadata cache with the rules of Kafka's own brokers, 2.5 to 3.9, as `ZkMetadataCache.updateMetadata` has
them: unlike our agents' it keeps partitions of an earlier topic of the same name, whatever the new one's id is."""

from __future__ import annotations

from collections.abc import Collection

from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.control import UpdateMetadataRequest
from lethe.protocol.vocabulary import LEADER_DURING_DELETE, TopicId


class KafkaCache:
    """Topics only; who is live does not matter here."""

    def __init__(self) -> None:
        self.partitions: dict[str, dict[int, None]] = {}
        self.ids: dict[str, TopicId] = {}

    def plant(self, topic: str, *partitions: int, topic_id: TopicId | None = None) -> None:
        """Put in what some controller of an earlier time has told the broker."""
        self.partitions[topic] = dict.fromkeys(partitions)
        if topic_id is not None:
            self.ids[topic] = topic_id

    def apply(self, request: UpdateMetadataRequest) -> None:
        """Merge: ids first, then partition by partition; leader -2 removes one, and the last one the topic."""
        for topic in request.topics:
            if topic.topic_id is None:
                self.ids.pop(topic.topic, None)
            else:
                self.ids[topic.topic] = topic.topic_id
        for topic in request.topics:
            for row in topic.partitions:
                if row.leader != LEADER_DURING_DELETE:
                    self.partitions.setdefault(topic.topic, {})[row.partition] = None
                elif topic.topic in self.partitions:
                    self.partitions[topic.topic].pop(row.partition, None)
                    if not self.partitions[topic.topic]:
                        del self.partitions[topic.topic]
                        self.ids.pop(topic.topic, None)

    def shown(self, topics: Collection[str] | None = None) -> dict[str, CachedTopic]:
        """What a Metadata answer about these topics shows; None: about all."""
        return {
            name: CachedTopic(self.ids.get(name), tuple(sorted(numbers)))
            for name, numbers in sorted(self.partitions.items())
            if topics is None or name in topics
        }
