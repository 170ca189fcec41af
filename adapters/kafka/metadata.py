"""Metadata requests that read a broker's metadata cache without creating topics.

From version 4 on, a request can forbid the creation of missing topics. An older broker is asked for all its topics,
which creates none, and the response is filtered.

A broker answers for each topic that is requested by name, even if it does not have the topic. If the response lacks a
requested topic, its existence is undecided.

In a list of all topics a broker leaves out, without an error, those that the client may not describe, or all of them.
So the list is complete only if the broker lets the client ask about a name that no topic has (`why_incomplete`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, cast

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.kafka.missing_rights import GRANT_DESCRIBE
from lethe.protocol.kafka.cached_topics import FIRST_WITHOUT_CREATION
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataTopic

PROBE: Final = "zz-lethe-may-it-see-all-topics"
"""A name that no topic has, and that no right to some prefix of names includes."""


async def ask_metadata(connection: KafkaConnection, topics: Collection[str] | None) -> MetadataResponse:
    """Return the broker's response about these topics and no others; None: about all.

    A topic that was requested by name and is missing in the response gets a row without error and partitions: it is
    undecided. Raises ClientError and ProtocolError.
    """
    version = highest_common_version(ApiKey.METADATA, await connection.offered_versions())
    named = None
    if topics is not None and version >= FIRST_WITHOUT_CREATION:
        named = tuple(MetadataRequestTopic(topic) for topic in topics)
    request = MetadataRequest(named, allow_auto_topic_creation=False)
    answer = cast(MetadataResponse, await connection.request(request, version))
    if topics is None:
        return answer
    wanted = frozenset(topics)
    answered = tuple(topic for topic in answer.topics if topic.name in wanted)
    names = {topic.name for topic in answered}
    missing = (topic.name for topic in named or () if topic.name not in names)
    rows = tuple(MetadataTopic(ErrorCode.NONE, name, None, False, ()) for name in missing)
    return replace(answer, topics=(*answered, *rows))


async def why_incomplete(connection: KafkaConnection) -> str | None:
    """Return why this broker's list of all topics is incomplete, with the remedy; None: it is complete.

    Raises ClientError and ProtocolError.
    """
    version = highest_common_version(ApiKey.METADATA, await connection.offered_versions())
    if version < FIRST_WITHOUT_CREATION:
        return None  # asked by name, such a broker could create the topic
    probed = await ask_metadata(connection, (PROBE,))
    if all(topic.error != ErrorCode.TOPIC_AUTHORIZATION_FAILED for topic in probed.topics):
        return None
    return f"it does not let {connection.principal} see all topics; {GRANT_DESCRIBE}"
