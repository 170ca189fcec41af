"""What really happened to topics, as someone would know it who saw every write: what the invariants go by.

A topic's name says little: it may be used again. An *incarnation* is one life of a name, from the write that created
its znode to the one that removed it. Bytes on disk belong to an incarnation, and a deletion is asked for one:
the one that lives while the marker is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.vocabulary import LeaderAndIsr, TopicId
from protocol.zookeeper import paths, znodes
from protocol.zookeeper.operations import Check, Create, Delete, Operation, SetData


@dataclass(slots=True, eq=False)
class Incarnation:
    """One life of a topic's name."""

    name: str
    number: int
    readable: bool = False
    topic_id: TopicId | None = None
    replicas: dict[int, tuple[int, ...]] = field(default_factory=dict)
    states: dict[int, LeaderAndIsr] = field(default_factory=dict)
    """What each partition's state znode says now."""
    touched: dict[int, None] = field(default_factory=dict)
    """Partitions whose state was last written by somebody who is no controller."""
    asked: bool = False
    """A marker was there while it lived."""
    removed_by: str | None = None

    def __str__(self) -> str:
        return f"{self.name} (its life number {self.number})"

    @property
    def brokers(self) -> tuple[int, ...]:
        """Every broker that has a replica."""
        return tuple(dict.fromkeys(broker for replicas in self.replicas.values() for broker in replicas))


class Ledger:
    """Kept by looking at each write that took effect."""

    def __init__(self) -> None:
        self.living: dict[str, Incarnation] = {}
        self.all: list[Incarnation] = []
        self.by_id: dict[TopicId, Incarnation] = {}
        self.marked: dict[str, None] = {}

    def book(self, writer: str, operation: Operation, *, by_controller: bool) -> None:
        """Take note of one operation."""
        path = operation.path
        if path.startswith("/brokers/topics/"):
            state_of = paths.state_of(path)
            if state_of is not None:
                self._state(operation, *state_of, by_controller=by_controller)
            elif (name := paths.topic_of(path)) is not None:
                self._topic(writer, operation, name)
        elif (name := paths.deleted_topic_of(path)) is not None:
            self._marker(operation, name)

    def _topic(self, writer: str, operation: Operation, name: str) -> None:
        match operation:
            case Create(data=data):
                incarnation = Incarnation(name, len(self.all) + 1, asked=name in self.marked)
                self.all.append(incarnation)
                self.living[name] = incarnation
                self._content(incarnation, data)
            case SetData(data=data):
                self._content(self.living[name], data)
            case Delete():
                self.living.pop(name).removed_by = writer
            case Check():
                pass

    def _content(self, incarnation: Incarnation, data: bytes | None) -> None:
        try:
            znode = znodes.decode_topic(incarnation.name, data)
        except znodes.MalformedZnode:
            incarnation.readable = False
            return
        incarnation.readable = True
        incarnation.replicas = {partition: replicas.replicas for partition, replicas in znode.assignments.items()}
        if znode.topic_id is not None:
            incarnation.topic_id = znode.topic_id
            self.by_id[znode.topic_id] = incarnation

    def _state(self, operation: Operation, name: str, partition: int, *, by_controller: bool) -> None:
        incarnation = self.living.get(name)
        if incarnation is None:
            return
        incarnation.touched.pop(partition, None)
        if not by_controller:
            incarnation.touched[partition] = None
        match operation:
            case Create(data=data):
                state = znodes.decode_state(name, partition, data, 0)
            case SetData(data=data):
                before = incarnation.states[partition]
                state = znodes.decode_state(name, partition, data, before.partition_epoch + 1)
            case _:
                state = None
        if state is None:
            incarnation.states.pop(partition, None)
        else:
            incarnation.states[partition] = state

    def _marker(self, operation: Operation, name: str) -> None:
        match operation:
            case Create():
                self.marked[name] = None
                if name in self.living:
                    self.living[name].asked = True
            case Delete():
                self.marked.pop(name, None)
            case SetData() | Check():
                pass
