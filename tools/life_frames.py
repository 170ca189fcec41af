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
from lethe.protocol.kafka.control import Addressed, LeaderAndIsrResponse, StopReplicaResponse
from lethe.protocol.zookeeper.operations import WatchKind, ZkError

Json = Any
_HEADER: Final = struct.Struct("!ii")
_REPLY: Final = struct.Struct("!iqi")
_INT: Final = struct.Struct("!i")
_UNASKED, _PING = -1, -2
_READS: Final = {3: "exists", 4: "getData", 8: "getChildren"}
_MULTIS: Final = {14: "multi", 22: "multiRead"}
_OPERATIONS: Final = {**_READS, 2: "delete", 5: "setData", 13: "check", 15: "create"}
_SET_WATCHES: Final = 101


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
    if isinstance(value, LeaderAndIsrResponse | StopReplicaResponse):
        return {"error": value.error, "partitions": plain(value.rows)}
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
                event = {"type": WatchKind(kind).name, "path": _Reader(frame.payload, _REPLY.size + 8).text()}
                found.append(Exchange(frame.time_ns, "ZooKeeper", "watch event", event, to_server=False))
            continue
        what, body = _request(code, _Reader(frame.payload, _HEADER.size))
        answered_ns, zxid, error = answers.get((frame.connection, xid), (None, 0, 0))
        answer = {"zxid": zxid, "error": ZkError(error).name} if error else {"zxid": zxid}
        found.append(Exchange(frame.time_ns, "ZooKeeper", what, body, answered_ns=answered_ns, answer=answer))
    return found


class _Reader:
    """Reads fields from the front of a payload, one after the other. Raises struct.error, UnicodeDecodeError."""

    def __init__(self, payload: bytes, at: int) -> None:
        self._payload = payload
        self._at = at

    def integer(self) -> int:
        self._at += 4
        (found,) = _INT.unpack_from(self._payload, self._at - 4)
        return int(found)

    def flag(self) -> bool:
        self._at += 1
        return bool(self._payload[self._at - 1])

    def buffer(self) -> str | None:
        if (length := self.integer()) < 0:
            return None
        self._at += length
        return self._payload[self._at - length : self._at].decode()

    def text(self) -> str:
        return self.buffer() or ""


def _request(code: int, reader: _Reader) -> tuple[str, Json]:
    if code in _READS:
        return _READS[code], {"path": reader.text(), "watch": reader.flag()}
    if code in _MULTIS:
        return _MULTIS[code], list(_operations(reader))
    if code == _SET_WATCHES:
        return "setWatches", {}
    raise ValueError(f"a request of type {code} is not known here")


def _operations(reader: _Reader) -> Iterator[Json]:
    while True:
        kind, is_end, _ = reader.integer(), reader.flag(), reader.integer()
        if is_end:
            return
        if kind not in _OPERATIONS:
            raise ValueError(f"an operation of type {kind} is not known here")
        found: Json = {"op": _OPERATIONS[kind], "path": reader.text()}
        match found["op"]:
            case "delete" | "check":
                found["version"] = reader.integer()
            case "setData":
                found |= {"data": reader.buffer(), "version": reader.integer()}
            case "create":
                found["data"] = reader.buffer()
                for _ in range(reader.integer()):  # the access list, which nothing here is about
                    reader.integer(), reader.text(), reader.text()
                reader.integer()  # ephemeral, sequential
            case _:
                reader.flag()  # the watch of a read
        yield found
