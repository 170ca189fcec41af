"""Minimal Metadata request (version 12) written from Kafka's protocol guide, for the checker alone."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

METADATA, VERSION, CORRELATION = 3, 12, 77
_CLIENT: Final = b"chaos"
_Item = TypeVar("_Item")


class NoAnswer(Exception):
    """The broker gave no answer that can be understood: its cache is unseen."""


@dataclass(frozen=True, slots=True)
class SeenPartition:
    """A partition in a broker's metadata cache."""

    leader: int
    replicas: tuple[int, ...]
    error: int


@dataclass(frozen=True, slots=True)
class SeenTopic:
    """A topic in a broker's metadata cache."""

    topic_id: uuid.UUID
    error: int
    partitions: dict[int, SeenPartition]


@dataclass(frozen=True, slots=True)
class SeenCache:
    """One broker's answer about all topics."""

    controller: int
    brokers: tuple[int, ...]
    topics: dict[str, SeenTopic]


async def read_cache(host: str, port: int, limit_s: float = 10.0) -> SeenCache:
    """Ask the broker for all topics. Raises NoAnswer and OSError (TimeoutError included)."""
    async with asyncio.timeout(limit_s):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            header = struct.pack("!hhih", METADATA, VERSION, CORRELATION, len(_CLIENT)) + _CLIENT + b"\0"
            # All topics (null), no automatic creation, no authorized operations, no tagged fields.
            request = header + b"\0\0\0\0"
            writer.write(struct.pack("!i", len(request)) + request)
            (size,) = struct.unpack("!i", await reader.readexactly(4))
            answer = await reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise NoAnswer("the broker closed the connection") from error
        finally:
            writer.close()
    try:
        return parse(answer)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise NoAnswer(f"the answer cannot be understood: {error}") from error


def parse(answer: bytes) -> SeenCache:
    """Parse a whole response frame. Raises NoAnswer, struct.error, IndexError."""
    at = _Cursor(answer)
    if at.int32() != CORRELATION:
        raise NoAnswer("the answer belongs to another request")
    at.tags()
    at.int32()  # throttle time
    brokers = at.array(_broker)
    at.text()  # cluster id
    controller = at.int32()
    topics = at.array(_topic)
    at.end()
    return SeenCache(controller, tuple(sorted(brokers)), dict(topics))


def _broker(at: _Cursor) -> int:
    number = at.int32()
    at.text()
    at.int32()
    at.text()
    at.tags()
    return number


def _topic(at: _Cursor) -> tuple[str, SeenTopic]:
    error, name = at.int16(), at.text()
    topic_id = uuid.UUID(bytes=at.take(16))
    at.take(1)  # is internal
    partitions = at.array(_partition)
    at.int32()
    at.tags()
    return name or "", SeenTopic(topic_id, error, dict(partitions))


def _partition(at: _Cursor) -> tuple[int, SeenPartition]:
    error, number, leader = at.int16(), at.int32(), at.int32()
    at.int32()  # leader epoch
    replicas = at.array(_Cursor.int32)
    at.array(_Cursor.int32)  # ISR
    at.array(_Cursor.int32)  # offline replicas
    at.tags()
    return number, SeenPartition(leader, tuple(replicas), error)


class _Cursor:
    """Reads one response from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise IndexError("the answer is too short")
        self._at += size
        return self._data[self._at - size : self._at]

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def text(self) -> str | None:
        size = self.varint()
        return None if size == 0 else self.take(size - 1).decode()

    def array(self, item: Callable[[_Cursor], _Item]) -> list[_Item]:
        return [item(self) for _ in range(self.varint() - 1)]

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())

    def end(self) -> None:
        """Check that nothing follows the last tagged fields."""
        self.tags()
        if self._at != len(self._data):
            raise NoAnswer(f"{len(self._data) - self._at} bytes follow the answer")
