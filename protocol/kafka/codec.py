"""Codec of Kafka's requests and responses: headers and bodies, in every version that `versions.SPOKEN` lists.

A control request is encoded once for all its receivers: `encode_control_body` returns an `EncodedBody`, whose `frame`
adds a header and the receiver's broker epoch. Decoding of arbitrary bytes returns a value or raises one of four errors,
all of them `ProtocolError`: `UnknownApi`, `UnsupportedVersion`, `Malformed`, `FrameError`.

The layouts come from kio's schemas. A schema is imported on first use of its message version, so importing this module
is cheap.
"""

from __future__ import annotations

import functools
import importlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from lethe.protocol.counting import counted
from lethe.protocol.kafka.codec_bindings import BINDINGS
from lethe.protocol.kafka.codec_control import Binding
from lethe.protocol.kafka.codec_layout import compile_layout, fixed_offset
from lethe.protocol.kafka.codec_primitives import Layout, Malformed, Unencodable, skip_tagged_fields
from lethe.protocol.kafka.control import Addressed, ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.framing import ProtocolError, frame_size
from lethe.protocol.kafka.queries import (
    ApiVersion,
    ApiVersionsResponse,
    ChannelRequest,
    DescribeLogDirsRequest,
    QueryRequest,
    Request,
    Response,
    api_of_request,
    api_of_sent,
)
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.vocabulary import NO_EPOCH, BrokerEpoch

__all__ = [
    "Decoded",
    "EncodedBody",
    "Malformed",
    "RequestHeader",
    "Unencodable",
    "UnknownApi",
    "UnsupportedVersion",
    "decode_request",
    "decode_response",
    "encode_control_body",
    "encode_request",
    "encode_response",
    "response_correlation_id",
    "unsupported_api_versions",
]


class RequestHeader(NamedTuple):
    """Header of a request. `client_id` is None if the client gave none."""

    api: ApiKey
    version: int
    correlation_id: int
    client_id: str | None


class Decoded(NamedTuple):
    """A decoded request. `value` is `Addressed` for the three control requests."""

    header: RequestHeader
    value: Request


class UnknownApi(ProtocolError):
    """The request's API is not supported by Lethe."""

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        super().__init__(f"API {api_key} (version {version}) is not served here")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


class UnsupportedVersion(ProtocolError):
    """The API is supported by Lethe, its version is not."""

    def __init__(self, api: ApiKey, version: int, spoken: VersionRange, correlation_id: int = 0) -> None:
        super().__init__(f"{api.name} version {version} is not spoken here: versions {spoken} are")
        self.api = api
        self.version = version
        self.correlation_id = correlation_id


# --- the messages -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Message:
    """One version of one request or response."""

    name: str
    layout: Layout
    binding: Binding
    header_version: int
    broker_epoch_at: int | None
    ignores_trailing_bytes: bool
    """Bytes after the end are ignored; otherwise they make the message malformed."""

    def encode(self, value: Any) -> bytes:
        chunks: list[bytes] = []
        try:
            self.layout.write(self.binding.items(value), chunks.append)
        except (struct.error, Unencodable) as error:
            raise Unencodable(f"{self.name} cannot be encoded: {error}") from error
        return b"".join(chunks)

    def decode(self, payload: bytes, offset: int) -> Any:
        try:
            value, end = self.layout.read(payload, offset)
        except (struct.error, IndexError) as error:
            raise Malformed(f"{self.name} is truncated: it has only {counted(len(payload), 'byte')}") from error
        except Malformed as error:
            raise Malformed(f"{self.name}: {error}") from error
        if end != len(payload) and not self.ignores_trailing_bytes:
            raise Malformed(f"{self.name} has {counted(len(payload) - end, 'byte')} behind its end at offset {end}")
        return value


