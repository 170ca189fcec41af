"""What recorded frames say: Kafka's by the codec that daemons use, ZooKeeper's by the few types that controllers send.

Each request is paired with its answer by the number that both carry; what a server sends unasked stands alone.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lethe.cluster.recording_proxy import Frame
from lethe.protocol.kafka.codec import decode_request, decode_response, response_correlation_id
from lethe.protocol.kafka.control import Addressed
from lethe.protocol.zookeeper.operations import WatchKind, ZkError

Json = Any
_HEADER: Final = struct.Struct("!ii")
_REPLY: Final = struct.Struct("!iqi")
_INT: Final = struct.Struct("!i")
_OPERATION: Final = struct.Struct("!i?i")
_UNASKED, _PING = -1, -2
_READS: Final = {3: "exists", 4: "getData", 8: "getChildren"}
_MULTI, _MULTI_READ, _SET_WATCHES = 14, 22, 101
_CHECK: Final = 13


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, or something sent unasked (then `answered_ns` is None and `to_server` False)."""

    time_ns: int
    peer: str
    """`ZooKeeper` or `broker 3`."""
    what: str
    """`multi`, `getChildren`, `watch event`, `StopReplica v4`, ..."""
    body: Json
    to_server: bool = True
    answered_ns: int | None = None
    answer: Json = None


# --- Kafka --------------------------------------------------------------------------------------------------------


def kafka_exchanges(peer: str, frames: Sequence[Frame]) -> list[Exchange]:
    """Control requests with their answers, in the order of the requests. Raises ProtocolError."""
    answers = {(f.connection, response_correlation_id(f.payload)): f for f in frames if not f.to_server}
    found = []
    for frame in frames:
        if not frame.to_server:
            continue
        header, value = decode_request(frame.payload)
        answer = answers.get((frame.connection, header.correlation_id))
        response = None if answer is None else decode_response(header.api, header.version, answer.payload)[1]
        body = plain(value.request) if isinstance(value, Addressed) else plain(value)
        if isinstance(value, Addressed):
            body = {**body, "broker_epoch": value.broker_epoch}
        name = "".join(part.capitalize() for part in header.api.name.split("_"))
        found.append(
            Exchange(
                frame.time_ns,
                peer,
                f"{name} v{header.version}",
                body,
                answered_ns=None if answer is None else answer.time_ns,
                answer=plain(response),
            )
        )
    return found


def plain(value: object) -> Json:
    """The value as JSON has it: records as objects, numbers and text as they are."""
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(item) for name, item in zip(value._fields, value, strict=True)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


# --- ZooKeeper ----------------------------------------------------------------------------------------------------


def zookeeper_exchanges(frames: Sequence[Frame]) -> list[Exchange]:
    """Requests with their answers, and watches that went off, without pings. Raises ValueError, struct.error."""
    answers: dict[tuple[int, int], tuple[int, int, int]] = {}
    for frame in frames:
        if not frame.to_server:
            xid, zxid, error = _REPLY.unpack_from(frame.payload)
            answers.setdefault((frame.connection, xid), (frame.time_ns, zxid, error))
    found = []
    for frame in frames:
        xid, code = _HEADER.unpack_from(frame.payload)
        if xid == _PING:
            continue
        if not frame.to_server:
            if xid == _UNASKED:
                kind, _ = _HEADER.unpack_from(frame.payload, _REPLY.size)
                path, _ = _text(frame.payload, _REPLY.size + 8)
                event = {"type": WatchKind(kind).name, "path": path}
                found.append(Exchange(frame.time_ns, "ZooKeeper", "watch event", event, to_server=False))
            continue
        what, body = _request(code, frame.payload)
        answered_ns, zxid, error = answers.get((frame.connection, xid), (None, 0, 0))
        answer = {"zxid": zxid, "error": ZkError(error).name} if error else {"zxid": zxid}
        found.append(Exchange(frame.time_ns, "ZooKeeper", what, body, answered_ns=answered_ns, answer=answer))
    return found


def _request(code: int, payload: bytes) -> tuple[str, Json]:
    at = _HEADER.size
    if code in _READS:
        path, at = _text(payload, at)
        return _READS[code], {"path": path, "watch": bool(payload[at])}
    if code == _MULTI_READ:
        return "multiRead", list(_read_operations(payload, at))
    if code == _MULTI:
        return "multi", list(_write_operations(payload, at))
    if code == _SET_WATCHES:
        return "setWatches", {}
    raise ValueError(f"a request of type {code} is not known here")


def _read_operations(payload: bytes, at: int) -> Iterator[Json]:
    while True:
        kind, done, _ = _OPERATION.unpack_from(payload, at)
        if done:
            return
        path, at = _text(payload, at + _OPERATION.size)
        at += 1
        yield {"op": _READS[kind], "path": path}


def _write_operations(payload: bytes, at: int) -> Iterator[Json]:
    while True:
        kind, done, _ = _OPERATION.unpack_from(payload, at)
        if done:
            return
        path, at = _text(payload, at + _OPERATION.size)
        match kind:
            case 2 | 13:
                (version,) = _INT.unpack_from(payload, at)
                at += 4
                yield {"op": "check" if kind == _CHECK else "delete", "path": path, "version": version}
            case 5:
                data, at = _buffer(payload, at)
                (version,) = _INT.unpack_from(payload, at)
                at += 4
                yield {"op": "setData", "path": path, "data": data, "version": version}
            case 15:
                data, at = _buffer(payload, at)
                at = _skip_acl(payload, at) + 4
                yield {"op": "create", "path": path, "data": data}
            case _:
                raise ValueError(f"an operation of type {kind} is not known here")


def _skip_acl(payload: bytes, at: int) -> int:
    (count,) = _INT.unpack_from(payload, at)
    at += 4
    for _ in range(count):
        _, at = _text(payload, at + 4)
        _, at = _text(payload, at)
    return at


def _text(payload: bytes, at: int) -> tuple[str, int]:
    data, at = _buffer(payload, at)
    return data or "", at


def _buffer(payload: bytes, at: int) -> tuple[str | None, int]:
    (length,) = _INT.unpack_from(payload, at)
    at += 4
    if length < 0:
        return None, at
    return payload[at : at + length].decode(), at + length
