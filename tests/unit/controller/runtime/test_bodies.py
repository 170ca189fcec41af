"""Bodies of a request: one where its frame fits, else parts."""

import pytest

from lethe.controller.runtime.bodies import encoded_parts
from lethe.protocol.kafka.codec import decode_request
from lethe.protocol.kafka.control import Addressed, StopReplicaPartition, StopReplicaRequest, StopReplicaTopic
from lethe.protocol.vocabulary import NO_EPOCH, BrokerId, ControllerEpoch

VERSION = 4
CLIENT = "controller1"


def stopping(*sizes: int) -> StopReplicaRequest:
    rows = (tuple(StopReplicaPartition(p, -2, True) for p in range(size)) for size in sizes)
    topics = tuple(StopReplicaTopic(f"topic-{n}" + "-" * 100, partitions) for n, partitions in enumerate(rows))
    return StopReplicaRequest(BrokerId(1), ControllerEpoch(7), topics)


def frames(request: StopReplicaRequest, max_bytes: int) -> list[bytes]:
    """The frames' payloads, without their sizes."""
    bodies = encoded_parts(request, VERSION, max_bytes)
    return [b"".join(body.frame(1, CLIENT, NO_EPOCH))[4:] for body in bodies]


@pytest.mark.parametrize("sizes", [(20, 1), (50, 50, 50), (300, 1), (50, 300, 50, 2), (1,) * 40])
def test_no_frame_exceeds_the_limit_and_nothing_is_lost(sizes: tuple[int, ...]) -> None:
    request = stopping(*sizes)
    (whole,) = frames(request, 1 << 20)
    for max_bytes in (1 << 20, 10_000, len(whole) + 1, len(whole), len(whole) - 1, 200):
        found = frames(request, max_bytes)
        assert all(len(each) <= max_bytes for each in found)
        rows = []
        for each in found:
            addressed = decode_request(each).value
            assert isinstance(addressed, Addressed)
            assert isinstance(addressed.request, StopReplicaRequest)
            rows += [(topic.topic, row) for topic in addressed.request.topics for row in topic.partitions]
        assert rows == [(topic.topic, row) for topic in request.topics for row in topic.partitions]
