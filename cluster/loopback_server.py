"""A server on a free loopback port whose connections end with it: what TCP proxies have in common."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

Address = tuple[str, int]


class LoopbackServer(ABC):
    """Serves each connection in a task of its own. `port` is 0 before it is open."""

    def __init__(self) -> None:
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    @abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, which is closed afterwards. OSError and IncompleteReadError end it, too."""

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End all connections, and the listening."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        try:
            await self.serve(reader, writer)
        except* (OSError, asyncio.IncompleteReadError):
            pass  # either side has closed
        except* asyncio.CancelledError:
            pass  # the server is closing; asyncio would log the cancellation
        finally:
            writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection with RST."""
    raw: socket.socket | None = writer.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
