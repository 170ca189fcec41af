"""Primitives of Kafka's wire format: numbers, varints, strings, ids, arrays.

Every length is checked against the available bytes before memory is allocated for it, so a false length costs nothing.
Readers raise Malformed, or IndexError and struct.error at the end of the buffer. `codec` turns those two into Malformed
once for the whole message.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lethe.protocol.counting import counted
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.vocabulary import ZERO_TOPIC_ID

Append = Callable[[bytes], Any]
Read = Callable[[bytes, int], tuple[Any, int]]
"""(buffer, offset) -> (value, offset after it)"""
Write = Callable[[Any, Append], None]
"""(value, append to output)"""


class Malformed(ProtocolError):
    """The bytes are not a valid message: truncated, with impossible lengths, or with bytes after the end."""


class Unencodable(ValueError):
    """The requested version cannot carry the value."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One version of one struct or field."""

    read: Read
    write: Write
    min_bytes: int
    """Size of the shortest encoding; array lengths are checked against it."""


FIXED: Final = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "error_code": ("h", 2),
    "int32": ("i", 4),
    "timedelta_i32": ("i", 4),
    "int64": ("q", 8),
    "timedelta_i64": ("q", 8),
}
"""Code of `struct`, and size. Throttle times stay milliseconds and error codes stay numbers."""

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_INT32_ARRAYS: Final = tuple(struct.Struct(f">{n}i") for n in range(64))
_MAX_STRING_BYTES: Final = 32_767
_STRING_LIMIT: Final = f"Kafka's strings have at most {_MAX_STRING_BYTES}"
ONE_BYTE: Final = tuple(bytes([n]) for n in range(128))


def encode_uvarint(value: int) -> bytes:
    """Encode an unsigned varint: seven bits per byte, lowest first."""
    if value < 128:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: bytes, offset: int) -> tuple[int, int]:
    """Decode an unsigned varint. Raises Malformed beyond five bytes, IndexError at the end of the buffer."""
    byte = buffer[offset]
    if byte < 128:
        return byte, offset + 1
    value, shift = byte & 127, 7
    while True:
        offset += 1
        byte = buffer[offset]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, offset + 1
        shift += 7
        if shift > 28:
            raise Malformed(f"a varint of more than five bytes at offset {offset - 4}")


def skip_tagged_fields(buffer: bytes, offset: int) -> int:
    """Skip a section of tagged fields; return the offset after it."""
    count, offset = read_uvarint(buffer, offset)
    for _ in range(count):
        _, offset = read_uvarint(buffer, offset)
        size, offset = read_uvarint(buffer, offset)
        offset = end_of(buffer, offset, size)
    return offset


def end_of(buffer: bytes, offset: int, size: int) -> int:
    end = offset + size
    if size < 0 or end > len(buffer):
        raise Malformed(f"{counted(size, 'byte')} announced at offset {offset}, {len(buffer) - offset} are there")
    return end


def _text(buffer: bytes, offset: int, size: int) -> tuple[str, int]:
    end = end_of(buffer, offset, size)
    try:
        return buffer[offset:end].decode(), end
    except UnicodeDecodeError as error:
        raise Malformed(f"the string at offset {offset} is not UTF-8: {error.reason}") from error


def _null(offset: int, nullable: bool) -> None:
    if not nullable:
        raise Malformed(f"null at offset {offset}, where the protocol allows none")


def _read_uuid(buffer: bytes, offset: int) -> tuple[uuid.UUID | None, int]:
    end = end_of(buffer, offset, 16)
    value = uuid.UUID(bytes=buffer[offset:end])
    return (None if value == ZERO_TOPIC_ID else value), end


def _write_uuid(value: uuid.UUID | None, append: Append) -> None:
    append((ZERO_TOPIC_ID if value is None else value).bytes)


def string(flexible: bool, nullable: bool) -> Layout:
    def read_compact(buffer: bytes, offset: int) -> tuple[str | None, int]:
        size, start = read_uvarint(buffer, offset)
        if size > _MAX_STRING_BYTES + 1:
            raise Malformed(f"a string of {counted(size - 1, 'byte')} at offset {offset}: {_STRING_LIMIT}")
        if size:
            return _text(buffer, start, size - 1)
        _null(offset, nullable)
        return None, start

    def read_legacy(buffer: bytes, offset: int) -> tuple[str | None, int]:
        (size,) = _I16.unpack_from(buffer, offset)
        if size >= 0:
            return _text(buffer, offset + 2, size)
        _null(offset, nullable)
        return None, offset + 2

    def write(value: str | None, append: Append) -> None:
        if value is None:
            if not nullable:
                raise Unencodable("null, where the version at hand needs a text")
            append(b"\0" if flexible else b"\xff\xff")
        else:
            append(encode_string(value, flexible))

    return Layout(read_compact if flexible else read_legacy, write, 1 if flexible else 2)


