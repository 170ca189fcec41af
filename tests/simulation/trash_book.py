"""What really is in the trash: part of the ledger, kept by looking at each write that took effect.

A topic that goes into the trash and comes back is one incarnation, although its znode was created twice: its
directories keep their id. So the incarnation waits here while it has no znode, and is the same one when a controller
creates its znode again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, Operation, SetData
from lethe.protocol.zookeeper.znodes import TopicRequest, TrashEntry, TrashPhase

if TYPE_CHECKING:
    from tests.simulation.ledger import Incarnation


class TrashBook:
    """Entries below `/lethe/trash`, and the incarnations that are in it."""

    def __init__(self) -> None:
        self.entries: dict[str, TrashEntry] = {}
        self.kept: dict[str, Incarnation] = {}
        """Out of service: nothing of these topics is left in ZooKeeper but entry and settings."""
        self.offsets: dict[int, dict[str, dict[int, int]]] = {}
        """What was saved when a topic last went in, by the incarnation's number, group and partition. It is given up
        where the topic leaves the trash for its deletion, also if that is called off."""
        self.requests: dict[str, TopicRequest] = {}
        """What is asked for, answered or not."""

    def book(self, operation: Operation) -> None:
        """Take note of one operation."""
        if (asked := paths.child_of(paths.requests(), operation.path)) is not None:
            self._request(operation, asked)
        name = entry_named(operation.path)
        if name is None:
            return
        match operation:
            case Create(data=data) | SetData(data=data):
                self.entries[name] = znodes.decode_trash(name, data)
            case Delete():
                self.entries.pop(name, None)
                # Not in the same write as its return: nothing leads back to it any more.
                self.kept.pop(name, None)
            case _:
                pass

    def _request(self, operation: Operation, name: str) -> None:
        match operation:
            case Create(data=data) | SetData(data=data):
                self.requests[name] = znodes.decode_topic_request(name, data)
            case Delete():
                self.requests.pop(name, None)
            case _:
                pass

    def goes_in(self, incarnation: Incarnation) -> bool:
        """Take in a topic whose znode was deleted; False if that was no way into the trash."""
        entry = self.entries.get(incarnation.name)
        if entry is None or entry.phase is not TrashPhase.TRASHED or incarnation.name in self.kept:
            return False
        self.kept[incarnation.name] = incarnation
        incarnation.in_trash = True
        # What was to tell these replicas to go may never arrive.
        incarnation.strays.update(incarnation.departed)
        return True

    def returns(self, name: str, topic_id: TopicId | None) -> Incarnation | None:
        """Hand out the incarnation whose znode was created again; None for another topic of its name."""
        incarnation = self.kept.get(name)
        if incarnation is None or incarnation.topic_id != topic_id:
            return None
        del self.kept[name]
        incarnation.in_trash, incarnation.was_in_trash, incarnation.removed_in = False, True, None
        incarnation.graces.clear()
        if not incarnation.condemned:
            # Nothing of it was destroyed: from now on it is a topic as any other.
            incarnation.asked = False
        return incarnation

    def reserves(self, incarnation: Incarnation) -> bool:
        """Another topic of this name is in the trash."""
        entry = self.entries.get(incarnation.name)
        is_other = entry is not None and entry.topic_id != incarnation.topic_id
        return entry is not None and entry.phase is TrashPhase.TRASHED and is_other


def entry_named(path: str) -> str | None:
    """Return the topic whose entry lies at this path; None for any other path."""
    return paths.child_of(paths.trash(), path)
