"""Fast layouts for the large arrays of responses: an error for each partition of a LeaderAndIsr or StopReplica.

Theory of operation. Rows without a name have one size, so a whole topic is unpacked at once. A row with a name mostly
has the name of the row before it, so its bytes are compared with that name and not decoded. If a row differs, it is
read field by field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from lethe.protocol.kafka.codec_layout import MakeArray
from lethe.protocol.kafka.codec_primitives import (
    Append,
    Layout,
    Malformed,
    encode_length,
    encode_string,
    read_length,
)
from lethe.protocol.kafka.control import TopicError

_BY_ID: Final = struct.Struct(">ihB")
_NAMED: Final = {True: struct.Struct(">ihB"), False: struct.Struct(">ih")}
"""Partition, error and, in flexible versions, an empty section of tagged fields."""


def _length(buffer: bytes, offset: int, flexible: bool, item_bytes: int) -> tuple[int, int]:
    count, end = read_length(buffer, offset, flexible, item_bytes)
    if count < 0:
        raise Malformed(f"null at offset {offset}, where the protocol allows none")
    return count, end


def errors_by_partition() -> MakeArray:
    """Return the layout of (partition, error) arrays of flexible versions: one topic in a LeaderAndIsr response."""

    def make(item: Layout) -> Layout:
        def read(buffer: bytes, offset: int) -> tuple[tuple[Any, ...], int]:
            count, offset = _length(buffer, offset, True, item.min_bytes)
            end = offset + count * _BY_ID.size
            # A row with tagged fields has another size: then the rows after it are not at the expected offsets.
            if end <= len(buffer) and not any(buffer[offset + _BY_ID.size - 1 : end : _BY_ID.size]):
                return tuple([(each[0], each[1]) for each in _BY_ID.iter_unpack(buffer[offset:end])]), end
            rows = []
            for _ in range(count):
                row, offset = item.read(buffer, offset)
                rows.append(row)
            return tuple(rows), offset

        def write(rows: Sequence[tuple[int, int]], append: Append) -> None:
            append(encode_length(len(rows), True))
            append(b"".join([_BY_ID.pack(partition, error, 0) for partition, error in rows]))

        return Layout(read, write, 1)

    return make


def errors_by_name(version_is_flexible: bool) -> MakeArray:
    """Return the layout of an array of TopicError: the rows of a StopReplica response."""
    row = _NAMED[version_is_flexible]
    tags = (0,) if version_is_flexible else ()

    def make(item: Layout) -> Layout:
        return Layout(
            _named_reader(row, version_is_flexible, item),
            _named_writer(row, version_is_flexible, tags),
            len(encode_length(0, version_is_flexible)),
        )

    return make


def _named_reader(
    row: struct.Struct, flexible: bool, item: Layout
) -> Callable[[bytes, int], tuple[tuple[TopicError, ...], int]]:
    unpack_from, row_bytes = row.unpack_from, row.size

    def read(buffer: bytes, offset: int) -> tuple[tuple[TopicError, ...], int]:
        count, offset = _length(buffer, offset, flexible, item.min_bytes)
        rows: list[TopicError] = []
        name, prefix = "", b""
        last = -1
        for _ in range(count):
            if offset <= last and buffer.startswith(prefix, offset):
                values = unpack_from(buffer, offset + len(prefix))
                if not flexible or values[2] == 0:
                    rows.append(TopicError(name, values[0], values[1]))
                    offset += len(prefix) + row_bytes
                    continue
            found, offset = item.read(buffer, offset)
            rows.append(found)
            name, prefix = found.topic, encode_string(found.topic, flexible)
            last = len(buffer) - len(prefix) - row_bytes
        return tuple(rows), offset

    return read


def _named_writer(
    row: struct.Struct, flexible: bool, tags: tuple[int, ...]
) -> Callable[[Sequence[TopicError], Append], None]:
    pack = row.pack

    def write(rows: Sequence[TopicError], append: Append) -> None:
        append(encode_length(len(rows), flexible))
        name, prefix = None, b""
        for topic, partition, error in rows:
            if topic != name:
                name, prefix = topic, encode_string(topic, flexible)
            append(prefix + pack(partition, error, *tags))

    return write
