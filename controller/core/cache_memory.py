"""Memory of the comparison of brokers' metadata caches with ZooKeeper; `caches` has the rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.protocol.vocabulary import BrokerId, TopicId


class DueCacheRead(NamedTuple):
    """A pending read of a broker's cache."""

    topics: tuple[str, ...] | None
    """Topics to read; None: all."""
    after_request: int
    """The read waits until the broker has answered every request up to this one."""
    not_before_ms: int
    attempts: int = 0
    """Number of reads in a row that were incomplete or still showed ghosts after a tombstone."""


class OutstandingCacheRead(NamedTuple):
    """The outstanding read of a cache; at most one."""

    id: int
    broker: BrokerId
    due: DueCacheRead
    asked_at_ms: int


class Ghost(NamedTuple):
    """A topic, or an earlier incarnation of one, in a broker's metadata cache and not in ZooKeeper."""

    topic: str
    topic_id: TopicId | None
    partitions: tuple[int, ...]
    """Partitions in the cache and not in ZooKeeper; all of the topic's if it is announced again."""
    found_at_ms: int
    kept_because: str | None = None
    """Why the cache still has it; None: a tombstone was sent, and the cache is read again."""


class GhostTombstones(NamedTuple):
    """Tombstones of ghosts were sent to a broker."""

    request_id: int
    """Id of the last request with these tombstones."""
    topics: tuple[str, ...]
    attempts: int


@dataclass(slots=True)
class CacheComparison:
    """State of the comparison in this term."""

    due: dict[BrokerId, DueCacheRead] = field(default_factory=dict)
    """The next read of each broker's cache."""
    reading: OutstandingCacheRead | None = None
    checking: dict[BrokerId, None] = field(default_factory=dict)
    """Brokers whose suspects are being looked up in ZooKeeper."""
    told: dict[BrokerId, GhostTombstones] = field(default_factory=dict)
    """Tombstones of ghosts that brokers have not answered."""
    ghosts: dict[BrokerId, dict[str, Ghost]] = field(default_factory=dict)
    """Ghosts that a cache showed, until a read shows that they are gone."""
    unseen: dict[BrokerId, str] = field(default_factory=dict)
    """Why a registered broker's cache has not been read completely in this incarnation."""
    missed: dict[BrokerId, dict[str, None]] = field(default_factory=dict)
    """For brokers whose session ended in this term: topics removed while they were away, and ghosts of their caches.

    Kept until the cache was read completely, because the process may have lived on."""
    cured: list[tuple[BrokerId, Ghost]] = field(default_factory=list)
    """The latest ghosts that a cache dropped after a tombstone, oldest first."""

    @property
    def is_complete(self) -> bool:
        """True if every cache was read and every ghost that it showed was removed, as far as one try does."""
        is_busy = self.reading is not None or self.checking or self.told
        return not is_busy and all(due.attempts for due in self.due.values())
