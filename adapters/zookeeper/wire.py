"""ZooKeeper's wire format: frequent messages are packed and parsed by hand, rare ones by aiozk's classes.

aiozk's generic serialiser builds a format string per request and an object per field. A multi of 500 deletes takes it
2.7 ms, and `wire_multi` 0.1 ms. Its classes are used where speed does not matter: connect, auth, ping, close. Paths in
our values are without the chroot.

All parsers raise struct.error, ValueError or IndexError for an answer that does not fit the request. For the reader of
the connection each of them means that the connection cannot be trusted any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from aiozk.protocol.auth import AUTH_XID, AuthRequest
from aiozk.protocol.close import CloseRequest
from aiozk.protocol.connect import ConnectRequest, ConnectResponse
from aiozk.protocol.ping import PING_XID, PingRequest
from aiozk.protocol.watches import WATCH_XID

from lethe.protocol.counting import counted
from lethe.protocol.zookeeper.operations import (
    Children,
    Credentials,
    Data,
    Exists,
    GetChildren,
    GetData,
    Present,
    Read,
    ReadFailed,
    ReadOutcome,
    Stat,
    WatchFired,
    WatchKind,
    ZkError,
)

__all__ = ["AUTH_XID", "PING_XID", "WATCH_XID"]

UNPARSABLE: Final = (ValueError, IndexError, KeyError, OverflowError)
"""Exceptions of parsers, besides struct.error."""

HEADER: Final = Struct("!iqi")
"""Header of an answer: xid, zxid, error."""
SESSION_EXPIRED: Final = -112
SASL_REQUIRED: Final = -124
"""The server serves only clients that log in by SASL (`sessionRequireClientSASLAuth`), and closes the session."""
SESSION_OVER: Final = frozenset({SESSION_EXPIRED, SASL_REQUIRED})
"""Errors after which the session does not exist any more."""
INT: Final = Struct("!i")
RESULT: Final = Struct("!i?i")
STAT: Final = Struct("!qq16xi8xq4xi8x")
_TIMES: Final = Struct("!16xqq36x")
DONE: Final = RESULT.pack(-1, True, -1)

_EXISTS, _GET_DATA, _GET_CHILDREN, _MULTI_READ, _SET_WATCHES, _SASL = 3, 4, 8, 22, 101, 102
ERROR: Final = -1
_OP_GET_DATA: Final = RESULT.pack(_GET_DATA, False, -1)
_OP_GET_CHILDREN: Final = RESULT.pack(_GET_CHILDREN, False, -1)
_ERRORS: Final = {error.value: error for error in ZkError}


def error_of(code: int) -> ZkError:
    """Return ZooKeeper's error code as our value."""
    return _ERRORS.get(code, ZkError.OTHER)


class Request(NamedTuple):
    """Everything after length and xid, and the parser of a successful answer."""

    payload: bytes
    parse: Callable[[bytes, int], Any]
    """(body of the answer, its zxid) -> value"""


# --- paths and texts ----------------------------------------------------------------------------------------------


def full_path(chroot: str, path: str) -> str:
    """Return the path including the chroot."""
    return chroot + path if path != "/" else chroot or "/"


def _text(text: str) -> bytes:
    raw = text.encode()
    return INT.pack(len(raw)) + raw


def parse_text(body: bytes, at: int) -> tuple[str, int]:
    """Return the text and its end."""
    (length,) = INT.unpack_from(body, at)
    end = at + 4 + length
    if length < 0 or end > len(body):
        raise ValueError(f"a text of {counted(length, 'byte')} at {at} of {len(body)}")
    return body[at + 4 : end].decode(), end


# --- reads --------------------------------------------------------------------------------------------------------


class ExistsOutcome(NamedTuple):
    """Outcome of an Exists that was sent as a read of the data, which took `data_bytes`."""

    present: Present
    data_bytes: int


