"""Parts of a control request, so that no frame to a broker exceeds a limit.

A broker closes the connection on a frame above its `socket.request.max.bytes`, every time the frame is sent again. So a
request with too many rows is sent as several requests, one after the other, and their answers count as one:

    orders 0-9, items 0-4    orders 0-7  |  orders 8-9, items 0-3  |  items 4

* Rows keep their order. A part has the controller and the epoch of the whole.
* Each part of UpdateMetadata lists all live brokers, because a broker takes the list for the whole. Each part of
  LeaderAndIsr lists the leaders of its own partitions.
* A part says nothing of partitions that it leaves out: LeaderAndIsr of type FULL, which does, is never sent (codec).
* A row that does not fit is a part of its own, and exceeds the limit. The caller reports it.
* The answer to the whole has the topics of all parts, and the first error that a part was answered with.

Sizes are upper bounds for all versions from IBP 2.2 on (`OLDEST`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final, NamedTuple

from lethe.protocol.kafka.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from lethe.protocol.kafka.partition_errors import without_seams
from lethe.protocol.kafka.queries import ChannelRequest, ChannelResponse, DescribeLogDirsResponse
from lethe.protocol.vocabulary import Broker

DEFAULT_MAX_BYTES: Final = 16 * 1024 * 1024
"""A sixth of what brokers accept by default. Not smaller, because a broker copies its metadata cache for each
UpdateMetadata: one of this size takes some 250,000 partitions."""

_HEADER_BYTES: Final = 22
"""The request's header with a client id of eleven characters, and its tagged fields."""
_HEAD_BYTES: Final = _HEADER_BYTES + 42
"""The header, the fields before the arrays, and the arrays' lengths."""
_TOPIC_BYTES: Final = 25
_LEADER_AND_ISR_ROW: Final = 43
_UPDATE_METADATA_ROW: Final = 36
_STOP_REPLICA_ROW: Final = 10
_NODE_BYTES: Final = 12
_BROKER_BYTES: Final = 13
_ENDPOINT_BYTES: Final = 13

_LEADER: Final = itemgetter(2)

_Topic = LeaderAndIsrTopic | UpdateMetadataTopic | StopReplicaTopic


class _Portion(NamedTuple):
    topics: tuple[Any, ...]
    leaders: Mapping[int, None]
    """Leaders of its partitions; only those of LeaderAndIsr."""


def parts_of(request: ChannelRequest, max_bytes: int) -> tuple[ChannelRequest, ...]:
    """Return requests that together say the same, each in a frame of at most `max_bytes` unless it has only one row."""
    match request:
        case LeaderAndIsrRequest():
            nodes = {node.id: _NODE_BYTES + _text_bytes(node.host) for node in request.live_leaders}
            portions = _portions(request.topics, max_bytes - _HEAD_BYTES, _leader_and_isr_bytes, nodes)
        case UpdateMetadataRequest():
            listed = sum(map(_broker_bytes, request.live_brokers))
            portions = _portions(request.topics, max_bytes - _HEAD_BYTES - listed, _update_metadata_bytes)
        case StopReplicaRequest():
            portions = _portions(request.topics, max_bytes - _HEAD_BYTES, _stop_replica_bytes)
        case _:
            return (request,)
    if len(portions) < 2:
        return (request,)
    return tuple(_part(request, portion) for portion in portions)


def merged(responses: Sequence[ChannelResponse]) -> ChannelResponse:
    """Return the answer to the whole request, from the answers to all its parts, in order."""
    first = responses[0]
    if len(responses) == 1:
        return first
    error = next((each.error for each in responses if each.error), 0)
    match first:
        case LeaderAndIsrResponse():
            answers = [topic for each in responses if isinstance(each, LeaderAndIsrResponse) for topic in each.topics]
            return LeaderAndIsrResponse(error, without_seams(answers))
        case StopReplicaResponse():
            stopped = [topic for each in responses if isinstance(each, StopReplicaResponse) for topic in each.topics]
            return StopReplicaResponse(error, without_seams(stopped))
        case UpdateMetadataResponse() | DescribeLogDirsResponse():
            return replace(first, error=error)


