"""Fast layouts for the large arrays of responses: an error for each partition of a LeaderAndIsr or StopReplica.

Theory of operation. Without the name, the rows of a topic have one size, and topics of one size are mostly answered
with the same bytes: their partitions, and NONE for each. So these bytes are looked up among those that were read last,
and only new ones are unpacked. Where each row begins with the topic's name, the bytes are cut at the name; as many
adjacent rows as the topic before had are tried at once, then the double or the half.

    2 "orders" 0 NONE, "orders" 1 NONE      0 NONE, 1 NONE: unpacked
    2 "items"  0 NONE, "items"  1 NONE      0 NONE, 1 NONE: the same value again

A row with tagged fields has another size. It is read field by field, and so are its neighbours.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from lethe.protocol.kafka.codec_layout import MakeArray
from lethe.protocol.kafka.codec_primitives import (
    Append,
    Layout,
    Malformed,
    Unencodable,
    encode_length,
    encode_string,
    read_length,
)
from lethe.protocol.kafka.partition_errors import PartitionErrors, TopicErrors

_REMEMBERED: Final = 256
_REMEMBERED_BYTES: Final = 2_048
"""Rows of more bytes are unpacked each time: large topics are few, and a peer chooses what is remembered."""

_FLEXIBLE: Final = struct.Struct(">ihB")
_ROWS: Final = {True: _FLEXIBLE, False: struct.Struct(">ih")}
"""Partition, error and, in flexible versions, an empty section of tagged fields."""


def _unpacked(rows: bytes, flexible: bool) -> PartitionErrors | None:
    """Return the errors in adjacent rows without names; None if one has tagged fields."""
    if not flexible:
        return PartitionErrors.of_rows(_ROWS[False].iter_unpack(rows))
    if any(rows[_FLEXIBLE.size - 1 :: _FLEXIBLE.size]):
        return None
    return PartitionErrors.of_rows((number, error) for number, error, _ in _FLEXIBLE.iter_unpack(rows))


_remembered = lru_cache(maxsize=_REMEMBERED)(_unpacked)


def _errors(rows: bytes, flexible: bool) -> PartitionErrors | None:
    return (_remembered if len(rows) <= _REMEMBERED_BYTES else _unpacked)(rows, flexible)


def _length(buffer: bytes, offset: int, flexible: bool, item_bytes: int) -> tuple[int, int]:
    count, end = read_length(buffer, offset, flexible, item_bytes)
    if count < 0:
        raise Malformed(f"null at offset {offset}, where the protocol allows none")
    return count, end


# --- rows without names -------------------------------------------------------------------------------------------


def errors_by_partition() -> MakeArray:
    """Return the layout of PartitionErrors in flexible versions: one topic in a LeaderAndIsr response."""

    def make(item: Layout) -> Layout:
        def read(buffer: bytes, offset: int) -> tuple[PartitionErrors, int]:
            count, offset = _length(buffer, offset, True, item.min_bytes)
            end = offset + count * _FLEXIBLE.size
            # After a row with tagged fields the other rows are not at the expected offsets.
            if end <= len(buffer) and (found := _errors(buffer[offset:end], True)) is not None:
                return found, end
            rows = []
            for _ in range(count):
                row, offset = item.read(buffer, offset)
                rows.append(row)
            return PartitionErrors.of_rows(rows), offset

        def write(errors: PartitionErrors, append: Append) -> None:
            append(encode_length(len(errors.rows), True))
            append(b"".join([_FLEXIBLE.pack(partition, error, 0) for partition, error in errors.rows]))

        return Layout(read, write, 1)

    return make


# --- rows with names ----------------------------------------------------------------------------------------------


def errors_by_name(version_is_flexible: bool) -> MakeArray:
    """Return the layout of TopicErrors as rows that begin with the topic's name. A row alone is (name, partition,
    error)."""

    def make(item: Layout) -> Layout:
        return Layout(
            _named_reader(version_is_flexible, item),
            _named_writer(version_is_flexible),
            len(encode_length(0, version_is_flexible)),
        )

    return make


def _named_reader(flexible: bool, item: Layout) -> Callable[[bytes, int], tuple[tuple[TopicErrors, ...], int]]:
    def read(buffer: bytes, offset: int) -> tuple[tuple[TopicErrors, ...], int]:
        left, offset = _length(buffer, offset, flexible, item.min_bytes)
        found: list[tuple[str, list[PartitionErrors]]] = []
        expected = 1
        while left:
            row, end = item.read(buffer, offset)
            prefix = encode_string(row[0], flexible)
            rows = _run(buffer, offset, prefix, flexible, left, expected)
            errors = _errors(rows, flexible) if rows else None
            if errors is None:
                errors = PartitionErrors.of_rows([row[1:]])
            else:
                end = offset + len(rows) + len(errors.rows) * len(prefix)
            expected = len(errors.rows)
            left, offset = left - expected, end
            if found and found[-1][0] == row[0]:
                found[-1][1].append(errors)
            else:
                found.append((row[0], [errors]))
        return tuple(TopicErrors(name, None, PartitionErrors.joined(each)) for name, each in found), offset

    return read


def _run(buffer: bytes, offset: int, prefix: bytes, flexible: bool, at_most: int, expected: int) -> bytes:
    """Return what follows the prefix in each of the adjacent rows that begin with it and have no tagged fields.

    `expected` is the number of rows to try first: of the topic before, so that a false one costs no more than that
    topic did. No row is tried after one with tagged fields: the field's bytes may look like any number of rows."""
    row_bytes = _ROWS[flexible].size
    size = len(prefix) + row_bytes
    at_most = min(at_most, (len(buffer) - offset) // size)
    found: list[bytes] = []
    count = expected
    while count := min(count, at_most):
        first, *rows = buffer[offset : offset + count * size].split(prefix)
        joined = b"".join(rows)
        is_tagged = flexible and joined[row_bytes - 1 :: row_bytes].strip(b"\0")
        if not first and set(map(len, rows)) == {row_bytes} and not is_tagged:
            found.append(joined)
            offset += count * size
            if not buffer.startswith(prefix, offset):
                break
            at_most -= count
            count *= 2
        elif count == 1:
            break
        else:
            count //= 2
    return b"".join(found)


def _named_writer(flexible: bool) -> Callable[[Sequence[TopicErrors], Append], None]:
    pack, tags = _ROWS[flexible].pack, (0,) if flexible else ()

    def write(topics: Sequence[TopicErrors], append: Append) -> None:
        append(encode_length(sum(len(each.errors.rows) for each in topics), flexible))
        for name, _, errors in topics:
            if name is None:
                raise Unencodable("this version names topics, and one has no name")
            prefix = encode_string(name, flexible)
            append(b"".join([prefix + pack(partition, error, *tags) for partition, error in errors.rows]))

    return write