@functools.cache
def _message(api: ApiKey, version: int, is_response: bool) -> _Message:
    if version not in SPOKEN[api]:
        raise UnsupportedVersion(api, version, SPOKEN[api])
    name, request, response = BINDINGS[api]
    kind, bind = ("Response", response) if is_response else ("Request", request)
    package = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
    schema = getattr(importlib.import_module(f"kio.schema.{package}.v{version}.{kind.lower()}"), name + kind)
    binding = bind(version)
    return _Message(
        name=f"{name}{kind} v{version}",
        layout=compile_layout(schema, binding.shapes, binding.arrays),
        binding=binding,
        header_version=schema.__header_schema__.__version__,
        broker_epoch_at=None if is_response or api not in _CONTROL_APIS else fixed_offset(schema, "broker_epoch"),
        ignores_trailing_bytes=not is_response and api not in _STRICT_APIS,
    )


_CONTROL_APIS: Final = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)
_OF_BROKERS: Final = (ApiKey.CONTROLLED_SHUTDOWN, ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS)
_STRICT_APIS: Final = (*_CONTROL_APIS, *_OF_BROKERS)
"""What controllers and brokers send ends where its schema ends, or is refused. Kafka ignores bytes after the end of
every request, and clients rely on it: to request all topics, librdkafka 2.16 sends four bytes of length where
MetadataRequest v12 has one, so three are left over; behind AlterUserScramCredentialsRequest v0 it sends one more."""

# --- headers ------------------------------------------------------------------------------------------------------

_KEYS: Final = struct.Struct(">hhi")
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")


def preload(*apis: ApiKey) -> None:
    """Import the newest version of these requests and responses; without arguments, of every API that Lethe speaks.

    The first use of kio imports for a quarter of a second, for several on a busy machine. A daemon imports before its
    event loop starts, so that heartbeats are not delayed; a command imports before its timeout for the broker starts.
    """
    for api in apis or SPOKEN:
        _message(api, SPOKEN[api].max, False)
        _message(api, SPOKEN[api].max, True)


def _request_header(header_version: int, header: RequestHeader) -> bytes:
    """Encode the header. Version 0 has no client id, version 2 has tagged fields; the client id is never compact."""
    out = _KEYS.pack(header.api, header.version, header.correlation_id)
    if header_version >= 1:
        if header.client_id is None:
            out += b"\xff\xff"
        else:
            client_id = header.client_id.encode()
            if len(client_id) > 32_767:
                raise Unencodable(f"a client id of {counted(len(client_id), 'byte')}: at most 32767 fit")
            out += _I16.pack(len(client_id)) + client_id
    return out + b"\0" if header_version >= 2 else out


def _read_client_id(payload: bytes, offset: int) -> tuple[str | None, int]:
    (size,) = _I16.unpack_from(payload, offset)
    start = offset + 2
    if size < 0:
        return None, start
    if start + size > len(payload):
        raise Malformed(f"client id of {counted(size, 'byte')} in a request of {counted(len(payload), 'byte')}")
    try:
        return payload[start : start + size].decode(), start + size
    except UnicodeDecodeError as error:
        raise Malformed(f"the client id is not UTF-8: {error.reason}") from error


# --- requests -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EncodedBody:
    """A control request without its header, shared by all brokers that receive it.

    `head` and `tail` are the bytes before and after the broker epoch; without an epoch, everything is in `tail`.
    """

    api: ApiKey
    version: int
    header_version: int
    head: bytes
    tail: memoryview
    has_broker_epoch: bool

    @property
    def size_bytes(self) -> int:
        """Size of the body on the wire."""
        return len(self.head) + len(self.tail) + (8 if self.has_broker_epoch else 0)

    def frame(self, correlation_id: int, client_id: str | None, broker_epoch: BrokerEpoch) -> tuple[bytes, memoryview]:
        """Return the frame for one broker, size included, as two buffers to send one after the other."""
        header = _request_header(self.header_version, RequestHeader(self.api, self.version, correlation_id, client_id))
        front = header + self.head + (_I64.pack(broker_epoch) if self.has_broker_epoch else b"")
        return frame_size(len(front) + len(self.tail)) + front, self.tail


def encode_control_body(request: ChannelRequest, version: int) -> EncodedBody:
    """Encode a controller's request for any number of brokers.

    Raises UnsupportedVersion, and Unencodable if the version cannot carry the value, such as mixed delete flags in
    StopReplica below version 3.
    """
    api = api_of_sent(request)
    message = _message(api, version, False)
    body = message.encode(request if isinstance(request, DescribeLogDirsRequest) else Addressed(request, NO_EPOCH))
    at = message.broker_epoch_at
    has_epoch = at is not None
    head, tail = (body[:at], memoryview(body)[at + 8 :]) if at is not None else (b"", memoryview(body))
    return EncodedBody(api, version, message.header_version, head, tail, has_epoch)


def encode_request(
    request: QueryRequest | Addressed, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return one request's payload, without the frame's size. Raises Unencodable and UnsupportedVersion."""
    api = api_of_request(request)
    message = _message(api, version, False)
    header = RequestHeader(api, version, correlation_id, client_id)
    return _request_header(message.header_version, header) + message.encode(request)


def decode_request(payload: bytes, served: Mapping[ApiKey, VersionRange] = SPOKEN) -> Decoded:
    """Decode the request in a frame. An API that is not in `served` is treated as unknown.

    Raises UnknownApi and UnsupportedVersion, both with the correlation id, and Malformed.
    """
    try:
        api_key, version, correlation_id = _KEYS.unpack_from(payload)
    except struct.error as error:
        raise Malformed(f"a request of {counted(len(payload), 'byte')} has no complete header") from error
    if api_key not in BINDINGS or api_key not in served:
        raise UnknownApi(api_key, version, correlation_id)
    api = ApiKey(api_key)
    if version not in served[api] or version not in SPOKEN[api]:
        raise UnsupportedVersion(api, version, served[api], correlation_id)
    message = _message(api, version, False)
    offset, client_id = _KEYS.size, None
    try:
        if message.header_version >= 1:
            client_id, offset = _read_client_id(payload, offset)
        if message.header_version >= 2:
            offset = skip_tagged_fields(payload, offset)
    except (struct.error, IndexError) as error:
        raise Malformed(f"the header of a {message.name} is truncated") from error
    header = RequestHeader(api, version, correlation_id, client_id)
    return Decoded(header, message.decode(payload, offset))


# --- responses ----------------------------------------------------------------------------------------------------


def encode_response(api: ApiKey, version: int, correlation_id: int, response: Response) -> bytes:
    """Return one response's payload, without the frame's size. Raises Unencodable and UnsupportedVersion."""
    message = _message(api, version, True)
    header = _I32.pack(correlation_id) + (b"\0" if message.header_version >= 1 else b"")
    return header + message.encode(response)


def response_correlation_id(payload: bytes) -> int:
    """Return the correlation id of a response. Raises Malformed."""
    try:
        (correlation_id,) = _I32.unpack_from(payload)
    except struct.error as error:
        raise Malformed(f"a response of {counted(len(payload), 'byte')} has no correlation id") from error
    return int(correlation_id)


def decode_response(api: ApiKey, version: int, payload: bytes) -> tuple[int, Response]:
    """Return the correlation id and the value of a response to a request of this version.

    A broker that does not support the version of an ApiVersions request answers in version 0, with UNSUPPORTED_VERSION
    in the first field; such a response is decoded as version 0. Raises Malformed and UnsupportedVersion.
    """
    message = _message(api, version, True)
    correlation_id = response_correlation_id(payload)
    offset = _I32.size
    if api is ApiKey.API_VERSIONS and version > 0 and payload[4:6] == _UNSUPPORTED_VERSION:
        message = _message(api, 0, True)
    if message.header_version >= 1:
        try:
            offset = skip_tagged_fields(payload, offset)
        except IndexError as error:
            raise Malformed(f"the header of a {message.name} is truncated") from error
    value: Response = message.decode(payload, offset)
    return correlation_id, value


_UNSUPPORTED_VERSION: Final = _I16.pack(ErrorCode.UNSUPPORTED_VERSION)


def unsupported_api_versions(served: Mapping[ApiKey, VersionRange], correlation_id: int) -> bytes:
    """Return the response to an ApiVersions request of an unsupported version: version 0, listing only ApiVersions."""
    own = served.get(ApiKey.API_VERSIONS, SPOKEN[ApiKey.API_VERSIONS])
    response = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, (ApiVersion(ApiKey.API_VERSIONS, own.min, own.max),))
    return encode_response(ApiKey.API_VERSIONS, 0, correlation_id, response)