def exceeds(body_bytes: int, max_bytes: int) -> bool:
    """Return whether the frame of a body of this size exceeds the limit."""
    return body_bytes + _HEADER_BYTES > max_bytes


def _part(
    request: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest, portion: _Portion
) -> ChannelRequest:
    match request:
        case LeaderAndIsrRequest():
            nodes = tuple(node for node in request.live_leaders if node.id in portion.leaders)
            return replace(request, topics=portion.topics, live_leaders=nodes)
        case UpdateMetadataRequest():
            return replace(request, topics=portion.topics)
        case StopReplicaRequest():
            return replace(request, topics=portion.topics)


class _Filling:
    """Collects topics into portions of at most `room` bytes."""

    def __init__(self, room: int, rows_bytes: Callable[[Sequence[Any]], int], nodes: Mapping[int, int]) -> None:
        self.portions: list[_Portion] = []
        self._room = room
        self._rows_bytes = rows_bytes
        self._nodes = nodes
        self._topics: list[_Topic] = []
        self._leaders: dict[int, None] = {}
        self._bytes = 0

    def add(self, topic: _Topic) -> None:
        """Add a topic: as a whole where it fits, else row by row."""
        head = _TOPIC_BYTES + _text_bytes(topic.topic)
        if self._bytes + head + self._cost(topic.partitions) <= self._room:
            self._take(head, topic.partitions)
            self._topics.append(topic)
            return
        rows: list[Any] = []
        for row in topic.partitions:
            opening = 0 if rows else head
            if self._bytes + opening + self._cost((row,)) > self._room and (rows or self._topics):
                self.close(topic, rows)
                rows, opening = [], head
            self._take(opening, (row,))
            rows.append(row)
        self._append(topic, rows)

    def close(self, topic: _Topic | None = None, rows: Sequence[Any] = ()) -> None:
        """End the portion, with these rows of a topic as the last ones."""
        if topic is not None:
            self._append(topic, rows)
        if self._topics:
            self.portions.append(_Portion(tuple(self._topics), self._leaders))
        self._topics, self._leaders, self._bytes = [], {}, 0

    def _append(self, topic: _Topic, rows: Sequence[Any]) -> None:
        if rows:
            self._topics.append(topic._replace(partitions=tuple(rows)))

    def _cost(self, rows: Sequence[Any]) -> int:
        return self._rows_bytes(rows) + sum(self._nodes.get(leader, 0) for leader in self._new_leaders(rows))

    def _take(self, head: int, rows: Sequence[Any]) -> None:
        self._bytes += head + self._cost(rows)
        self._leaders |= self._new_leaders(rows)

    def _new_leaders(self, rows: Sequence[Any]) -> dict[int, None]:
        if not self._nodes:
            return {}
        return {leader: None for leader in dict.fromkeys(map(_LEADER, rows)) if leader not in self._leaders}


def _portions(
    topics: Iterable[_Topic], room: int, rows_bytes: Callable[[Sequence[Any]], int], nodes: Mapping[int, int] = {}
) -> list[_Portion]:
    filling = _Filling(room, rows_bytes, nodes)
    for topic in topics:
        filling.add(topic)
    filling.close()
    return filling.portions


# --- upper bounds -------------------------------------------------------------------------------------------------


def _leader_and_isr_bytes(rows: Sequence[Any]) -> int:
    numbers = sum(len(row[4]) + len(row[6]) + len(row[7]) + len(row[8]) for row in rows)
    return _LEADER_AND_ISR_ROW * len(rows) + 4 * numbers


def _update_metadata_bytes(rows: Sequence[Any]) -> int:
    return _UPDATE_METADATA_ROW * len(rows) + 4 * sum(len(row[4]) + len(row[6]) + len(row[7]) for row in rows)


def _stop_replica_bytes(rows: Sequence[Any]) -> int:
    return _STOP_REPLICA_ROW * len(rows)


def _broker_bytes(broker: Broker) -> int:
    endpoints = sum(_ENDPOINT_BYTES + _text_bytes(e.host) + _text_bytes(e.listener) for e in broker.endpoints)
    return _BROKER_BYTES + endpoints + _text_bytes(broker.rack or "")


def _text_bytes(text: str) -> int:
    return len(text.encode())
