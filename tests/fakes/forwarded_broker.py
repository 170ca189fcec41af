"""A broker as a relay sees it: frames that it need not understand, and answers that can be told from each other."""

from __future__ import annotations

import asyncio
import struct
from types import TracebackType
from typing import NamedTuple, Self

from lethe.protocol.kafka.codec import encode_response
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.framing import FrameDecoder
from lethe.protocol.kafka.queries import ApiVersion, ApiVersionsResponse
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint

FIND_COORDINATOR = 10
PRODUCE = 0
OFFERED = (
    *(ApiVersion(PRODUCE, 0, 11), ApiVersion(3, 0, 12), ApiVersion(4, 0, 7), ApiVersion(7, 0, 3)),
    *(ApiVersion(FIND_COORDINATOR, 0, 6), ApiVersion(16, 0, 3), ApiVersion(18, 0, 3), ApiVersion(56, 0, 2)),
)


def request(api: int, version: int, number: int, body: bytes = b"", client_id: bytes = b"me") -> bytes:
    """A frame, with the header of the older versions: its size, key, version, number, client id, and the body."""
    payload = struct.pack(">hhih", api, version, number, len(client_id)) + client_id + body
    return struct.pack(">i", len(payload)) + payload


def answer_to(frame: bytes, broker: int) -> bytes:
    """What the broker with that id answers to the frame."""
    payload = frame[8:12] + b"%d says %d" % (broker, len(frame))
    return struct.pack(">i", len(payload)) + payload


class Taken(NamedTuple):
    connection: int
    frame: bytes


class ForwardedBroker:
    """Listens on a port of its own while its context is entered."""

    def __init__(self, number: int, offered: tuple[ApiVersion, ...] = OFFERED, listener: str = "PLAINTEXT") -> None:
        self.number = number
        self.offered = offered
        self.taken: list[Taken] = []
        """What came, ApiVersions excepted."""
        self.versions_asked = 0
        self.connections = 0
        self.open_connections = 0
        self.released = asyncio.Event()
        """While it is cleared, nothing is answered but ApiVersions."""
        self.released.set()
        self.prepared: bytes | None = None
        """What is answered instead, to the next request."""
        self._listener = listener
        self._port = 0
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, None] = {}

    @property
    def frames(self) -> list[bytes]:
        return [taken.frame for taken in self.taken]

    def as_broker(self, epoch: int = 1) -> Broker:
        endpoint = Endpoint(self._listener, "127.0.0.1", self._port)
        return Broker(BrokerId(self.number), BrokerEpoch(epoch), (endpoint,))

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.die()

    async def die(self) -> None:
        """Connections break, and new ones are refused."""
        self.released.set()
        for writer in list(self._writers):
            writer.transport.abort()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None
        while self._writers:
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self.open_connections += 1
        self._writers[writer] = None
        decoder = FrameDecoder()
        try:
            while data := await reader.read(1 << 16):
                decoder.feed(data)
                for payload in decoder.frames():
                    writer.write(await self._answer(number, struct.pack(">i", len(payload)) + payload))
                    await writer.drain()
        except OSError:
            return
        finally:
            self.open_connections -= 1
            del self._writers[writer]
            writer.close()

    async def _answer(self, connection: int, frame: bytes) -> bytes:
        api, version, number = struct.unpack_from(">hhi", frame, 4)
        if api == ApiKey.API_VERSIONS:
            self.versions_asked += 1
            payload = encode_response(
                ApiKey.API_VERSIONS, min(version, 3), number, ApiVersionsResponse(0, self.offered)
            )
            return struct.pack(">i", len(payload)) + payload
        self.taken.append(Taken(connection, frame))
        await self.released.wait()
        if api == PRODUCE and frame.endswith(b"\0\0silent"):
            return b""
        prepared, self.prepared = self.prepared, None
        return answer_to(frame, self.number) if prepared is None else prepared
