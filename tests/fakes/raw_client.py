"""A client of a listener for Kafka's protocol that sends what it likes."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from lethe.protocol.kafka.codec import decode_response, encode_request
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.queries import Request, Response
from lethe.protocol.kafka.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from lethe.protocol.security.plain import PlainToken

LIMIT_S: Final = 30
_CHUNK: Final = 65_536


class Raw:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, request: Request, version: int) -> None:
        self.writer.write(frame(request, version))

    async def ask(self, request: Request, api: ApiKey, version: int) -> Response:
        self.send(request, version)
        async with asyncio.timeout(LIMIT_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            _, response = decode_response(api, version, await self.reader.readexactly(size))
        return response

    async def handshake(self, mechanism: str = "PLAIN") -> SaslHandshakeResponse:
        answer = await self.ask(SaslHandshakeRequest(mechanism), ApiKey.SASL_HANDSHAKE, 1)
        assert isinstance(answer, SaslHandshakeResponse)
        return answer

    async def authenticate(self, user: str, password: str) -> SaslAuthenticateResponse:
        return await self.token(PlainToken(user, password).encode())

    async def token(self, token: bytes) -> SaslAuthenticateResponse:
        answer = await self.ask(SaslAuthenticateRequest(token), ApiKey.SASL_AUTHENTICATE, 2)
        assert isinstance(answer, SaslAuthenticateResponse)
        return answer

    async def closed_within(self, limit_s: float) -> tuple[bool, bytes]:
        """Return whether the server closes the connection in time, and what it sends before."""
        received = bytearray()
        try:
            async with asyncio.timeout(limit_s):
                while data := await self.reader.read(_CHUNK):
                    received += data
        except TimeoutError:
            return False, bytes(received)
        except ConnectionError:
            pass
        return True, bytes(received)

    async def is_closed(self) -> bool:
        """Whether the server closes the connection without another byte."""
        try:
            return await asyncio.wait_for(self.reader.read(), LIMIT_S) == b""
        except ConnectionError:
            return True


def frame(request: Request, version: int) -> bytes:
    """Return the request with its length before it."""
    payload = encode_request(request, version, 7, "raw")
    return struct.pack(">i", len(payload)) + payload


@asynccontextmanager
async def connected_to(port: int, context: ssl.SSLContext | None = None) -> AsyncIterator[Raw]:
    """A connection to this port of the loopback interface."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield Raw(reader, writer)
    finally:
        writer.transport.abort()
