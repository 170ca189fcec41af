"""Which incarnation of a topic a name means: the one that was named last, per topic and per partition.

UpdateMetadata, and ZooKeeper when it is asked, name a topic as a whole. LeaderAndIsr names the partitions that it
lists: a controller that has a debt paid names an earlier incarnation for the debt's partitions, while the others live
on. So the partitions for which LeaderAndIsr named another incarnation than the topic's are kept apart, until the topic
is named again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lethe.protocol.vocabulary import TopicId, TopicPartition


@dataclass(slots=True)
class NamedIncarnations:
    """Of the topics that were named with an id; outlives the tombstone until the replicas are gone."""

    of_topics: dict[str, TopicId] = field(default_factory=dict)
    of_partitions: dict[str, dict[int, TopicId]] = field(default_factory=dict)
    """By topic and partition, where it is not the topic's."""

    def copy(self) -> NamedIncarnations:
        return NamedIncarnations(
            dict(self.of_topics), {topic: dict(by_partition) for topic, by_partition in self.of_partitions.items()}
        )

    def of(self, topic_partition: TopicPartition) -> TopicId | None:
        """Return the id named last for this partition; None if none was."""
        by_partition = self.of_partitions.get(topic_partition.topic, {})
        return by_partition.get(topic_partition.partition) or self.of_topics.get(topic_partition.topic)

    def name_topic(self, topic: str, topic_id: TopicId) -> None:
        self.of_topics[topic] = topic_id
        self.of_partitions.pop(topic, None)

    def name_partitions(self, topic: str, partitions: Iterable[int], topic_id: TopicId) -> None:
        """Name these partitions; and the topic as a whole, if nothing has named it."""
        known = self.of_topics.setdefault(topic, topic_id)
        if topic_id != known:
            self.of_partitions.setdefault(topic, {}).update(dict.fromkeys(partitions, topic_id))
        elif by_partition := self.of_partitions.get(topic):
            for partition in partitions:
                by_partition.pop(partition, None)

    def forget(self, topic: str) -> None:
        self.of_topics.pop(topic, None)
        self.of_partitions.pop(topic, None)