def encode_string(value: str, flexible: bool) -> bytes:
    """Return the string with its length in front. Raises Unencodable beyond 32,767 bytes."""
    data = value.encode()
    if len(data) > _MAX_STRING_BYTES:
        raise Unencodable(f"a text of {counted(len(data), 'byte')}: {_STRING_LIMIT}")
    return (encode_uvarint(len(data) + 1) if flexible else _I16.pack(len(data))) + data


def byte_string(flexible: bool) -> Layout:
    """Return the layout of bytes that are never null."""

    def read(buffer: bytes, offset: int) -> tuple[bytes, int]:
        size, start = read_length(buffer, offset, flexible, 1)
        _null(offset, size >= 0)
        return buffer[start : start + size], start + size

    def write(value: bytes, append: Append) -> None:
        append(encode_length(len(value), flexible))
        append(value)

    return Layout(read, write, 1 if flexible else 4)


def encode_length(length: int, flexible: bool) -> bytes:
    """Return the length prefix of an array."""
    return encode_uvarint(length + 1) if flexible else _I32.pack(length)


def read_length(buffer: bytes, offset: int, flexible: bool, item_bytes: int) -> tuple[int, int]:
    """Return an array's length, -1 for null, and the offset after it. Raises Malformed if too few bytes follow."""
    if flexible:
        length, offset = read_uvarint(buffer, offset)
        length -= 1
    else:
        (length,) = _I32.unpack_from(buffer, offset)
        offset += 4
    if length < -1 or length * item_bytes > len(buffer) - offset:
        raise Malformed(
            f"an array of {length} items of at least {counted(item_bytes, 'byte')} is announced at offset {offset}, "
            f"{counted(len(buffer) - offset, 'byte is', 'bytes are')} there"
        )
    return length, offset


def int32_array(flexible: bool, nullable: bool) -> Layout:
    def read(buffer: bytes, offset: int) -> tuple[tuple[int, ...] | None, int]:
        length, offset = read_length(buffer, offset, flexible, 4)
        if 0 <= length < 64:
            return _INT32_ARRAYS[length].unpack_from(buffer, offset), offset + 4 * length
        if length < 0:
            _null(offset, nullable)
            return None, offset
        return struct.unpack_from(f">{length}i", buffer, offset), offset + 4 * length

    def write(values: Sequence[int] | None, append: Append) -> None:
        if values is None:
            append(b"\0" if flexible else b"\xff\xff\xff\xff")
        else:
            append(encode_length(len(values), flexible))
            append(struct.pack(f">{len(values)}i", *values))

    return Layout(read, write, 1 if flexible else 4)


def struct_array(item: Layout, flexible: bool, nullable: bool) -> Layout:
    read_item, write_item, item_bytes = item.read, item.write, item.min_bytes

    def read(buffer: bytes, offset: int) -> tuple[tuple[Any, ...] | None, int]:
        length, offset = read_length(buffer, offset, flexible, item_bytes)
        if length < 0:
            _null(offset, nullable)
            return None, offset
        items = []
        for _ in range(length):
            value, offset = read_item(buffer, offset)
            items.append(value)
        return tuple(items), offset

    def write(values: Sequence[Any] | None, append: Append) -> None:
        if values is None:
            if not nullable:
                raise Unencodable("null, where the version at hand needs an array")
            append(b"\0" if flexible else b"\xff\xff\xff\xff")
            return
        append(encode_length(len(values), flexible))
        for value in values:
            write_item(value, append)

    return Layout(read, write, 1 if flexible else 4)


def fixed(kafka_type: str) -> Layout:
    """Return the layout of a number or a boolean."""
    packer = struct.Struct(">" + FIXED[kafka_type][0])

    def read(buffer: bytes, offset: int) -> tuple[Any, int]:
        return packer.unpack_from(buffer, offset)[0], offset + packer.size

    def write(value: Any, append: Append) -> None:
        append(packer.pack(value))

    return Layout(read, write, packer.size)


TOPIC_ID: Final = Layout(_read_uuid, _write_uuid, 16)
"""All zeros on the wire are None in Python."""
