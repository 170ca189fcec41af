"""ZooKeeper's transaction logs, read from disk: every write with its session, time and content, in order.

A file begins with magic `ZKLG`, version and database id. Then follow transactions: checksum, length, header (session,
cxid, zxid, time, type), record, and the letter `B`. A file is padded with zeros. A transaction is committed when a
majority of the servers has logged it. What a former leader alone has logged never happened.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEADER: Final = b"ZKLG"
_HEADER_BYTES: Final = 16
_TXN_HEADER: Final = struct.Struct("!qiqqi")
_CREATES: Final = (1, 15, 19, 21)
_DELETES: Final = (2, 20)
_SET_DATA, _MULTI, _CLOSE_SESSION, _ERROR = 5, 14, -11, -1


@dataclass(frozen=True, slots=True)
class Created:
    """A znode was created."""

    path: str
    data: bytes
    ephemeral: bool


@dataclass(frozen=True, slots=True)
class Written:
    """A znode has new data."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Deleted:
    """A znode was deleted."""

    path: str


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """The session ended; its ephemeral znodes are gone."""


Change = Created | Written | Deleted | SessionClosed


@dataclass(frozen=True, slots=True)
class Transaction:
    """One committed transaction: all of its changes happen at once. `time_ms` is the leader's clock."""

    zxid: int
    time_ms: int
    session: int
    changes: tuple[Change, ...]


class Unreadable(Exception):
    """A log cannot be understood, so nothing can be said about what was written."""


def committed(servers: Sequence[Path]) -> list[Transaction]:
    """Return what a majority of the servers has logged, in order. Each path is one server's `version-2` directory.

    Raises Unreadable.
    """
    found: dict[int, Transaction] = {}
    votes = Counter[int]()
    for directory in servers:
        own = {each.zxid: each for file in sorted(directory.glob("log.*")) for each in parse(file.read_bytes())}
        votes.update(own.keys())
        found |= own
    return [found[zxid] for zxid in sorted(found) if 2 * votes[zxid] > len(servers)]


def parse(data: bytes) -> Iterator[Transaction]:
    """Yield the transactions of one file, up to its padding or its unfinished end. Raises Unreadable."""
    if not data:
        return
    if not data.startswith(_HEADER):
        raise Unreadable("this is no transaction log")
    at = _HEADER_BYTES
    while at + 12 <= len(data):
        (size,) = struct.unpack_from("!i", data, at + 8)
        end = at + 12 + size
        if size <= 0 or end >= len(data) or data[end : end + 1] != b"B":
            return
        yield _transaction(data[at + 12 : end])
        at = end + 1


def _transaction(data: bytes) -> Transaction:
    session, _, zxid, time_ms, kind = _TXN_HEADER.unpack_from(data)
    try:
        changes = tuple(_changes(kind, data[_TXN_HEADER.size :]))
    except (struct.error, UnicodeDecodeError) as error:
        raise Unreadable(f"transaction {zxid:#x} of type {kind}: {error}") from error
    return Transaction(zxid, time_ms, session, changes)


def _changes(kind: int, record: bytes) -> Iterator[Change]:
    if kind == _CLOSE_SESSION:
        yield SessionClosed()
    elif kind == _MULTI:
        (count,) = struct.unpack_from("!i", record)
        at, parts = 4, []
        for _ in range(count):
            (inner,) = struct.unpack_from("!i", record, at)
            body, at = _buffer(record, at + 4)
            parts.append((inner, body))
        # A multi that failed is logged too, with what preceded the failure; nothing of it happened.
        if _ERROR not in {inner for inner, _ in parts}:
            for inner, body in parts:
                yield from _changes(inner, body)
    elif kind in (*_CREATES, *_DELETES, _SET_DATA):
        raw, at = _buffer(record, 0)
        path = raw.decode()
        if kind in _DELETES:
            yield Deleted(path)
        elif kind == _SET_DATA:
            yield Written(path, _buffer(record, at)[0])
        else:
            content, at = _buffer(record, at)
            yield Created(path, content, _is_ephemeral(kind, record, at))


def _is_ephemeral(kind: int, record: bytes, at: int) -> bool:
    if kind not in (1, 15):
        return False
    (acls,) = struct.unpack_from("!i", record, at)
    at += 4
    for _ in range(max(acls, 0)):
        _, at = _buffer(record, at + 4)
        _, at = _buffer(record, at)
    return record[at] != 0


def _buffer(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the buffer at this place and the place behind it; a null buffer is empty."""
    (size,) = struct.unpack_from("!i", data, at)
    start = at + 4
    end = start + max(size, 0)
    if end > len(data):
        raise struct.error("a field is longer than its record")
    return data[start:end], end
