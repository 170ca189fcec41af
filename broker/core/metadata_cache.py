"""The metadata cache: brokers, topics and leaders as controllers reported them. Rules of UpdateMetadata as in Kafka
3.9.

The live brokers of a request replace the ones before; partitions are merged, one by one; leader -2 removes a
partition, and the last one of a topic removes the topic with its id. A request that names a topic without an id clears
the known id. A request that names another id replaces the topic: the partitions of the old one are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lethe.protocol.kafka.control import UpdateMetadataPartition, UpdateMetadataRequest, UpdateMetadataTopic
from lethe.protocol.listener_choice import ListenerChoice
from lethe.protocol.vocabulary import LEADER_DURING_DELETE, Broker, Endpoint, TopicId


@dataclass(slots=True)
class MetadataCache:
    brokers: dict[int, Broker] = field(default_factory=dict)
    controller_id: int | None = None
    topics: dict[str, dict[int, UpdateMetadataPartition]] = field(default_factory=dict)
    topic_ids: dict[str, TopicId] = field(default_factory=dict)
    topic_names: dict[TopicId, str] = field(default_factory=dict)
    partition_count: int = 0
    """Partitions of all topics, counted as they come and go."""

    def copy(self) -> MetadataCache:
        return MetadataCache(
            dict(self.brokers),
            self.controller_id,
            {topic: dict(partitions) for topic, partitions in self.topics.items()},
            dict(self.topic_ids),
            dict(self.topic_names),
            self.partition_count,
        )

    def apply(self, request: UpdateMetadataRequest) -> tuple[str, ...]:
        """Apply the request. Return the topics that it removed from the cache, in its order."""
        self.controller_id = request.controller_id if request.controller_id >= 0 else None
        self.brokers = {broker.id: broker for broker in request.live_brokers}
        removed: list[str] = []
        for topic in request.topics:
            if self._changes_topic_id(topic):
                # The removal of the old topic was never reported; none of its partitions belongs to the new topic.
                self.partition_count -= len(self.topics.pop(topic.topic, ()))
            self._set_topic_id(topic.topic, topic.topic_id)
            partitions = self.topics.setdefault(topic.topic, {})
            known = len(partitions)
            for partition in topic.partitions:
                if partition.leader == LEADER_DURING_DELETE:
                    partitions.pop(partition.partition, None)
                else:
                    partitions[partition.partition] = partition
            self.partition_count += len(partitions) - known
            if not partitions:
                del self.topics[topic.topic]
                self._set_topic_id(topic.topic, None)
                if known:
                    removed.append(topic.topic)
        return tuple(removed)

    def controller_endpoint(self, choice: ListenerChoice) -> Endpoint | None:
        """The controller's endpoint to connect to; None if it is not listed or has none that is configured."""
        if self.controller_id is None or (broker := self.brokers.get(self.controller_id)) is None:
            return None
        return choice.endpoint_of(broker)

    def forget_topics(self) -> tuple[str, ...]:
        """Remove and return all topics."""
        topics = tuple(self.topics)
        self.topics.clear()
        self.topic_ids.clear()
        self.topic_names.clear()
        self.partition_count = 0
        return topics

    def _changes_topic_id(self, topic: UpdateMetadataTopic) -> bool:
        """Whether the cached topic of that name has another id."""
        known = self.topic_ids.get(topic.topic)
        return known is not None and topic.topic_id is not None and known != topic.topic_id

    def _set_topic_id(self, topic: str, topic_id: TopicId | None) -> None:
        before = self.topic_ids.pop(topic, None)
        if before is not None and self.topic_names.get(before) == topic:
            del self.topic_names[before]
        if topic_id is not None:
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic
