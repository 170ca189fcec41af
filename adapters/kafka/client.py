"""Client connection to one broker: send a request, wait, return the response or raise one of three errors.

One request is in flight at a time; a second caller waits for the first. Nothing is retried here: the caller decides
about another attempt on a new connection. After any failure, including timeout and cancellation, the connection is
closed at once, because a late response would be taken for the response to the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self, cast

from lethe.protocol.kafka.codec import EncodedBody, preload
from lethe.protocol.kafka.connection import Buffers, ClientConnection, highest_common_version
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES, ProtocolError
from lethe.protocol.kafka.queries import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ChannelResponse,
    Request,
    Response,
    api_of_request,
)
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.vocabulary import BrokerEpoch

__all__ = ["ClientError", "ConnectionFailed", "KafkaConnection", "ProtocolError", "RequestTimedOut"]

_CHUNK_BYTES: Final = 1 << 20


class ClientError(Exception):
    """The broker was not reached or did not answer. It may or may not have received the request."""


class ConnectionFailed(ClientError):
    """The connection could not be opened, or ended before the response."""


class RequestTimedOut(ClientError):
    """The response did not arrive in time."""


class KafkaConnection:
    """An open connection to one broker. Create it with `open`; as an async context manager it closes itself."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        protocol: ClientConnection,
        peer: str,
        request_timeout_ms: int,
    ) -> None:
        self.peer: Final = peer
        """`host:port`, for messages."""
        self._reader = reader
        self._writer = writer
        self._protocol = protocol
        self._request_timeout_ms = request_timeout_ms
        self._in_flight = asyncio.Lock()
        self._closed_because: str | None = None
        self._offered: Mapping[int, VersionRange] | None = None

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        client_id: str,
        *,
        connect_timeout_ms: int = 10_000,
        request_timeout_ms: int = 30_000,
        max_response_bytes: int = DEFAULT_MAX_FRAME_BYTES,
    ) -> Self:
        """Connect. Raises ConnectionFailed, naming the address and the reason."""
        peer = f"{host}:{port}"
        # Imports before the timeout starts, because they may take seconds.
        preload(ApiKey.API_VERSIONS)
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                reader, writer = await asyncio.open_connection(host, port, limit=_CHUNK_BYTES)
        except TimeoutError as error:
            raise ConnectionFailed(f"{peer} did not accept a connection within {connect_timeout_ms} ms") from error
        except (OSError, ValueError, OverflowError) as error:
            # Host and port come from a registration with arbitrary content.
            raise ConnectionFailed(f"cannot connect to {peer}: {getattr(error, 'strerror', None) or error}") from error
        return cls(reader, writer, ClientConnection(client_id, max_response_bytes), peer, request_timeout_ms)

    # --- asking ---------------------------------------------------------------------------------------------------

    async def request(self, value: Request, version: int, timeout_ms: int | None = None) -> Response:
        """Return the response to a request in this version.

        `timeout_ms` counts from the call, including the wait for an earlier request, and defaults to the connection's.
        Raises ConnectionFailed, RequestTimedOut and ProtocolError; if the request was sent, they close the connection.
        Raises Unencodable and UnsupportedVersion, which leave the connection as it was.
        """
        api = api_of_request(value)
        return await self._exchange(api, lambda: self._protocol.send(value, version), timeout_ms)

    async def send_body(
        self, body: EncodedBody, broker_epoch: BrokerEpoch, timeout_ms: int | None = None
    ) -> ChannelResponse:
        """Return the response to a request that was encoded once for many brokers; raises like `request`."""
        answer = await self._exchange(body.api, lambda: self._protocol.send_body(body, broker_epoch), timeout_ms)
        return cast(ChannelResponse, answer)

    async def offered_versions(self, timeout_ms: int | None = None) -> Mapping[int, VersionRange]:
        """Return the broker's version ranges by API key; requested once per connection. Raises like `request`."""
        if self._offered is None:
            answer = await self.api_versions(timeout_ms)
            self._offered = {each.api_key: VersionRange(each.min_version, each.max_version) for each in answer.apis}
        return self._offered

    async def api_versions(self, timeout_ms: int | None = None) -> ApiVersionsResponse:
        """Return the broker's ApiVersions response, which contains no error. Raises like `request`.

        The newest version is tried first. A broker that does not support it lists the versions for a second attempt.
        """
        answer = await self._api_versions(SPOKEN[ApiKey.API_VERSIONS].max, timeout_ms)
        if answer.error == ErrorCode.UNSUPPORTED_VERSION:
            known = {each.api_key: VersionRange(each.min_version, each.max_version) for each in answer.apis}
            # Brokers before 2.4 do not list their versions of ApiVersions; all support version 0.
            version = highest_common_version(ApiKey.API_VERSIONS, known) if known else 0
            answer = await self._api_versions(version, timeout_ms)
        if answer.error != ErrorCode.NONE:
            raise ProtocolError(f"{self.peer} does not tell its versions: {error_name(answer.error)}")
        return answer

    async def _api_versions(self, version: int, timeout_ms: int | None) -> ApiVersionsResponse:
        answer = await self.request(ApiVersionsRequest("lethe", "1"), version, timeout_ms)
        return cast(ApiVersionsResponse, answer)

    async def ask(self, value: Request, timeout_ms: int | None = None) -> Response:
        """Return the response to a request in the highest common version; raises like `request`."""
        api = api_of_request(value)
        offered = await self.offered_versions(timeout_ms)
        try:
            version = highest_common_version(api, offered)
        except ProtocolError as error:
            raise ProtocolError(f"{self.peer}: {error}") from error
        return await self.request(value, version, timeout_ms)

    async def _exchange(self, api: ApiKey, send: Callable[[], Buffers], timeout_ms: int | None) -> Response:
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        answered = False
        try:
            async with asyncio.timeout(limit_ms / 1000), self._in_flight:
                self._check_open()
                buffers = send()
                try:
                    response = await self._round_trip(buffers)
                    answered = True
                finally:
                    if not answered:
                        self._abort(f"the {api.name} before was not answered")
                return response
        except TimeoutError as error:
            raise RequestTimedOut(f"{self.peer} did not answer {api.name} within {limit_ms} ms") from error
        except OSError as error:
            raise ConnectionFailed(f"the connection to {self.peer} broke at {api.name}: {error}") from error

    async def _round_trip(self, buffers: Buffers) -> Response:
        self._writer.writelines(buffers)
        await self._writer.drain()
        try:
            while data := await self._reader.read(_CHUNK_BYTES):
                replies = self._protocol.receive(data)
                if replies:
                    return replies[0].value
            self._protocol.end_of_stream()
        except ProtocolError as error:
            raise ProtocolError(f"{self.peer}: {error}") from error
        raise ConnectionFailed(f"{self.peer} closed the connection without an answer")

    # --- the connection itself ------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """False once this side has closed it or the broker's end of stream has arrived."""
        return self._closed_because is None and not self._reader.at_eof() and not self._writer.is_closing()

    def _check_open(self) -> None:
        if not self.is_open:
            raise ConnectionFailed(
                f"the connection to {self.peer} is closed: {self._closed_because or 'by the broker'}"
            )

    def _abort(self, reason: str) -> None:
        if self._closed_because is None:
            self._closed_because = reason
            self._writer.transport.abort()

    async def close(self) -> None:
        """Close; a request in flight ends with ConnectionFailed. Idempotent; does not raise."""
        if self._closed_because is None:
            self._closed_because = "on this side"
            self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            # It broke before it was closed.
            return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
