"""ZooKeeper's atomic multi on the wire.

Theory of operation. Plans have hundreds of thousands of operations, and neighbours mostly have the same type. So each
run of one type is packed without a loop in Python. The answers to a run of deletes are the same bytes again and again:
they are compared at once, and read one by one only where they differ.

    Check, Delete x 100     two runs     answers: 9 bytes for each
    Check, Create x 100     two runs     answers: path and Stat for each; equal Stats become one object
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, groupby, repeat
from operator import attrgetter
from struct import Struct
from typing import Any, Final

from aiozk.protocol.acl import ACL

from lethe.adapters.zookeeper.wire import DONE, ERROR, INT, RESULT, STAT, Request, error_of, full_path, parse_text
from lethe.protocol.zookeeper.operations import (
    Acl,
    Check,
    Create,
    Delete,
    MultiDone,
    MultiFailed,
    Operation,
    SetData,
    Stat,
    ZkError,
)

_MULTI: Final = 14
_ANSWERED_BY: Final = {Create: 15, SetData: 5, Delete: 2, Check: 13}
_HEADERS: Final = {each: RESULT.pack(code, False, -1) for each, code in _ANSWERED_BY.items()}
"""Headers of the operations. A create is sent as create2, whose answer has the same type."""
_CREATE_WITHOUT_STAT: Final = 1
"""Type of the answer of servers before 3.7.2 and 3.8.2, which make a create of a create2 in a multi: it has no Stat."""
_BARE_ANSWERS: Final = {each: RESULT.pack(_ANSWERED_BY[each], False, 0) for each in (Delete, Check)}
_FAILED: Final = Struct("!i?ii")
_FLAGS: Final = {
    (False, False): INT.pack(0),
    (True, False): INT.pack(1),
    (False, True): INT.pack(2),
    (True, True): INT.pack(3),
}
"""By (ephemeral, sequential)."""
_NULL: Final = INT.pack(-1)
_PATH, _DATA, _VERSION, _ACL = attrgetter("path"), attrgetter("data"), attrgetter("version"), attrgetter("acl")
_MODE: Final = attrgetter("ephemeral", "sequential")

# --- access lists -------------------------------------------------------------------------------------------------

_WORLD_ALL = ACL.make("world", "anyone", read=True, write=True, create=True, delete=True, admin=True)
_WORLD_READ = ACL.make("world", "anyone", read=True)
_CREATOR_ALL = ACL.make("auth", "", read=True, write=True, create=True, delete=True, admin=True)


def _acl_bytes(*entries: Any) -> bytes:
    parts = [INT.pack(len(entries))]
    for entry in entries:
        fmt, values = entry.render()
        parts.append(Struct("!" + fmt).pack(*values))
    return b"".join(parts)


_OPEN: Final = _acl_bytes(_WORLD_ALL)
_SET_ACLS: Final = {
    Acl.OPEN: _OPEN,
    Acl.DEFAULT: _acl_bytes(_CREATOR_ALL, _WORLD_READ),
    Acl.SECRET: _acl_bytes(_CREATOR_ALL),
}


def pack_multi(chroot: str, operations: Sequence[Operation], *, set_acl: bool) -> Request:
    """Pack an atomic multi. The answer is MultiDone (its paths without the chroot) or MultiFailed."""
    pack = INT.pack
    parts = [pack(_MULTI)]
    for kind, same in groupby(operations, type):
        run = list(same)
        paths = _encoded_paths(chroot, run)
        columns: list[Iterable[bytes]] = [repeat(_HEADERS[kind]), map(pack, map(len, paths)), paths]
        if kind is Create or kind is SetData:
            columns.append(map(_buffer, map(_DATA, run)))
        if kind is Create:
            acls = map(_SET_ACLS.__getitem__, map(_ACL, run)) if set_acl else repeat(_OPEN)
            columns += (acls, map(_FLAGS.__getitem__, map(_MODE, run)))
        else:
            columns.append(map(pack, map(_VERSION, run)))
        parts += chain.from_iterable(zip(*columns, strict=False))
    parts.append(DONE)
    return Request(b"".join(parts), lambda body, zxid: _parse_multi(body, zxid, chroot, operations))


def _encoded_paths(chroot: str, run: Sequence[Operation]) -> list[bytes]:
    full = [full_path(chroot, path) for path in map(_PATH, run)] if chroot else map(_PATH, run)
    return list(map(str.encode, full))


def _buffer(data: bytes | None) -> bytes:
    return _NULL if data is None else INT.pack(len(data)) + data


def _parse_multi(body: bytes, zxid: int, chroot: str, operations: Sequence[Operation]) -> MultiDone | MultiFailed:
    if operations and RESULT.unpack_from(body, 0)[0] == ERROR:
        return _parse_multi_failure(body, len(operations))
    stats: list[Stat | None] = []
    paths: list[str] = []
    at = 0
    seen: dict[bytes, Stat] = {}
    for kind, same in groupby(operations, type):
        run = list(same)
        if kind in _BARE_ANSWERS and body.startswith(_BARE_ANSWERS[kind] * len(run), at):
            at += RESULT.size * len(run)
            stats += repeat(None, len(run))
            paths += map(_PATH, run)
            continue
        for operation in run:
            answered, done, _ = RESULT.unpack_from(body, at)
            if kind is Create and answered == _CREATE_WITHOUT_STAT and not done:
                path, at = _parse_created(body, at + RESULT.size, chroot, operation)
                stats.append(None)
                paths.append(path)
                continue
            if done or answered != _ANSWERED_BY[kind]:
                raise ValueError(f"the answer to {operation} is of type {answered}")
            path, stat, at = _parse_answer(body, at + RESULT.size, chroot, operation, seen)
            stats.append(stat)
            paths.append(path)
    if body[at:] != DONE:
        raise ValueError("a multi's answer does not end where it should")
    return MultiDone(tuple(stats), tuple(paths), zxid)


def _parse_answer(
    body: bytes, at: int, chroot: str, operation: Operation, seen: dict[bytes, Stat]
) -> tuple[str, Stat | None, int]:
    """Return path and Stat of the answer to one operation, and the answer's end; `at` is behind its header."""
    match operation:
        case Create():
            path, at = _parse_created(body, at, chroot, operation)
            return path, *_parse_stat(body, at, seen)
        case SetData(path=path):
            return path, *_parse_stat(body, at, seen)
        case Delete(path=path) | Check(path=path):
            return path, None, at


