"""The question that reads a broker's metadata cache.

No topic may come into being because it is asked about. Metadata requests say so from version 4 on. An older broker is
asked about all its topics instead, which creates none, and the others are left out of the answer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import cast

from adapters.kafka.client import KafkaConnection
from protocol.kafka.cached_topics import FIRST_WITHOUT_CREATION
from protocol.kafka.connection import highest_common_version
from protocol.kafka.control import ApiKey
from protocol.kafka.queries import MetadataRequest, MetadataRequestTopic, MetadataResponse


async def ask_metadata(connection: KafkaConnection, topics: Collection[str] | None) -> MetadataResponse:
    """The broker's answer about these topics and no others; None: about all. Raises ClientError, ProtocolError."""
    version = highest_common_version(ApiKey.METADATA, await connection.offered_versions())
    named = None
    if topics is not None and version >= FIRST_WITHOUT_CREATION:
        named = tuple(MetadataRequestTopic(topic) for topic in topics)
    request = MetadataRequest(named, allow_auto_topic_creation=False)
    answer = cast(MetadataResponse, await connection.request(request, version))
    if topics is None:
        return answer
    wanted = frozenset(topics)
    return replace(answer, topics=tuple(topic for topic in answer.topics if topic.name in wanted))
