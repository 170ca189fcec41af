"""Client connection to one broker: send a request, wait, return the response or raise one of the errors.

One request is in flight at a time; a second caller waits for the first. Nothing is retried here: the caller decides
about another attempt on a new connection. After any failure, including timeout and cancellation, the connection is
closed at once, because a late response would be taken for the response to the next request.

With a SASL login, a connection counts as open once the login has succeeded. Before the broker's limit for it is over,
the login is repeated on the same connection, ahead of a request (`adapters.security.login`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self, cast

from lethe.adapters.kafka.client_errors import (
    AccessFailed,
    AuthenticationRefused,
    ClientError,
    ConnectionFailed,
    RequestTimedOut,
    TlsFailed,
)
from lethe.adapters.security.channel import PLAINTEXT, ChannelSecurity
from lethe.adapters.security.handshakes import shows_refusal
from lethe.adapters.security.login import log_in
from lethe.adapters.security.refusal_counts import RefusalReason
from lethe.adapters.security.tls_failures import answered_with_alert, tls_failure
from lethe.adapters.streams import send
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

__all__ = [
    "AccessFailed",
    "AuthenticationRefused",
    "ClientError",
    "ConnectionFailed",
    "KafkaConnection",
    "ProtocolError",
    "RequestTimedOut",
    "TlsFailed",
]

_CHUNK_BYTES: Final = 1 << 20
_TLS_ALERT: Final = b"\x15\x03"
"""The first bytes of an alert of TLS. As the size of a response they would announce 352 MB."""
_CLOSING_S: Final = 1.0
"""Time for the peer's part in the end of TLS."""


