"""What the controller remembers of comparing the brokers' metadata caches with ZooKeeper; `caches` has the rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.protocol.vocabulary import BrokerId, TopicId


class Due(NamedTuple):
    """A broker's cache is to be read."""

    topics: tuple[str, ...] | None
    """Only these; None: all."""
    after_request: int
    """Not before the broker has answered every request up to this one."""
    not_before_ms: int
    attempts: int = 0
    """How often in a row the cache could not be seen whole, or still had ghosts."""


class Reading(NamedTuple):
    """The read of a cache that is under way; there is never more than one."""

    id: int
    broker: BrokerId
    due: Due
    asked_at_ms: int


class Ghost(NamedTuple):
    """A topic, or an earlier incarnation of one, that a broker's metadata cache has and ZooKeeper has not."""

    topic: str
    topic_id: TopicId | None
    partitions: tuple[int, ...]
    """Those that the cache shows and ZooKeeper has not; all of the topic where it is announced anew."""
    found_at_ms: int
    kept_because: str | None = None
    """Why the cache still has it; None: the broker has been told to drop it, and is asked again."""


class Told(NamedTuple):
    """A broker was told to drop ghosts."""

    request_id: int
    """The last request that does so."""
    topics: tuple[str, ...]
    attempts: int


@dataclass(slots=True)
class CacheComparison:
    """How far the comparison of this tenure has come."""

    due: dict[BrokerId, Due] = field(default_factory=dict)
    """Brokers whose cache is to be read, each with what is to be read next."""
    reading: Reading | None = None
    told: dict[BrokerId, Told] = field(default_factory=dict)
    """What brokers have been told to drop, until they answer."""
    ghosts: dict[BrokerId, dict[str, Ghost]] = field(default_factory=dict)
    """Seen in a cache, and not yet seen to be gone from it."""
    unseen: dict[BrokerId, str] = field(default_factory=dict)
    """Registered brokers whose cache has not been seen whole in this incarnation, and why."""
    missed: dict[BrokerId, dict[str, None]] = field(default_factory=dict)
    """Brokers whose session ended during this tenure: topics whose znodes went while they were not registered, and the
    ghosts that their caches showed. Kept until the cache is seen whole, since the process may have lived on."""
    cured: list[tuple[BrokerId, Ghost]] = field(default_factory=list)
    """The latest ghosts that a cache has lost since it was told to, oldest first."""
