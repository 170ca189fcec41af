"""What many agents have alike is there once: the contents of metadata caches, and what is made of requests.

A thousand agents that were told the same have the same million rows. Caches with one history share their dictionaries,
which nobody changes: a request makes new ones, for all caches that had the same before. Topics that it does not name
are taken over as they are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from lethe.broker.core.metadata_cache import MetadataCache
from lethe.protocol.kafka import parts
from lethe.protocol.kafka.control import UpdateMetadataPartition, UpdateMetadataRequest
from lethe.protocol.kafka.queries import ChannelRequest
from lethe.protocol.vocabulary import TopicId

Made = TypeVar("Made")

KEPT: Final = 64
"""So many steps of contents are remembered; what is needed again after that is made again."""

Topics = dict[str, dict[int, UpdateMetadataPartition]]
TombstonesOf = frozenset[tuple[str, TopicId | None]]
"""Topics, by name and id."""


class _Step(NamedTuple):
    """What a request makes of contents; holds both, so that their identities are not used again."""

    before: Topics
    request: UpdateMetadataRequest
    after: MetadataCache
    removed: tuple[str, ...]


class SharedContents:
    """Contents by the contents before and the request that changed them."""

    def __init__(self) -> None:
        self._steps: OrderedDict[tuple[int, int], _Step] = OrderedDict()
        self._parts: _MadeOf[tuple[ChannelRequest, ...]] = _MadeOf()
        self._tombstones: _MadeOf[TombstonesOf] = _MadeOf()
        self._empty = MetadataCache()

    def clear(self, cache: MetadataCache) -> None:
        """Make the cache an empty one."""
        _take(cache, self._empty)

    def apply(self, cache: MetadataCache, request: UpdateMetadataRequest) -> tuple[str, ...]:
        """As `MetadataCache.apply`."""
        key = (id(cache.topics), id(request))
        step = self._steps.get(key)
        if step is None:
            after = MetadataCache()
            _take(after, cache)
            touched = {t.topic: dict(cache.topics[t.topic]) for t in request.topics if t.topic in cache.topics}
            after.topics = cache.topics | touched
            after.topic_ids, after.topic_names = dict(cache.topic_ids), dict(cache.topic_names)
            removed = after.apply(request)
            step = self._steps[key] = _Step(cache.topics, request, after, removed)
            if len(self._steps) > KEPT:
                self._steps.popitem(last=False)
        _take(cache, step.after)
        return step.removed

    def parts_of(self, request: ChannelRequest, max_bytes: int) -> tuple[ChannelRequest, ...]:
        """As `parts.parts_of`: the receivers of one request get the same parts."""
        return self._parts.of(request, lambda: parts.parts_of(request, max_bytes))

    def tombstones_in(self, request: UpdateMetadataRequest) -> TombstonesOf:
        """Topics whose tombstone the request carries."""
        return self._tombstones.of(
            request, lambda: frozenset((each.topic, each.topic_id) for each in request.topics if each.is_tombstone)
        )


class _MadeOf(Generic[Made]):
    """What was made of the latest requests, by identity; holds them, so that their identities are not used again."""

    def __init__(self) -> None:
        self._made: OrderedDict[int, tuple[ChannelRequest, Made]] = OrderedDict()

    def of(self, request: ChannelRequest, make: Callable[[], Made]) -> Made:
        found = self._made.get(id(request))
        if found is None:
            found = self._made[id(request)] = (request, make())
            if len(self._made) > KEPT:
                self._made.popitem(last=False)
        return found[1]


def _take(cache: MetadataCache, other: MetadataCache) -> None:
    cache.brokers, cache.controller_id = other.brokers, other.controller_id
    cache.topics, cache.topic_ids, cache.topic_names = other.topics, other.topic_ids, other.topic_names
    cache.partition_count = other.partition_count
