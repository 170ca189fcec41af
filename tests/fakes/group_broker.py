"""A connection to a broker with consumer groups and logs: it answers what `admin` asks, without a socket."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, cast

from lethe.adapters.kafka.client import KafkaConnection
from lethe.protocol.kafka.consumers import (
    EARLIEST,
    LATEST,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupMember,
    ListedOffset,
    ListedTopic,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from lethe.protocol.kafka.group_offsets import FetchedOffset, FetchedTopic, OffsetFetchRequest, OffsetFetchResponse
from lethe.protocol.kafka.queries import ListedGroup, ListGroupsRequest, ListGroupsResponse, Request, Response
from lethe.protocol.vocabulary import TopicPartition


def text(name: str) -> bytes:
    return struct.pack(">h", len(name.encode())) + name.encode()


def subscription(*topics: str) -> bytes:
    """What a consumer hands its coordinator, in version 1 of the consumer protocol."""
    return struct.pack(">hi", 1, len(topics)) + b"".join(map(text, topics)) + struct.pack(">ii", -1, 0)


def assignment(**partitions: Sequence[int]) -> bytes:
    """What a consumer gets of its coordinator."""
    rows = [
        text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in partitions.items()
    ]
    return struct.pack(">hi", 1, len(rows)) + b"".join(rows) + struct.pack(">i", -1)


def group(state: str, *topics: str, error: int = 0, kind: str = "consumer") -> DescribedGroup:
    """A group whose one member reads these topics; a group without a member where the state says so."""
    reads = subscription(*topics) if kind == "consumer" and state == "Stable" else b""
    members = () if state in ("Empty", "Dead") else (GroupMember("m-1", "app", "/10.0.0.1", reads, b""),)
    return DescribedGroup(error, "", state, kind, "range", members)


@dataclass
class GroupBroker:
    """`described` are the answers about each group, one after the other, the last one for ever."""

    described: dict[str, list[DescribedGroup]] = field(default_factory=dict)
    stored: dict[str, Sequence[TopicPartition]] = field(default_factory=dict)
    """Partitions of which a group has committed offsets."""
    list_error: int = 0
    stored_errors: dict[str, int] = field(default_factory=dict)
    records: Mapping[TopicPartition, Sequence[int]] = field(default_factory=dict)
    """Times of the records of each log, by offset from 3 on."""
    offset_errors: Mapping[TopicPartition, int] = field(default_factory=dict)
    failure: Exception | None = None
    """Raised instead of any answer."""
    asked: list[Request] = field(default_factory=list)
    principal: str = "User:ANONYMOUS"

    @property
    def connection(self) -> KafkaConnection:
        return cast(KafkaConnection, self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def ask(self, request: Request, timeout_ms: int | None = None) -> Response:
        self.asked.append(request)
        if self.failure is not None:
            raise self.failure
        match request:
            case ListGroupsRequest():
                return ListGroupsResponse(self.list_error, tuple(ListedGroup(name, "") for name in self.described))
            case DescribeGroupsRequest(groups=names):
                return DescribeGroupsResponse(tuple(self._describe(name) for name in names if name in self.described))
            case OffsetFetchRequest(group=name):
                rows = [
                    FetchedTopic(topic, (FetchedOffset(number, 7, 0, ""),))
                    for topic, number in self.stored.get(name, ())
                ]
                return OffsetFetchResponse(tuple(rows), self.stored_errors.get(name, 0))
            case ListOffsetsRequest(topics=topics):
                return ListOffsetsResponse(
                    tuple(
                        ListedTopic(
                            topic.topic,
                            tuple(
                                self._offset(TopicPartition(topic.topic, each.partition), each.timestamp_ms)
                                for each in topic.partitions
                            ),
                        )
                        for topic in topics
                    )
                )
            case _:
                raise AssertionError(f"unexpected {request}")

    def _describe(self, name: str) -> DescribedGroup:
        answers = self.described[name]
        return (answers.pop(0) if len(answers) > 1 else answers[0])._replace(group=name)

    def _offset(self, where: TopicPartition, time_ms: int) -> ListedOffset:
        if error := self.offset_errors.get(where, 0):
            return ListedOffset(where.partition, error, -1, -1)
        times = self.records.get(where, ())
        match time_ms:
            case _ if time_ms == EARLIEST:
                return ListedOffset(where.partition, 0, -1, 3)
            case _ if time_ms == LATEST:
                return ListedOffset(where.partition, 0, -1, 3 + len(times))
            case _:
                later = [(3 + at, found) for at, found in enumerate(times) if found >= time_ms]
                offset, found = later[0] if later else (-1, -1)
                return ListedOffset(where.partition, 0, found, offset)
