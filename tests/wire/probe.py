"""What the history needs to know of brokers: what they were told, and a producer id from one of them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence

from lethe.protocol.kafka.codec import decode_request
from lethe.protocol.kafka.control import Addressed, ApiKey, UpdateMetadataRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import TopicPartition
from tests.wire.cluster import RecordedCluster
from tests.wire.recording import Exchange


async def gets_producer_id(cluster: RecordedCluster) -> bool:
    """Asks broker 1 for one with InitProducerId v0, without a transaction: this request is nobody's but a client's, so
    that the codec has no need of it. False where the broker has none yet and wants to be asked again."""
    reader, writer = await asyncio.open_connection(*await cluster.address(1))
    try:
        request = struct.pack(">hhih4shi", 22, 0, 1, 4, b"test", -1, 60_000)
        writer.write(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        *_, error = struct.unpack_from(">iih", await reader.readexactly(size))
        return bool(error == ErrorCode.NONE)
    finally:
        writer.close()


def known(exchanges: Sequence[Exchange]) -> Mapping[TopicPartition, tuple[int, int]]:
    """Leader epoch and partition epoch of what UpdateMetadata told a broker last."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    for each in exchanges:
        if each.api is ApiKey.UPDATE_METADATA:
            value = decode_request(each.request).value
            assert isinstance(value, Addressed)
            assert isinstance(value.request, UpdateMetadataRequest)
            for topic in value.request.topics:
                for row in topic.partitions:
                    found[TopicPartition(topic.topic, row.partition)] = row.leader_epoch, row.zk_version
    return found


def deletes(exchange: Exchange) -> bool:
    """Whether a control request asks to delete anything."""
    value = decode_request(exchange.request).value
    assert isinstance(value, Addressed)
    topics = value.request.topics
    return any(getattr(row, "delete", False) for topic in topics for row in topic.partitions)
