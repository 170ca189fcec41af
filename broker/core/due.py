"""Partitions to which something is to be done, each at its time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace

from lethe.protocol.vocabulary import TopicPartition


@dataclass(slots=True)
class DueQueue:
    """Each partition is in it once. What enters during a step without a time of its own gets one at the step's end."""

    due_ms: dict[TopicPartition, int] = field(default_factory=dict)
    fresh: dict[TopicPartition, None] = field(default_factory=dict)
    """Entered during this step."""
    heap: list[tuple[int, int, TopicPartition]] = field(default_factory=list)
    """(due_ms, order, partition); entries that `due_ms` does not confirm are passed over."""
    added: int = 0

    def __len__(self) -> int:
        return len(self.due_ms) + len(self.fresh)

    def copy(self) -> DueQueue:
        return replace(self, due_ms=dict(self.due_ms), fresh=dict(self.fresh), heap=list(self.heap))

    def enter(self, topic_partition: TopicPartition) -> None:
        """Have it come up after the usual delay; one that waits already keeps its time."""
        if topic_partition not in self.due_ms:
            self.fresh[topic_partition] = None

    def add(self, topic_partition: TopicPartition, due_ms: int) -> None:
        """Have it come up at that time, whatever was said before."""
        self.fresh.pop(topic_partition, None)
        self.due_ms[topic_partition] = due_ms
        self.added += 1
        heapq.heappush(self.heap, (due_ms, self.added, topic_partition))

    def drop(self, topic_partition: TopicPartition) -> None:
        """It is not to come up any more; it may not have been in here."""
        self.due_ms.pop(topic_partition, None)
        self.fresh.pop(topic_partition, None)

    def end_step(self, due_ms: int) -> None:
        """What has entered during this step comes up at that time."""
        for topic_partition in tuple(self.fresh):
            self.add(topic_partition, due_ms)

    def next_due_ms(self) -> int | None:
        """When the next one comes up."""
        while self.heap and self.due_ms.get(self.heap[0][2]) != self.heap[0][0]:
            heapq.heappop(self.heap)
        return self.heap[0][0] if self.heap else None

    def take(self, now_ms: int, limit: int) -> tuple[TopicPartition, ...]:
        """Those whose time has come, at most so many; they leave."""
        taken: list[TopicPartition] = []
        while len(taken) < limit and (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            topic_partition = heapq.heappop(self.heap)[2]
            del self.due_ms[topic_partition]
            taken.append(topic_partition)
        return tuple(taken)
