"""What really happened to topics, as someone would know it who saw every write: what the invariants go by.

A topic's name says little: it may be used again. An *incarnation* is one life of a name, from the write that created
its znode to the one that removed it. Bytes on disk belong to an incarnation, and a deletion is asked for one:
the one that lives while the marker is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lethe.protocol.kafka.to_controller import AdminRequest
from lethe.protocol.vocabulary import LeaderAndIsr, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Check, Create, Delete, Operation, SetData
from tests.simulation.client_book import ClientBook
from tests.simulation.config_book import ConfigBook
from tests.simulation.trash_book import TrashBook
from tests.simulation.wishes import Wishes
from tests.simulation.world import is_controller


def lasting(operations: Iterable[Operation]) -> list[Operation]:
    """Without the znodes that are made and at once unmade: that only says that there were none."""
    kept: list[Operation] = []
    for operation in operations:
        before = kept[-1] if kept else None
        if isinstance(operation, Delete) and isinstance(before, Create) and before.path == operation.path:
            kept.pop()
        else:
            kept.append(operation)
    return kept


@dataclass(slots=True, eq=False)
class Incarnation:
    """One life of a topic's name."""

    name: str
    number: int
    readable: bool = False
    topic_id: TopicId | None = None
    assignments: dict[int, ReplicaAssignment] = field(default_factory=dict)
    states: dict[int, LeaderAndIsr] = field(default_factory=dict)
    """What each partition's state znode says now."""
    written: dict[tuple[int, int], LeaderAndIsr] = field(default_factory=dict)
    """What each partition's state has been, by (partition, version of the znode)."""
    proposed: dict[tuple[int, int, tuple[int, ...]], None] = field(default_factory=dict)
    """(partition, leader epoch, ISR) that a leader has asked its controller for."""
    touched: dict[int, str] = field(default_factory=dict)
    """Partitions whose state was last written by somebody who is no controller and has not told the controller."""
    foreign: dict[int, None] = field(default_factory=dict)
    """Partitions whose state was last written by somebody who is no controller."""
    maimed: dict[int, None] = field(default_factory=dict)
    """Partitions whose state somebody has removed by hand: where the deletion is called off they begin again as new,
    and what a broker has of them then is another copy."""
    czxid: int = 0
    """Of its znode."""
    asked: bool = False
    """A marker was there while it lived, named no other topic, and was not taken back by request."""
    condemned: bool = False
    """Some controller that had read that topics may be deleted has queued it."""
    noted: bool = False
    """Its marker says that its deletion has begun, and the controller that wrote so had read that it may be deleted."""
    ended: int = 0
    """The marker with which it has left the trash, counted as `marker` is."""
    begun: int | None = None
    """The last czxid that its marker has named as begun; a person may have written over it. A marker that was created
    in the same write as the topic says as much."""
    marker: int = 0
    """So many markers it has had."""
    ordered: dict[tuple[int, int], int] = field(default_factory=dict)
    """(partition, broker) that a controller has asked the broker to delete with the topic, and that is not deleted yet;
    with the marker of that time, 0 where another controller was active. A reassignment's order is none of these."""
    deleted_under: int = 0
    """The last of them while which a replica was deleted that had been ordered so."""
    graces: dict[int | None, None] = field(default_factory=dict)
    """For how long those markers have ordered it to stay in the trash, in ms; None: one has ordered nothing."""
    departed: dict[tuple[int, int], None] = field(default_factory=dict)
    """(partition, broker) that has been an assigned replica and is none any more."""
    released: dict[tuple[int, int], None] = field(default_factory=dict)
    """(partition, broker) that a reassignment has ever wanted to go, or that has gone."""
    deleted: dict[tuple[int, int], None] = field(default_factory=dict)
    """(partition, broker) that the broker has renamed for deletion after the topic was condemned."""
    refused: dict[tuple[int, int], None] = field(default_factory=dict)
    """(partition, broker) that a reassignment wants to go, and of which the broker has said that it cannot."""
    strays: dict[tuple[int, int], None] = field(default_factory=dict)
    """(partition, broker) with a directory that no order reaches: see `departures`."""
    copies: dict[tuple[int, int, str], None] = field(default_factory=dict)
    """(partition, broker, log directory) with a second copy that no order reaches: see `departures`."""
    lost: dict[int, None] = field(default_factory=dict)
    """Brokers that were given up while it was marked, or owed: see `forgetting`."""
    requests: list[AdminRequest] = field(default_factory=list)
    """Those of clients that name it and were with a controller while it lived."""
    in_trash: bool = False
    """It has no znode, and its records are to stay: see `trash_book`."""
    was_in_trash: bool = False
    removed_by: str | None = None
    removed_in: int | None = None
    """The epoch of the controller that has removed it; None where nobody has, or somebody else, or where that
    controller has loaded everything anew under the same epoch."""

    def __str__(self) -> str:
        return f"{self.name} (its life number {self.number})"

    @property
    def brokers(self) -> tuple[int, ...]:
        """Every broker that has a replica."""
        named = dict.fromkeys(broker for each in self.assignments.values() for broker in each.replicas)
        return tuple(broker for broker in named if not is_controller(broker))

    def replicas(self, partition: int) -> tuple[int, ...]:
        """The partition's replicas, those that are being added or removed included; none where there is no such."""
        assignment = self.assignments.get(partition)
        return () if assignment is None else assignment.replicas

    @property
    def is_settled(self) -> bool:
        """No partition of it is being reassigned."""
        return not any(each.is_being_reassigned for each in self.assignments.values())

    def ingest(self, assignments: dict[int, ReplicaAssignment]) -> None:
        """The topic's znode says this now."""
        for partition, before in self.assignments.items():
            after = assignments.get(partition)
            for broker in before.replicas:
                if after is None or broker not in after.replicas:
                    self.departed[partition, broker] = self.released[partition, broker] = None
        for partition, each in assignments.items():
            for broker in each.removing:
                self.released[partition, broker] = None
            for broker in each.replicas:
                if (partition, broker) in self.departed:
                    del self.departed[partition, broker]
                    self.strays.pop((partition, broker), None)
        self.assignments = assignments


