"""A TCP proxy that records every frame that it forwards, with the time.

Kafka and ZooKeeper both put four bytes of length before each message, so one proxy serves both. The reader decodes the
frames. The proxy's address is fixed before the server has one: a daemon can advertise the proxy, and the proxy looks up
the daemon's real address at each connection.

    async with RecordingProxy("broker 1", address_of_broker_1) as proxy:
        ...advertise 127.0.0.1:{proxy.port}...
        for frame in proxy.frames: ...
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lethe.adapters.streams import send
from lethe.cluster.loopback_server import Address, LoopbackServer

FindAddress = Callable[[], Awaitable[Address]]
"""Return the server's address, possibly after waiting. After OSError the proxy closes the client's connection."""

_LENGTH = struct.Struct("!i")


class Frame(NamedTuple):
    """One forwarded message, without its four bytes of length."""

    time_ns: int
    """Wall clock time at which the last byte arrived."""
    connection: int
    """Number of the proxy's connection: 1, 2, 3, ..."""
    to_server: bool
    payload: bytes


class RecordingProxy(LoopbackServer):
    """Listens on a free port of the loopback interface. `name` is the server's name in the recording."""

    def __init__(self, name: str, find_address: FindAddress) -> None:
        super().__init__()
        self.name = name
        self.frames: list[Frame] = []
        self._find_address = find_address
        self._connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward until one side closes."""
        self._connections += 1
        number = self._connections
        upstream_reader, upstream = await asyncio.open_connection(*await self._find_address())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, upstream, number, True), name=f"{self.name}: requests")
                group.create_task(self._pass(upstream_reader, writer, number, False), name=f"{self.name}: replies")
        finally:
            upstream.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int, to_server: bool
    ) -> None:
        """Forward one direction. A frame is recorded before it is sent, so that it precedes its answer."""
        while True:
            head = await reader.readexactly(_LENGTH.size)
            (size,) = _LENGTH.unpack(head)
            payload = await reader.readexactly(max(size, 0))
            self.frames.append(Frame(time.time_ns(), connection, to_server, payload))
            with contextlib.suppress(ConnectionResetError):
                await send(writer, (head + payload,))
