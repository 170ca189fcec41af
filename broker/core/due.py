"""A queue of partitions, each with a due time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace

from lethe.protocol.vocabulary import TopicPartition


@dataclass(slots=True)
class DueQueue:
    """A queue in which each partition stands once. An entry without a due time gets one at the end of the step."""

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
        """Add the partition with the usual delay; one that is queued keeps its due time."""
        if topic_partition not in self.due_ms:
            self.fresh[topic_partition] = None

    def add(self, topic_partition: TopicPartition, due_ms: int) -> None:
        """Add the partition with this due time, which replaces an earlier one."""
        self.fresh.pop(topic_partition, None)
        self.due_ms[topic_partition] = due_ms
        self.added += 1
        heapq.heappush(self.heap, (due_ms, self.added, topic_partition))

    def drop(self, topic_partition: TopicPartition) -> None:
        """Remove the partition, if it is queued."""
        self.due_ms.pop(topic_partition, None)
        self.fresh.pop(topic_partition, None)

    def end_step(self, due_ms: int) -> None:
        """Give this due time to the entries of this step."""
        for topic_partition in tuple(self.fresh):
            self.add(topic_partition, due_ms)

    def next_due_ms(self) -> int | None:
        """The earliest due time; None if the queue is empty."""
        while self.heap and self.due_ms.get(self.heap[0][2]) != self.heap[0][0]:
            heapq.heappop(self.heap)
        return self.heap[0][0] if self.heap else None

    def take(self, now_ms: int, limit: int) -> tuple[TopicPartition, ...]:
        """Remove and return the partitions that are due, at most `limit`."""
        taken: list[TopicPartition] = []
        while len(taken) < limit and (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            topic_partition = heapq.heappop(self.heap)[2]
            del self.due_ms[topic_partition]
            taken.append(topic_partition)
        return tuple(taken)