class KafkaConnection:
    """An open connection to one broker. Create it with `open`; as an async context manager it closes itself."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        protocol: ClientConnection,
        peer: str,
        request_timeout_ms: int,
        security: ChannelSecurity = PLAINTEXT,
    ) -> None:
        self.peer: Final = peer
        """`host:port`, for messages."""
        self._security = security
        self._log_in_again_s: float | None = None
        """By the event loop's clock."""
        self._beginning = b""
        """The first two bytes received."""
        self._is_accepted = False
        """A request that needs a login, if there are logins, was answered."""
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
        security: ChannelSecurity = PLAINTEXT,
    ) -> Self:
        """Connect; `connect_timeout_ms` includes TLS and the SASL login.

        Raises ConnectionFailed, naming the address and the reason; as TlsFailed and AuthenticationRefused where the
        reason lies there.
        """
        peer = f"{host}:{port}"
        # Imports before the timeout starts, because they may take seconds.
        preload(ApiKey.API_VERSIONS)
        if security.login is not None:
            preload(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
        missed = "accept a connection" if security.tls is None else "finish connection and TLS handshake"
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                reader, writer = await _streams(host, port, peer, security)
                protocol = ClientConnection(client_id, max_response_bytes)
                connection = cls(reader, writer, protocol, peer, request_timeout_ms, security)
                missed = "finish the SASL login"
                await connection._log_in()
        except AccessFailed as error:
            _count_refusal(security, error)
            raise
        except TimeoutError as error:
            raise ConnectionFailed(f"{peer} did not {missed} within {connect_timeout_ms} ms") from error
        return connection

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
            self._offered = _ranges(answer)
        return self._offered

    async def api_versions(self, timeout_ms: int | None = None) -> ApiVersionsResponse:
        """Return the broker's ApiVersions response, which contains no error. Raises like `request`.

        The newest version is tried first. A broker that does not support it lists the versions for a second attempt.
        """
        answer = await self._api_versions(SPOKEN[ApiKey.API_VERSIONS].max, timeout_ms)
        if answer.error == ErrorCode.UNSUPPORTED_VERSION:
            known = _ranges(answer)
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
        try:
            async with asyncio.timeout(limit_ms / 1000), self._in_flight:
                self._check_open()
                if self._log_in_again_s is not None and asyncio.get_running_loop().time() >= self._log_in_again_s:
                    await self._log_in()
                return await self._answer(api, send())
        except AccessFailed as error:
            _count_refusal(self._security, error)
            raise
        except TimeoutError as error:
            raise RequestTimedOut(f"{self.peer} did not answer {api.name} within {limit_ms} ms") from error

    async def _answer(self, api: ApiKey, buffers: Buffers) -> Response:
        """Send a request and return its response; without one, close the connection."""
        answered = False
        try:
            response = await self._round_trip(buffers)
            answered = True
        except OSError as error:
            cause = self._cause(error)
            raise self._broken(api, cause) from cause
        finally:
            if not answered:
                self._abort(f"the {api.name} before was not answered")
        self._is_accepted = self._is_accepted or api is not ApiKey.API_VERSIONS
        return response

    async def _round_trip(self, buffers: Buffers) -> Response:
        await send(self._writer, buffers)
        try:
            while data := await self._reader.read(_CHUNK_BYTES):
                if len(self._beginning) < len(_TLS_ALERT):
                    self._beginning = (self._beginning + data)[: len(_TLS_ALERT)]
                replies = self._protocol.receive(data)
                if replies:
                    return replies[0].value
            self._protocol.end_of_stream()
        except ProtocolError as error:
            if self._security.tls is None and self._beginning == _TLS_ALERT:
                raise answered_with_alert(self._place) from error
            raise ProtocolError(f"{self.peer}: {error}") from error
        raise ConnectionFailed(f"{self.peer} closed the connection without an answer{self._closed_hint()}")

    @property
    def principal(self) -> str:
        """Whom the broker takes this side for, for messages about rights."""
        return self._security.principal

    @property
    def _place(self) -> str:
        return f"{self.peer} ({self._security.protocol.name})"

    def _cause(self, error: OSError) -> OSError:
        """Return the alert that ended TLS, if any: the reader has it where the writer only found the end."""
        alerts = (each for each in (error, self._reader.exception()) if isinstance(each, ssl.SSLError))
        return next(alerts, error)

    def _broken(self, api: ApiKey, error: OSError) -> ConnectionFailed:
        if isinstance(error, ssl.SSLError) and not self._beginning:
            return tls_failure(self._place, self.peer.rpartition(":")[0], error)
        return ConnectionFailed(f"the connection to {self.peer} broke at {api.name}: {error}{self._closed_hint()}")

    def _closed_hint(self) -> str:
        """Return what a listener may require that this connection does not have; empty once it has accepted one."""
        if self._is_accepted:
            return ""
        if self._security.tls is not None and not self._beginning:
            return _UNCERTIFIED_HINT
        return "" if self._security.login else _UNSECURED_HINT

    # --- the login ------------------------------------------------------------------------------------------------

    async def _log_in(self) -> None:
        """Log in, if the listener has logins. Without success, close the connection and raise ConnectionFailed."""
        login = self._security.login
        if login is None:
            return
        succeeded = False
        try:
            if self._offered is None:
                # Version 0: a listener with SASL takes what it cannot read for a token of Kerberos.
                answer = cast(ApiVersionsResponse, await self._ask_in_login(ApiVersionsRequest(), 0))
                self._offered = _ranges(answer)
            after_s = await log_in(login, self._ask_in_login, self._offered, self._place)
            succeeded = True
        except AccessFailed:
            raise
        except (ConnectionFailed, ProtocolError) as error:
            raise ConnectionFailed(f"the login at {self._place} failed: {error}") from error
        finally:
            if not succeeded:
                self._abort("the login failed")
        self._log_in_again_s = None if after_s is None else asyncio.get_running_loop().time() + after_s

    async def _ask_in_login(self, value: Request, version: int) -> Response:
        return await self._answer(api_of_request(value), self._protocol.send(value, version))

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


_UNSECURED_HINT: Final = ", as a listener with SASL or TLS does for a client without: check security.protocol"
_UNCERTIFIED_HINT: Final = (
    ", as a listener does that requires another client certificate or SASL: check ssl.keystore.location and "
    "security.protocol"
)


def _count_refusal(security: ChannelSecurity, error: AccessFailed) -> None:
    """Count a failed login, and a failure of TLS if one side refused the other."""
    if isinstance(error, AuthenticationRefused):
        security.refused.note(RefusalReason.LOGIN)
    elif isinstance(error, TlsFailed) and shows_refusal(error.__cause__):
        security.refused.note(RefusalReason.TLS)


def _ranges(answer: ApiVersionsResponse) -> Mapping[int, VersionRange]:
    return {each.api_key: VersionRange(each.min_version, each.max_version) for each in answer.apis}


async def _streams(
    host: str, port: int, peer: str, security: ChannelSecurity
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, with the TLS handshake if there is TLS. Raises ConnectionFailed and TimeoutError."""
    place = f"{peer} ({security.protocol.name})"
    try:
        # The files may have changed, and it takes a moment to read them again.
        context = None if security.tls is None else await asyncio.to_thread(security.context)
    except (OSError, ValueError) as error:
        raise TlsFailed(f"no TLS with {place}: its certificates and keys cannot be used here: {error}") from error
    try:
        if context is None:
            return await asyncio.open_connection(host, port, limit=_CHUNK_BYTES)
        return await asyncio.open_connection(
            host, port, limit=_CHUNK_BYTES, ssl=context, server_hostname=host, ssl_shutdown_timeout=_CLOSING_S
        )
    except TimeoutError:
        raise
    except ssl.SSLError as error:
        raise tls_failure(place, host, error) from error
    except (OSError, ValueError, OverflowError) as error:
        if context is not None and isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
            raise tls_failure(place, host, error) from error
        # Host and port come from a registration with arbitrary content.
        raise ConnectionFailed(f"cannot connect to {peer}: {getattr(error, 'strerror', None) or error}") from error