def pack_multi_read(chroot: str, reads: Sequence[Read]) -> Request:
    """Pack many reads (opcode 22, ZooKeeper 3.6 and later), which arm no watch. The answer is a list of outcomes as of
    its zxid or later. An Exists reads the data, which needs the permission to read; its outcome is `ExistsOutcome`."""
    parts = [INT.pack(_MULTI_READ)]
    for read in reads:
        path = full_path(chroot, read.path).encode()
        operation = _OP_GET_CHILDREN if isinstance(read, GetChildren) else _OP_GET_DATA
        parts += (operation, INT.pack(len(path)), path, b"\0")
    parts.append(DONE)
    return Request(b"".join(parts), lambda body, _: _parse_multi_read(body, reads))


def _parse_multi_read(body: bytes, reads: Sequence[Read]) -> list[ReadOutcome | ExistsOutcome]:
    outcomes: list[ReadOutcome | ExistsOutcome] = []
    unpack_result, unpack_int, unpack_stat = RESULT.unpack_from, INT.unpack_from, STAT.unpack_from
    new = tuple.__new__  # what the classes below call themselves, without a Python call for each of 100,000 znodes
    at = 0
    for read in reads:
        kind, done, _ = unpack_result(body, at)
        at += 9
        if kind == _GET_DATA and type(read) is GetData and not done:
            (length,) = unpack_int(body, at)
            at += 4
            end = at + (max(0, length))
            data = body[at:end] if length >= 0 else None
            outcomes.append(new(Data, (data, new(Stat, unpack_stat(body, end)))))
            at = end + 68
        elif kind == _GET_DATA and type(read) is Exists and not done:
            (length,) = unpack_int(body, at)
            end = at + 4 + max(0, length)
            at = end + 68
            outcomes.append(ExistsOutcome(_parse_present(body[end:at], 0), max(0, length)))
        elif kind == _GET_CHILDREN and type(read) is GetChildren and not done:
            names, at = _parse_names(body, at)
            outcomes.append(Children(names))
        elif kind == ERROR and not done:
            outcomes.append(ReadFailed(error_of(unpack_int(body, at)[0])))
            at += 4
        else:
            raise ValueError(f"the answer to {read} is of type {kind}")
    if body[at:] != DONE:
        raise ValueError("a bulk read's answer does not end where it should")
    return outcomes


def _parse_names(body: bytes, at: int) -> tuple[tuple[str, ...], int]:
    (count,) = INT.unpack_from(body, at)
    at += 4
    if count > (len(body) - at) // 4:
        raise ValueError(f"a list of {counted(count, 'name')} in {counted(len(body) - at, 'byte')}")
    names = []
    for _ in range(count):
        name, at = parse_text(body, at)
        names.append(name)
    names.sort()
    return tuple(names), at


def pack_read(chroot: str, read: Read) -> Request:
    """Pack one read. The answer is its outcome."""
    path = _text(full_path(chroot, read.path)) + bytes([read.watch])
    match read:
        case GetData():
            return Request(INT.pack(_GET_DATA) + path, _parse_data)
        case GetChildren():
            return Request(INT.pack(_GET_CHILDREN) + path, _parse_children)
        case Exists():
            return Request(INT.pack(_EXISTS) + path, _parse_present)


def _parse_data(body: bytes, _: int) -> Data:
    (length,) = INT.unpack_from(body, 0)
    if len(body) != 4 + max(length, 0) + 68:
        raise ValueError(f"data of {counted(length, 'byte')} in an answer of {len(body)}")
    data = None if length < 0 else body[4 : 4 + length]
    return Data(data, Stat._make(STAT.unpack_from(body, len(body) - 68)))


def _parse_children(body: bytes, _: int) -> Children:
    names, end = _parse_names(body, 0)
    if end != len(body):
        raise ValueError("a list of children does not end where it should")
    return Children(names)


