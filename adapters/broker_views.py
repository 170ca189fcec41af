"""Asking brokers what they have of topics: metadata cache and logs, over connections that are kept.

A topic that a broker does not know must not come into being because we asked. Metadata requests say so from version 4
on; an older broker is asked for all its topics instead, which creates none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, cast

from adapters.deletion_progress import AskBroker, BrokerView, Target
from adapters.kafka.client import ClientError, KafkaConnection, ProtocolError
from protocol.kafka.connection import highest_common_version
from protocol.kafka.control import ApiKey
from protocol.kafka.errors import ErrorCode
from protocol.kafka.queries import (
    DescribableTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from protocol.vocabulary import ZERO_TOPIC_ID, Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol

CLIENT_ID: Final = "lethe"
FIRST_WITHOUT_CREATION: Final = 4
"""The first Metadata version with `allow_auto_topic_creation`."""


@asynccontextmanager
async def brokers_asked(*, timeout_ms: int = 5_000) -> AsyncIterator[AskBroker]:
    """How to ask brokers, each within `timeout_ms`; the connections are closed at the end."""
    async with AsyncExitStack() as stack:
        kept: dict[tuple[BrokerId, BrokerEpoch], KafkaConnection] = {}

        async def ask(broker: Broker, topics: Sequence[Target]) -> BrokerView | None:
            key = (broker.id, broker.epoch)
            try:
                if key not in kept or not kept[key].is_open:
                    kept[key] = await stack.enter_async_context(await _open(broker, timeout_ms))
                return await _view(kept[key], topics)
            except (ClientError, ProtocolError):
                kept.pop(key, None)
                return None

        yield ask


def plaintext_endpoint(broker: Broker) -> Endpoint | None:
    """Where the broker can be asked without encryption; None where it cannot."""
    return next((end for end in broker.endpoints if end.protocol is SecurityProtocol.PLAINTEXT), None)


async def _open(broker: Broker, timeout_ms: int) -> KafkaConnection:
    endpoint = plaintext_endpoint(broker)
    if endpoint is None:
        raise ClientError(f"broker {broker.id} has no listener without encryption")
    return await KafkaConnection.open(
        endpoint.host, endpoint.port, CLIENT_ID, connect_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms
    )


async def _view(connection: KafkaConnection, topics: Sequence[Target]) -> BrokerView:
    version = highest_common_version(ApiKey.METADATA, await connection.offered_versions())
    named = tuple(MetadataRequestTopic(target.name) for target in topics)
    request = MetadataRequest(named if version >= FIRST_WITHOUT_CREATION else None, allow_auto_topic_creation=False)
    metadata = cast(MetadataResponse, await connection.request(request, version))
    wanted = {target.name for target in topics}
    cached = {
        topic.name: None if topic.topic_id in (None, ZERO_TOPIC_ID) else topic.topic_id
        for topic in metadata.topics
        if topic.name in wanted and topic.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    partitions = tuple(DescribableTopic(target.name, target.partitions) for target in topics if target.partitions)
    answer = cast(DescribeLogDirsResponse, await connection.ask(DescribeLogDirsRequest(partitions)))
    stored = frozenset(topic.topic for log_dir in answer.log_dirs for topic in log_dir.topics if topic.partitions)
    failed = tuple(sorted(found.path for found in answer.log_dirs if found.error == ErrorCode.KAFKA_STORAGE_ERROR))
    return BrokerView(cached, stored, failed)
