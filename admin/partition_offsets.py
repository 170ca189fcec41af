"""Asks leaders for the first record at or after a time, by ListOffsets. The request cannot create a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.kafka.missing_rights import answer_words, grant_on_topic
from lethe.protocol.kafka.consumers import ListOffsetsRequest, ListOffsetsResponse, OffsetQuestion, TopicToList
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.security.acls import Operation
from lethe.protocol.vocabulary import TopicPartition


class FoundRecord(NamedTuple):
    """The record's offset and time."""

    offset: int
    timestamp_ms: int


async def list_offsets(
    connection: KafkaConnection, times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, FoundRecord | str | None]:
    """Return the first record at or after each time (or EARLIEST, LATEST): None where there is none, or the error.

    A partition that the answer does not name is left out. Raises ClientError and ProtocolError."""
    topics: dict[str, list[OffsetQuestion]] = {}
    for (topic, number), time_ms in times.items():
        topics.setdefault(topic, []).append(OffsetQuestion(number, time_ms))
    asked = ListOffsetsRequest(tuple(TopicToList(topic, tuple(questions)) for topic, questions in topics.items()))
    answer = cast(ListOffsetsResponse, await connection.ask(asked))
    found: dict[TopicPartition, FoundRecord | str | None] = {}
    for listed in answer.topics:
        describe = grant_on_topic(Operation.DESCRIBE, listed.topic)
        for row in listed.partitions:
            known = None if row.offset < 0 else FoundRecord(row.offset, row.timestamp_ms)
            wrong = answer_words(row.error, connection.principal, describe) if row.error != ErrorCode.NONE else None
            found[TopicPartition(listed.topic, row.partition)] = wrong or known
    return found
