"""What was asked for besides deletions: which partitions are to be moved where, and what became of that.

A wish is made by an entry that somebody writes into `/admin/reassign_partitions`, or by a client's request that a
controller has accepted. A later entry for the same partition overrides it; an entry that somebody takes out again, or
that goes with its topic, is waived: then it may have been fulfilled or not. What the controller takes out of the znode
is no longer asked for because it was done, or because it could not be done: that is what is judged in the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import znodes
from lethe.protocol.zookeeper.operations import Create, Delete, Operation, SetData
from tests.simulation.world import is_controller

if TYPE_CHECKING:
    from tests.simulation.ledger import Incarnation


class Wish(NamedTuple):
    """One partition of one incarnation is to have these replicas and no others, the first of them preferred."""

    incarnation: Incarnation
    partition: int
    target: tuple[int, ...]

    @property
    def can_be_fulfilled(self) -> bool:
        """The partition lives, nobody wants its topic to go, and the target makes sense."""
        incarnation, partition, target = self
        lives = incarnation.removed_by is None and not incarnation.asked and partition in incarnation.assignments
        makes_sense = bool(target) and len(set(target)) == len(target) and min(target) >= 0
        return lives and makes_sense and not any(is_controller(broker) for broker in target)

    @property
    def is_fulfilled(self) -> bool:
        """The topic's znode says so, and nothing of the move is left."""
        assignment = self.incarnation.assignments.get(self.partition)
        return assignment is not None and assignment == (self.target, (), ())


class Wishes:
    """Kept by looking at each write to `/admin/reassign_partitions`."""

    def __init__(self) -> None:
        self.open: dict[TopicPartition, Wish] = {}
        """Those that nobody has overridden or waived, also after the controller has taken them out."""
        self._made: dict[tuple[int, int], None] = {}
        self.count: dict[TopicPartition, int] = {}
        """How often somebody has changed what the znode says of the partition."""
        self.asked_for: dict[TopicPartition, tuple[int, ...]] = {}
        """What the znode says now."""

    def was_made(self, incarnation: Incarnation, partition: int) -> bool:
        """Somebody has wanted other replicas for that partition, whatever became of it."""
        return (incarnation.number, partition) in self._made

    def waive(self, incarnation: Incarnation) -> None:
        """Nobody asks for moves of this topic any more."""
        for topic_partition in [at for at, wish in self.open.items() if wish.incarnation is incarnation]:
            del self.open[topic_partition]

    def book(self, operation: Operation, living: Mapping[str, Incarnation], *, by_controller: bool) -> None:
        """Take note of one operation on the znode."""
        match operation:
            case Create(data=data) | SetData(data=data):
                written = _understood(data)
            case Delete():
                written = {}
            case _:
                return
        before, self.asked_for = self.asked_for, written
        if by_controller:
            return
        for topic_partition in before:
            if topic_partition not in written:
                self._changed(topic_partition)
                self.open.pop(topic_partition, None)
        for topic_partition, target in written.items():
            if before.get(topic_partition) != target or self._is_of_another_life(topic_partition, living):
                self._wish(topic_partition, target, living)

    def granted(self, incarnation: Incarnation, partition: int, target: tuple[int, ...]) -> None:
        """A controller has promised a client to move the partition."""
        self.open[TopicPartition(incarnation.name, partition)] = Wish(incarnation, partition, target)

    def is_unchanged(self, topic_partition: TopicPartition, count_before: Mapping[TopicPartition, int]) -> bool:
        """Nobody has changed the znode's entry for the partition since the counts were these."""
        return self.count.get(topic_partition, 0) == count_before.get(topic_partition, 0)

    def _changed(self, topic_partition: TopicPartition) -> None:
        self.count[topic_partition] = self.count.get(topic_partition, 0) + 1

    def _is_of_another_life(self, topic_partition: TopicPartition, living: Mapping[str, Incarnation]) -> bool:
        """What was said of an earlier incarnation, or before there was one, is said again: now it means this one."""
        wish = self.open.get(topic_partition)
        return wish is None or wish.incarnation is not living.get(topic_partition.topic)

    def _wish(
        self, topic_partition: TopicPartition, target: tuple[int, ...], living: Mapping[str, Incarnation]
    ) -> None:
        incarnation = living.get(topic_partition.topic)
        self._changed(topic_partition)
        self.open.pop(topic_partition, None)
        if incarnation is not None:
            # It may be fulfilled also where the partition is only added before a controller reads of it.
            self._made[incarnation.number, topic_partition.partition] = None
        if incarnation is not None and topic_partition.partition in incarnation.assignments:
            self.open[topic_partition] = Wish(incarnation, topic_partition.partition, target)


def _understood(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    try:
        return znodes.decode_reassignment(data)
    except znodes.MalformedZnode:
        return {}
