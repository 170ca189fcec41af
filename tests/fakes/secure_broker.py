"""A broker with TLS and SASL on a real socket. It behaves as Kafka 3.9 does, and on request as no broker should."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from lethe.protocol.kafka.codec import decode_request, encode_response
from lethe.protocol.kafka.connection import api_versions_response
from lethe.protocol.kafka.control import Addressed, ApiKey, StopReplicaRequest, StopReplicaResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import ApiVersionsRequest, MetadataResponse, Request, Response
from lethe.protocol.kafka.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.security.exchange import AuthenticationFailed, SaslServer
from lethe.protocol.security.scram import ScramCredential, ScramMechanism, ScramServer
from lethe.protocol.vocabulary import BrokerId

STALE = StopReplicaResponse(ErrorCode.STALE_CONTROLLER_EPOCH, ())
METADATA = MetadataResponse((), "cluster", BrokerId(1), ())
MAX_REQUEST_BYTES = 104_857_600


@dataclass
class SecureBroker:
    """What the listener requires, and what it has seen."""

    tls: ssl.SSLContext | None = None
    mechanisms: Mapping[str, Callable[[], SaslServer]] = field(default_factory=dict)
    """Makes the server's side of each enabled mechanism; empty: the listener does not use SASL."""
    session_lifetime_ms: int = 0
    versions: Mapping[ApiKey, VersionRange] = field(default_factory=lambda: SPOKEN)
    tamper: Callable[[int, bytes], bytes] = lambda _, token: token
    """Changes the server's token with this number, from 0 in each exchange."""
    garble: Callable[[ApiKey, bytes], bytes | None] = lambda _, frame: frame
    """Changes a whole frame of a response; None: the connection ends instead."""
    handler: Callable[[Request], Response | None] | None = None
    """Answers the requests of clients that are known; None closes the connection."""
    asked: list[tuple[int, str]] = field(default_factory=list)
    """(number of the connection, API), in order of arrival."""
    principals: list[str | None] = field(default_factory=list)
    """For each exchange that is over."""
    connections: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Give the port."""
        writers: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            self.connections += 1
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await _Conversation(self, self.connections, reader, writer).run()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=self.tls)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for writer in writers:
                # Python 3.11.2 cannot abort a transport of TLS that is closed.
                if not writer.is_closing():
                    writer.transport.abort()

    def apis(self) -> list[str]:
        return [api for _, api in self.asked]


class _Conversation:
    def __init__(
        self, broker: SecureBroker, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.broker, self.number, self.reader, self.writer = broker, number, reader, writer
        self.exchange: SaslServer | None = None
        self.mechanism = ""
        self.tokens = 0
        self.ends_s: float | None = None
        self.is_known = not broker.mechanisms

    async def run(self) -> None:
        while True:
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            if not 0 <= size <= MAX_REQUEST_BYTES:
                return
            header, value = decode_request(await self.reader.readexactly(size), self.broker.versions)
            self.broker.asked.append((self.number, header.api.name))
            answer = self.answer(value)
            if answer is None:
                return
            payload = encode_response(header.api, header.version, header.correlation_id, answer)
            frame = self.broker.garble(header.api, struct.pack(">i", len(payload)) + payload)
            if frame is None:
                return
            self.writer.write(frame)
            await self.writer.drain()
            if getattr(answer, "error", 0) != ErrorCode.NONE:
                return

    def answer(self, value: Request) -> Response | None:
        """Return the response; None closes the connection."""
        match value:
            case SaslHandshakeRequest():
                return self.begin(value.mechanism)
            case SaslAuthenticateRequest() if self.exchange is not None:
                return self.carry_on(self.exchange, value.auth_bytes)
            case ApiVersionsRequest():
                return api_versions_response(self.broker.versions)
            case _:
                expired = self.ends_s is not None and asyncio.get_running_loop().time() > self.ends_s
                return self.as_usual(value) if self.is_known and not expired else None

    def as_usual(self, value: Request) -> Response | None:
        """Return the response to a client that is known: to a controller's request, that its epoch is stale."""
        if self.broker.handler is not None:
            return self.broker.handler(value)
        return STALE if isinstance(value, Addressed) and isinstance(value.request, StopReplicaRequest) else METADATA

    def begin(self, mechanism: str) -> Response:
        enabled = tuple(self.broker.mechanisms)
        if not enabled:
            return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
        if mechanism not in self.broker.mechanisms:
            return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, enabled)
        self.exchange, self.mechanism, self.tokens = self.broker.mechanisms[mechanism](), mechanism, 0
        return SaslHandshakeResponse(ErrorCode.NONE, enabled)

    def carry_on(self, exchange: SaslServer, token: bytes) -> Response:
        try:
            challenge = self.broker.tamper(self.tokens, exchange.answer(token))
        except AuthenticationFailed:
            said = f"due to invalid credentials with SASL mechanism {self.mechanism}"
            return SaslAuthenticateResponse(
                ErrorCode.SASL_AUTHENTICATION_FAILED, f"Authentication failed during authentication {said}"
            )
        self.tokens += 1
        if exchange.principal is None:
            return SaslAuthenticateResponse(ErrorCode.NONE, None, challenge)
        self.broker.principals.append(exchange.principal)
        self.is_known = True
        lifetime_ms = self.broker.session_lifetime_ms
        if lifetime_ms:
            self.ends_s = asyncio.get_running_loop().time() + lifetime_ms / 1000
        return SaslAuthenticateResponse(ErrorCode.NONE, None, challenge, lifetime_ms)


def scram(mechanism: ScramMechanism, username: str, password: str) -> dict[str, Callable[[], SaslServer]]:
    """Return a listener's mechanisms: this one, with this user."""
    credential = ScramCredential.of(mechanism, password, b"salt of the user")
    nonces = iter(range(1_000_000))

    def server() -> SaslServer:
        return ScramServer(mechanism, f"nonce{next(nonces)}", lambda name: credential if name == username else None)

    return {mechanism.value: server}
