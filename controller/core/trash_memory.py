"""The controller's memory of the trash: which topics are in it, or on their way in or out.

`/lethe/trash` has all of it: memory is read at the takeover, and changed by this controller's own writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.controller.core.deletion_memory import DeletionProblem
from lethe.controller.core.effects import Coordinator
from lethe.controller.core.partition_sets import Bits
from lethe.protocol.causes import CauseKind
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, TopicId
from lethe.protocol.zookeeper.znodes import TrashEntry, TrashPhase


class FrozenAgain(NamedTuple):
    """Retention was switched off once more for a topic that is to come back: see `trash_settings`."""

    at_ms: int
    """When that was written."""
    version: int
    """The version of the settings then."""
    config: Mapping[str, str] | None
    """The settings that the topic gets in the end."""


@dataclass(slots=True)
class TrashedTopic:
    """A topic with a znode below `/lethe/trash`."""

    entry: TrashEntry
    seen_ms: int = 0
    """When this controller read the entry, or knew that it was written."""
    written_ms: int = 0
    """When another controller wrote it, by ZooKeeper's clock; 0: it was this one."""
    problem: DeletionProblem | None = None
    """Why the next step failed."""
    retry_at_ms: int = 0
    """The next step is not tried before."""
    is_asked: bool = False
    """Brokers are asked for its consumer groups' offsets or its directories, or its settings are read for its end."""
    leaves_settings: bool = False
    """ZooKeeper does not take its settings: it ends without them."""
    is_requested: bool = False
    """Its return or end has to wait: requests are read again when the next attempt is due. Nothing deletes it before
    they are read."""
    end_requested: int | None = None
    """The version of a request for its end, which waits for its turn."""
    has_paid: bool = False
    """Its turn has come under the pace of deletions; its end may fail and be tried again."""
    frozen_version: int | None = None
    """On the way in: the version of the settings with which retention is off; None: it is not, or not known."""
    frozen_again: FrozenAgain | None = None
    groups_left: dict[str, str] = field(default_factory=dict)
    """Groups whose offsets are not committed again yet, and why."""
    has_unread_offsets: bool = False
    """Saved offsets could not be read or understood, so groups are missing above."""

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
    epochs: dict[BrokerId, BrokerEpoch] = field(default_factory=dict)
    """Under which registration each broker of `found` was asked."""


class SeenLogDir(NamedTuple):
    """A log directory, as its broker described it."""

    path: str
    total_bytes: int
    """-1: the broker does not tell."""
    usable_bytes: int
    topics: Mapping[str, int]
    """Bytes of the topics that were asked for."""

    def is_low(self, free_percent: int) -> bool:
        """Return whether less of it is free; False if that is not known."""
        return self.total_bytes > 0 <= self.usable_bytes and self.usable_bytes * 100 < free_percent * self.total_bytes


class SeenDisks(NamedTuple):
    """What a broker said of its log directories, or why they are unseen."""

    at_ms: int
    log_dirs: tuple[SeenLogDir, ...] = ()
    problem: str | None = None
    is_partial: bool = False
    """A log directory has failed: what is there of the trash is unseen."""


@dataclass(frozen=True, slots=True)
class GivingWay:
    """A topic that left the trash for a full disk. The next one waits until its bytes are gone there."""

    topic: str
    topic_id: TopicId
    partitions: tuple[int, ...]
    """Those with a replica on the broker."""
    broker: BrokerId
    path: str
    size_bytes: int
    usable_bytes: int
    """How much was free before."""
    total_bytes: int
    since_ms: int
    deleted_since_ms: int | None = None
    """Since when the broker does not list the topic there any more, its deletion has ended, or the broker is away."""


@dataclass(slots=True)
class Disks:
    """The log directories with topics in the trash: see `trash_disks`."""

    seen: dict[BrokerId, SeenDisks] = field(default_factory=dict)
    waiting: dict[int, BrokerId] = field(default_factory=dict)
    """Brokers that have not answered, by id of the question."""
    ends_at_ms: int = 0
    """When the answers are not waited for any more."""
    look_at_ms: int | None = None
    """When brokers are asked again."""
    giving: GivingWay | None = None

    @property
    def due_at_ms(self) -> int | None:
        """When the next step is due, if one is."""
        return self.ends_at_ms if self.waiting else self.look_at_ms


class Reserved(NamedTuple):
    """Why a topic may not come into service under its name."""

    reason: str
    held_by: CauseKind


NAME_IN_TRASH: Final = Reserved("its name is reserved by another topic in the trash", CauseKind.NAME_RESERVED)


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
    given_up: dict[str, int] = field(default_factory=dict)
    """When topics are tried again that get their retention back, because their way into the trash has failed."""
    asked: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Topics whose groups' offsets are read or committed, by effect id: see `ask`."""
    coordinators: dict[int, tuple[Coordinator, ...]] = field(default_factory=dict)
    """Which coordinators are asked for offsets, by effect id."""
    unready: dict[int, dict[str, dict[str, str]]] = field(default_factory=dict)
    """By effect id and topic, the groups whose coordinators get no offsets yet, and why."""
    looks: list[DirectoryLook] = field(default_factory=list)
    disks: Disks = field(default_factory=Disks)

    def seen_bytes(self, name: str) -> int:
        """Return the bytes of the topic's replicas, as far as brokers have told."""
        return sum(each.topics.get(name, 0) for seen in self.disks.seen.values() for each in seen.log_dirs)

    def ask(self, effect_id: int, names: tuple[str, ...]) -> None:
        """Await the answer for these topics. One to an earlier question is about what they were before."""
        for earlier, awaited in self.asked.items():
            self.asked[earlier] = tuple(name for name in awaited if name not in names)
        self.asked[effect_id] = names
        for name in names:
            self.topics[name].is_asked = True

    def answered(self, effect_id: int, *phases: TrashPhase) -> tuple[str, ...]:
        """Return the topics in one of these phases for which this answer was awaited: it is not any more."""
        found = {name: self.in_phase(name, *phases) for name in self.asked.pop(effect_id, ())}
        awaited = {name: each for name, each in found.items() if each is not None and each.is_asked}
        for each in awaited.values():
            each.is_asked = False
        return tuple(awaited)

    def in_phase(self, name: str, *phases: TrashPhase) -> TrashedTopic | None:
        """Return the topic if it is in the trash in one of these phases."""
        found = self.topics.get(name)
        return found if found is not None and found.phase in phases else None

    def may_keep(self, name: str) -> bool:
        """Return whether brokers may have replicas of this name that are to be kept, and are out of service."""
        is_unseen = self.unseen is not None or name in self.unreadable
        return is_unseen or self.in_phase(name, TrashPhase.TRASHED) is not None

    def reserves(self, name: str) -> Reserved | None:
        """Return why no topic of this name may come into service; None if one may. The entry of a topic in any other
        phase than `trashed` is of the one that is in service, or void (`trash.is_void`)."""
        if self.unseen is not None:
            why = f"whether its name is reserved by a topic in the trash is unknown: {self.unseen}"
            return Reserved(why, CauseKind.READABLE_TRASH)
        if name in self.unreadable:
            why = f"its name is reserved by an entry of the trash that cannot be understood: {self.unreadable[name]}"
            return Reserved(why, CauseKind.READABLE_TRASH)
        return None if self.in_phase(name, TrashPhase.TRASHED) is None else NAME_IN_TRASH