def _parse_created(body: bytes, at: int, chroot: str, operation: Operation) -> tuple[str, int]:
    """Return the path of the created znode and its end."""
    created, at = parse_text(body, at)
    is_sequential = isinstance(operation, Create) and operation.sequential
    return (created[len(chroot) :] or "/") if is_sequential else operation.path, at


def _parse_stat(body: bytes, at: int, seen: dict[bytes, Stat]) -> tuple[Stat, int]:
    """Return the Stat and its end. Znodes that one multi created have equal ones: one object, for plans are large."""
    raw = body[at : at + STAT.size]
    stat = seen.get(raw)
    if stat is None:
        seen[raw] = stat = Stat._make(STAT.unpack(raw))
    return stat, at + STAT.size


def _parse_multi_failure(body: bytes, count: int) -> MultiFailed:
    codes = []
    for index in range(count):
        kind, done, _, code = _FAILED.unpack_from(body, index * _FAILED.size)
        if done or kind != ERROR:
            raise ValueError("a failed multi's answer has a good result")
        codes.append(code)
    if body[count * _FAILED.size :] != DONE:
        raise ValueError("a multi's answer does not end where it should")
    for index, code in enumerate(codes):
        if code not in (0, ZkError.RUNTIME_INCONSISTENCY):
            return MultiFailed(index, error_of(code))
    raise ValueError(f"a multi failed without an error: {codes[:8]}")