def _parse_present(body: bytes, _: int) -> Present:
    if len(body) != 68:
        raise ValueError(f"a stat of {counted(len(body), 'byte')}")
    return Present(Stat._make(STAT.unpack(body)), *_TIMES.unpack(body))


# --- the rare ones ------------------------------------------------------------------------------------------------


class SessionGrant(NamedTuple):
    """The server's answer to a connect request; session_id 0 means that the session is over."""

    session_id: int
    password: bytes
    timeout_ms: int


def pack_connect(last_zxid: int, timeout_ms: int, session_id: int, password: bytes) -> bytes:
    """Pack a request to open a session (id 0) or to continue one. Read-only servers are not accepted."""
    request: Any = ConnectRequest(
        protocol_version=0,
        last_seen_zxid=last_zxid,
        timeout=timeout_ms,
        session_id=session_id,
        password=password,
        read_only=False,
    )
    return bytes(request.serialize())


def parse_connect(frame: bytes) -> SessionGrant:
    """Parse the answer to a connect request."""
    response: Any = ConnectResponse.deserialize(frame)
    if response.session_id and (response.timeout <= 0 or not response.password):
        raise ValueError(
            f"a session with timeout {response.timeout} and password of {counted(len(response.password), 'byte')}"
        )
    return SessionGrant(response.session_id, response.password, response.timeout)


def _rare(request: Any) -> Request:
    return Request(bytes(request.serialize()), lambda _body, _zxid: None)


def pack_auth(credentials: Credentials) -> Request:
    """Pack credentials, to be sent under AUTH_XID."""
    return _rare(AuthRequest(type=0, scheme=credentials.scheme, auth=credentials.secret))


def pack_sasl(token: bytes) -> Request:
    """Pack a message of a SASL login. The answer is the server's message; None where it has none.

    By hand: aiozk 0.32 declares the parts of its SASLRequest wrongly, and cannot make one.
    """
    return Request(INT.pack(_SASL) + INT.pack(len(token)) + token, _parse_sasl)


def _parse_sasl(body: bytes, _: int) -> bytes | None:
    (length,) = INT.unpack_from(body, 0)
    if len(body) != 4 + max(length, 0):
        raise ValueError(f"a SASL message of {counted(length, 'byte')} in an answer of {len(body)}")
    return None if length < 0 else body[4:]


def pack_ping() -> Request:
    """Pack a ping, which keeps the session alive, to be sent under PING_XID."""
    return _rare(PingRequest())


def pack_close() -> Request:
    """Pack the end of the session."""
    return _rare(CloseRequest())


# --- watches ------------------------------------------------------------------------------------------------------

_SET_WATCHES_HEADER: Final = Struct("!iq")
_EVENT: Final = Struct("!ii")
_KINDS: Final = {kind.value: kind for kind in WatchKind}


def pack_set_watches(
    zxid: int, data: Sequence[str], exist: Sequence[str] = (), children: Sequence[str] = ()
) -> Request:
    """Pack watches on full paths. Before the answer, which is None, those fire whose znode has changed since `zxid`.
    Java's client sends it under a special xid (-8); the server returns any xid."""
    parts = [_SET_WATCHES_HEADER.pack(_SET_WATCHES, zxid)]
    for paths in (data, exist, children):
        parts.append(INT.pack(len(paths)))
        parts += map(_text, paths)
    return Request(b"".join(parts), lambda _body, _zxid: None)


def parse_watch_event(body: bytes, chroot: str) -> WatchFired | None:
    """Return the fired watch, its path without the chroot; None for events about the connection's state."""
    kind, _ = _EVENT.unpack_from(body)
    if kind not in _KINDS:
        return None
    path, _ = parse_text(body, _EVENT.size)
    if not path.startswith(chroot):
        raise ValueError(f"a watch went off outside of the chroot: {path!r}")
    return WatchFired(_KINDS[kind], path[len(chroot) :] or "/")