class Ledger:
    """Kept by looking at each write that took effect."""

    def __init__(self) -> None:
        self.living: dict[str, Incarnation] = {}
        self.all: list[Incarnation] = []
        self.by_id: dict[TopicId, Incarnation] = {}
        self.marked: dict[str, int | None] = {}
        """With the czxid of the topic that the marker names, if it names one."""
        self._graces: dict[str, int | None] = {}
        """What the marker orders about the trash."""
        self.last_named: dict[str, int | None] = {}
        """The same of the last marker that was removed."""
        self.wishes = Wishes()
        self.trash = TrashBook()
        self.clients = ClientBook()
        self.configs = ConfigBook()
        self.by_zxid: dict[tuple[int, str], Incarnation] = {}
        """By the zxid of the write that created its znode, and its name."""

    def book(self, writer: str, operation: Operation, zxid: int, *, by_controller: bool) -> None:
        """Take note of one operation."""
        path = operation.path
        if path.startswith("/brokers/topics/"):
            state_of = paths.state_of(path)
            if state_of is not None:
                self._state(writer, operation, *state_of, by_controller=by_controller)
            elif (name := paths.topic_of(path)) is not None:
                self._topic(writer, operation, name, zxid)
        elif (name := paths.deleted_topic_of(path)) is not None:
            self._marker(operation, name, zxid)
        elif isinstance(operation, Create) and paths.parent_of(path) == paths.isr_change_notifications():
            self._told(writer, operation)
        elif path == paths.REASSIGN_PARTITIONS:
            self.wishes.book(operation, self.living, by_controller=by_controller)
        else:
            self.trash.book(operation)

    def book_cancellations(self, operations: Sequence[Operation]) -> None:
        """Take note of topics that a controller lets stay by request: marker and request go together. What the marker
        ordered is void, unless the deletion of replicas had begun for an earlier one. After `book`."""
        removed = [each.path for each in operations if isinstance(each, Delete)]
        for name in map(paths.deleted_topic_of, removed):
            living = None if name is None else self.living.get(name)
            if name is None or living is None or paths.request(name) not in removed:
                continue
            if not living.deleted_under and not any(living.ordered.values()):
                living.asked = living.condemned = False
                living.graces.clear()
                self.wishes.waive(living)

    def _topic(self, writer: str, operation: Operation, name: str, zxid: int) -> None:
        match operation:
            case Create(data=data):
                incarnation = self._returned(name, data) or Incarnation(name, len(self.all) + 1)
                if incarnation.number > len(self.all):
                    self.all.append(incarnation)
                incarnation.czxid = zxid
                self.living[name] = self.by_zxid[zxid, name] = incarnation
                self._ask(incarnation)
                self._content(incarnation, data)
                self.clients.born(incarnation)
            case SetData(data=data):
                self._content(self.living[name], data)
            case Delete():
                incarnation = self.living.pop(name)
                if self.trash.goes_in(incarnation):
                    self.wishes.waive(incarnation)
                else:
                    incarnation.removed_by = writer
            case Check():
                pass

    def _returned(self, name: str, data: bytes | None) -> Incarnation | None:
        if name not in self.trash.kept:
            return None
        try:
            return self.trash.returns(name, znodes.decode_topic(name, data).topic_id)
        except znodes.MalformedZnode:
            return None

    def _content(self, incarnation: Incarnation, data: bytes | None) -> None:
        try:
            znode = znodes.decode_topic(incarnation.name, data)
        except znodes.MalformedZnode:
            incarnation.readable = False
            return
        incarnation.readable = True
        incarnation.ingest(dict(znode.assignments))
        if znode.topic_id is not None:
            incarnation.topic_id = znode.topic_id
            self.by_id[znode.topic_id] = incarnation

    def _state(self, writer: str, operation: Operation, name: str, partition: int, *, by_controller: bool) -> None:
        incarnation = self.living.get(name)
        if incarnation is None:
            return
        incarnation.touched.pop(partition, None)
        incarnation.foreign.pop(partition, None)
        if not by_controller:
            incarnation.foreign[partition] = None
            incarnation.touched[partition] = writer
        match operation:
            case Create(data=data):
                state = znodes.decode_state(name, partition, data, 0)
            case SetData(data=b""):
                # It only raises the version; `trash` has judged what the last write of the multi says.
                before = incarnation.states[partition]
                state = before._replace(partition_epoch=before.partition_epoch + 1)
            case SetData(data=data):
                before = incarnation.states[partition]
                state = znodes.decode_state(name, partition, data, before.partition_epoch + 1)
            case _:
                state = None
        if state is None:
            incarnation.states.pop(partition, None)
            if not by_controller:
                incarnation.maimed[partition] = None
        else:
            incarnation.states[partition] = state
            incarnation.written[partition, state.partition_epoch] = state

    def _told(self, writer: str, operation: Create) -> None:
        """A leader says whose ISRs it has written."""
        for name, partition in znodes.decode_isr_change(operation.path, operation.data):
            incarnation = self.living.get(name)
            if incarnation is not None and incarnation.touched.get(partition) == writer:
                del incarnation.touched[partition]

    def marks(self, incarnation: Incarnation) -> bool:
        """Its name is marked, and the marker names no other topic."""
        name = incarnation.name
        return name in self.marked and self.marked[name] in (None, incarnation.czxid)

    def _names(self, name: str, data: bytes | None) -> None:
        orders = znodes.decode_deletion_marker(data)
        self.marked[name], self._graces[name] = orders.topic_czxid, orders.grace_ms
        if name in self.living:
            self._ask(self.living[name])

    def _ask(self, incarnation: Incarnation) -> None:
        if self.marks(incarnation):
            incarnation.asked = True
            incarnation.graces[self._graces[incarnation.name]] = None

    def _marker(self, operation: Operation, name: str, zxid: int) -> None:
        match operation:
            case Create(data=data):
                self._names(name, data)
                living = self.living.get(name)
                if living is not None and self.marks(living):
                    living.marker += 1
                if living is not None and living.czxid == zxid:
                    living.begun, living.ended = zxid, living.marker
            case Delete():
                self.last_named[name] = self.marked.pop(name, None)
            case SetData(data=data):
                self._names(name, data)
                if name in self.living and (begun := znodes.decode_deletion_marker(data).begun) is not None:
                    self.living[name].begun = begun
            case Check():
                pass
