"""A TCP proxy for one peer, whose traffic can be cut, stalled, delayed or refused for a while.

`tests.fakes.tcp_proxy` harms one chosen request once; a gate harms everything for some seconds, keeps nothing of what
passes, and serves for an hour. A gate in front of ZooKeeper can also turn a Kafka broker's election into a write that
fails: see `lose_elections`.
"""

from __future__ import annotations

import asyncio
import enum
import struct
from collections.abc import Callable
from typing import Final

from lethe.cluster.loopback_server import Address, LoopbackServer, reset

CHUNK: Final = 65_536


class Mode(enum.Enum):
    """What happens to everything that passes."""

    OPEN = "passes"
    STALL = "stays where it is; connections stay open"
    DELAY = "passes late"
    REFUSE = "connections are reset, new ones too"


class Gate(LoopbackServer):
    """Passes everything on to this address."""

    def __init__(self, upstream: Address, change: Callable[[bytes], bytes] | None = None) -> None:
        """`change` gets each frame (without its length) that the client sends, and returns what to send instead."""
        super().__init__()
        self.delay_s = 0.0
        self._upstream, self._change = upstream, change
        self._mode = Mode.OPEN
        self._moving = asyncio.Event()
        self._moving.set()
        self._writers: set[asyncio.StreamWriter] = set()

    # --- harm -----------------------------------------------------------------------------------------------------

    def set_mode(self, mode: Mode, delay_s: float = 0.0) -> None:
        """Let everything pass like this from now on."""
        self._mode, self.delay_s = mode, delay_s
        if mode is Mode.STALL:
            self._moving.clear()
        else:
            self._moving.set()
        if mode is Mode.REFUSE:
            self.cut()

    def cut(self) -> None:
        """Reset all connections; new ones are taken."""
        for writer in list(self._writers):
            reset(writer)

    # --- passing on -----------------------------------------------------------------------------------------------

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        self._writers.add(writer)
        try:
            if self._mode is Mode.REFUSE:
                return
            await self._moving.wait()
            there, upstream = await asyncio.open_connection(*self._upstream)
            writers.append(upstream)
            self._writers.add(upstream)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, upstream))
                group.create_task(self._pass(there, writer))
        finally:
            self._writers.difference_update(writers)
            for each in writers:
                reset(each)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._change is None:
            await self._pass(reader, writer)
        else:
            await self._pass_frames(reader, writer, self._change)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self._hold()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def _pass_frames(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[bytes], bytes]
    ) -> None:
        while True:
            (size,) = struct.unpack("!i", await reader.readexactly(4))
            frame = change(await reader.readexactly(size))
            await self._hold()
            writer.write(struct.pack("!i", len(frame)) + frame)
            await writer.drain()

    async def _hold(self) -> None:
        if self._mode is Mode.DELAY:
            await asyncio.sleep(self.delay_s)
        await self._moving.wait()


_MULTI: Final = 14
_CREATES: Final = (1, 15)
_WANTED: Final = b"/controller"
_EXISTS: Final = b"/brokers"


def lose_elections(frame: bytes) -> bytes:
    """Return the ZooKeeper request, in which a multi that creates `/controller` creates `/brokers` instead.

    That fails with NODE_EXISTS, so a Kafka broker takes it that another one was first, and never becomes controller.
    """
    # xid, opcode; of the first operation: type, done, error; then its path.
    start = 17 + 4
    if len(frame) < start + len(_WANTED) or struct.unpack_from("!i", frame, 4)[0] != _MULTI:
        return frame
    operation, size = struct.unpack_from("!i", frame, 8)[0], struct.unpack_from("!i", frame, 17)[0]
    if operation not in _CREATES or size != len(_WANTED) or frame[start : start + size] != _WANTED:
        return frame
    return frame[:17] + struct.pack("!i", len(_EXISTS)) + _EXISTS + frame[start + size :]
