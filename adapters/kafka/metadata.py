"""The question that reads a broker's metadata cache.

No topic may come into being because it is asked about. Metadata requests say so from version 4 on. An older broker is
asked about all its topics instead, which creates none, and the others are left out of the answer.

A broker answers for each topic that it is asked about by name, also for one that it does not have. An answer that lacks
one says nothing of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import cast

from lethe.adapters.kafka.client import KafkaConnection
from lethe.protocol.kafka.cached_topics import FIRST_WITHOUT_CREATION
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataTopic


async def ask_metadata(connection: KafkaConnection, topics: Collection[str] | None) -> MetadataResponse:
    """Return the broker's answer about these topics and no others; None: about all. A topic that was asked about by
    name and is not in the answer has a row with no error and no partitions: it is undecided.

    Raises ClientError, ProtocolError."""
    version = highest_common_version(ApiKey.METADATA, await connection.offered_versions())
    named = None
    if topics is not None and version >= FIRST_WITHOUT_CREATION:
        named = tuple(MetadataRequestTopic(topic) for topic in topics)
    request = MetadataRequest(named, allow_auto_topic_creation=False)
    answer = cast(MetadataResponse, await connection.request(request, version))
    if topics is None:
        return answer
    wanted = frozenset(topics)
    told = tuple(topic for topic in answer.topics if topic.name in wanted)
    names = {topic.name for topic in told}
    missing = (topic.name for topic in named or () if topic.name not in names)
    rows = tuple(MetadataTopic(ErrorCode.NONE, name, None, False, ()) for name in missing)
    return replace(answer, topics=(*told, *rows))
