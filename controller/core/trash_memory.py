"""The controller's memory of the trash: which topics are in it, or on their way in or out.

`/lethe/trash` has all of it: memory is read at the takeover, and changed by this controller's own writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lethe.controller.core.deletion_memory import DeletionProblem
from lethe.controller.core.partition_sets import Bits
from lethe.protocol.vocabulary import BrokerId, TopicId
from lethe.protocol.zookeeper.znodes import TrashEntry, TrashPhase


@dataclass(slots=True)
class TrashedTopic:
    """A topic with a znode below `/lethe/trash`."""

    entry: TrashEntry
    problem: DeletionProblem | None = None
    """Why the next step failed."""
    retry_at_ms: int = 0
    """The next step is not tried before."""
    is_asked: bool = False
    """Brokers are asked for its consumer groups' offsets, or for its directories."""
    groups_left: dict[str, str] = field(default_factory=dict)
    """Groups whose offsets are not committed again yet, and why."""

    @property
    def phase(self) -> TrashPhase:
        return self.entry.phase


@dataclass(slots=True)
class DirectoryLook:
    """Brokers are asked which directories they have of topics that are to be brought back."""

    requests: dict[str, int]
    """The topics, and the versions of the requests for them."""
    waiting: dict[BrokerId, int]
    """Brokers that have not answered, and the id of the question."""
    ends_at_ms: int
    found: dict[str, dict[BrokerId, Bits]] = field(default_factory=dict)
    """By topic, the partitions that each broker has."""


@dataclass(slots=True)
class Trash:
    """All of it; the modules `trash*` change it."""

    topics: dict[str, TrashedTopic] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    """Entries that cannot be understood, and why: they are kept, and their names stay reserved."""
    unseen: str | None = None
    """Why it is unknown which topics are in the trash."""
    parents_exist: bool = False
    retries: dict[str, int] = field(default_factory=dict)
    """When topics without an entry are tried again."""
    asked: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Topics whose groups' offsets are read or committed, by effect id."""
    looks: list[DirectoryLook] = field(default_factory=list)

    def in_phase(self, name: str, *phases: TrashPhase) -> TrashedTopic | None:
        """Return the topic if it is in the trash in one of these phases."""
        found = self.topics.get(name)
        return found if found is not None and found.phase in phases else None

    def reserves(self, name: str, topic_id: TopicId | None) -> str | None:
        """Return why a topic with this znode may not come into service; None if it may."""
        if self.unseen is not None:
            return f"whether its name is reserved by a topic in the trash is unknown: {self.unseen}"
        if name in self.unreadable:
            return f"its name is reserved by an entry of the trash that cannot be understood: {self.unreadable[name]}"
        found = self.topics.get(name)
        if found is None or (found.phase is not TrashPhase.TRASHED and found.entry.topic_id == topic_id):
            return None
        return None if found.phase is TrashPhase.FREEZING else "its name is reserved by another topic in the trash"
