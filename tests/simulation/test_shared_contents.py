"""Caches that share their contents are what caches of their own would be."""

import random
import uuid

from lethe.broker.core.metadata_cache import MetadataCache
from lethe.protocol.kafka.control import UpdateMetadataPartition, UpdateMetadataRequest, UpdateMetadataTopic
from lethe.protocol.vocabulary import LEADER_DURING_DELETE, BrokerId, ControllerEpoch, TopicId
from tests.simulation.shared_contents import SharedContents


def requests(seed: int) -> list[UpdateMetadataRequest]:
    drawn = random.Random(seed)
    found = []
    for epoch in range(30):
        topics = []
        for name in drawn.sample("abcd", drawn.randint(0, 3)):
            leader = drawn.choice((1, 2, LEADER_DURING_DELETE))
            numbers = drawn.sample(range(4), drawn.randint(1, 4))
            rows = tuple(UpdateMetadataPartition(n, epoch, leader, 0, (1,), 0, (1,)) for n in numbers)
            topics.append(UpdateMetadataTopic(name, TopicId(uuid.UUID(int=drawn.randint(1, 6))), rows))
        found.append(UpdateMetadataRequest(BrokerId(epoch), ControllerEpoch(epoch), tuple(topics), ()))
    return found


def test_shared_caches_are_what_plain_ones_would_be() -> None:
    for seed in range(50):
        shared = SharedContents()
        caches = [MetadataCache() for _ in range(3)]
        plain = [MetadataCache() for _ in caches]
        for cache in caches:
            shared.clear(cache)
        drawn = random.Random(seed)
        for request in requests(seed):
            # The last cache misses some requests, and so has a history of its own.
            for number in (0, 1) if drawn.random() < 0.2 else (0, 1, 2):
                assert shared.apply(caches[number], request) == plain[number].apply(request)
            assert caches == plain
        assert caches[0].topics is caches[1].topics
        assert caches[0].topics is not caches[2].topics


def test_receivers_of_one_request_share_the_set_of_its_tombstones() -> None:
    shared = SharedContents()
    for request in requests(1):
        buried = {t.topic for t in request.topics if any(row.leader == LEADER_DURING_DELETE for row in t.partitions)}
        assert {name for name, _ in shared.tombstones_in(request)} == buried
        assert shared.tombstones_in(request) is shared.tombstones_in(request)
