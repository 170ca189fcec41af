"""A TCP proxy that passes everything on unchanged and writes down every frame of it, with the time.

Kafka's protocol and ZooKeeper's both put four bytes of length before each message, so that one proxy serves both; what
a frame means is for its reader to decode. The address that it listens on is known before the server has one of its own:
a daemon can be told to advertise the proxy, and the proxy asks for its real address when somebody connects.

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
from types import TracebackType
from typing import NamedTuple, Self

Address = tuple[str, int]
FindAddress = Callable[[], Awaitable[Address]]
"""Where the server is; may wait for it. Raises OSError where it cannot be found, and the client is hung up on."""

_LENGTH = struct.Struct("!i")


class Frame(NamedTuple):
    """One message as it passed, without its four bytes of length."""

    time_ns: int
    """By the wall clock, when the last byte of it had come."""
    connection: int
    """Which of the proxy's connections: 1, 2, 3, ..."""
    to_server: bool
    payload: bytes


class RecordingProxy:
    """Listens on a free port of the loopback interface. `name` is what the recording calls the server."""

    def __init__(self, name: str, find_address: FindAddress) -> None:
        self.name = name
        self.frames: list[Frame] = []
        self.port = 0
        self._find_address = find_address
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._connections = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        self._connections += 1
        number = self._connections
        writers = [writer]
        try:
            upstream_reader, upstream = await asyncio.open_connection(*await self._find_address())
            writers.append(upstream)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, upstream, number, True), name=f"{self.name}: requests")
                group.create_task(self._pass(upstream_reader, writer, number, False), name=f"{self.name}: replies")
        except* (OSError, asyncio.IncompleteReadError):
            pass  # either side has hung up: so does the other
        except* asyncio.CancelledError:
            pass  # the proxy closes; asyncio would report the task as one that nobody has asked about
        finally:
            for each in writers:
                each.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int, to_server: bool
    ) -> None:
        """Until one side closes. A frame is written down before it is passed on, so that no answer precedes it."""
        while True:
            head = await reader.readexactly(_LENGTH.size)
            (size,) = _LENGTH.unpack(head)
            payload = await reader.readexactly(max(size, 0))
            self.frames.append(Frame(time.time_ns(), connection, to_server, payload))
            writer.write(head + payload)
            with contextlib.suppress(ConnectionResetError):
                await writer.drain()
