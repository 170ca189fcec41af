"""What many agents have alike is there once: the contents of metadata caches, and the parts of requests.

A thousand agents that were told the same have the same million rows. Caches with one history share their dictionaries,
which nobody changes: a request makes new ones, for all caches that had the same before. Topics that it does not name
are taken over as they are.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from lethe.broker.core.metadata_cache import MetadataCache
from lethe.protocol.kafka import parts
from lethe.protocol.kafka.control import UpdateMetadataPartition, UpdateMetadataRequest
from lethe.protocol.kafka.queries import ChannelRequest

KEPT: Final = 64
"""So many steps of contents are remembered; what is needed again after that is made again."""

Topics = dict[str, dict[int, UpdateMetadataPartition]]


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
        self._parts: OrderedDict[int, tuple[ChannelRequest, tuple[ChannelRequest, ...]]] = OrderedDict()
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
        found = self._parts.get(id(request))
        if found is None:
            found = self._parts[id(request)] = (request, parts.parts_of(request, max_bytes))
            if len(self._parts) > KEPT:
                self._parts.popitem(last=False)
        return found[1]


def _take(cache: MetadataCache, other: MetadataCache) -> None:
    cache.brokers, cache.controller_id = other.brokers, other.controller_id
    cache.topics, cache.topic_ids, cache.topic_names = other.topics, other.topic_ids, other.topic_names
    cache.partition_count = other.partition_count
