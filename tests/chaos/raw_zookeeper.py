"""Minimal ZooKeeper client on one socket: reads only, written from ZooKeeper's protocol, for the checker alone."""

from __future__ import annotations

import asyncio
import struct
from types import TracebackType
from typing import Final, Self

NO_NODE: Final = -101
_GET_DATA, _GET_CHILDREN, _SYNC, _CLOSE = 4, 8, 9, -11
_STAT_BYTES: Final = 68
_PASSWORD: Final = bytes(16)
_FIRST_REPLY_BYTES: Final = 16


class ReadFailed(Exception):
    """ZooKeeper did not answer this read, or with an error other than NO_NODE: the znode is unseen."""


class RawZooKeeper:
    """One connection to one server. Every method raises ReadFailed or OSError where nothing was seen.

    async with RawZooKeeper("127.0.0.1", port) as reader:
        await reader.sync()
        await reader.children("/brokers/topics")
    """

    def __init__(self, host: str, port: int, *, limit_s: float = 5.0) -> None:
        self._host, self._port, self._limit_s = host, port, limit_s
        self._xid = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def connect(self) -> None:
        """Open a session of 10 s."""
        async with asyncio.timeout(self._limit_s):
            self._streams = await asyncio.open_connection(self._host, self._port)
            await self._send(struct.pack("!iqiq", 0, 0, 10_000, 0) + _buffer(_PASSWORD) + b"\0")
            reply = await self._receive()
            if len(reply) < _FIRST_REPLY_BYTES or struct.unpack_from("!i", reply, 4)[0] <= 0:
                raise ReadFailed("the server refused the session")

    def close(self) -> None:
        """End the session; the server forgets it at once where it still hears us."""
        if self._streams is not None:
            writer = self._streams[1]
            if not writer.is_closing():
                writer.write(_framed(struct.pack("!ii", self._xid + 1, _CLOSE)))
                writer.close()
            self._streams = None

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    # --- reads ----------------------------------------------------------------------------------------------------

    async def sync(self) -> None:
        """Wait until this server has everything that the leader has committed."""
        await self._ask(_SYNC, _text("/"))

    async def get(self, path: str) -> bytes | None:
        """Return the znode's data; None where it does not exist."""
        reply = await self._ask(_GET_DATA, _text(path) + b"\0")
        if reply is None:
            return None
        (size,) = struct.unpack_from("!i", reply)
        end = 4 + max(size, 0)
        if len(reply) != end + _STAT_BYTES:
            raise ReadFailed(f"{path}: the answer has {len(reply)} bytes, and {size} of data")
        return reply[4:end]

    async def children(self, path: str) -> tuple[str, ...] | None:
        """Return the names of the children, sorted; None where the znode does not exist."""
        reply = await self._ask(_GET_CHILDREN, _text(path) + b"\0")
        if reply is None:
            return None
        (count,) = struct.unpack_from("!i", reply)
        names, at = [], 4
        for _ in range(count):
            (size,) = struct.unpack_from("!i", reply, at)
            names.append(reply[at + 4 : at + 4 + size].decode())
            at += 4 + size
        return tuple(sorted(names))

    async def tree(self, path: str) -> dict[str, bytes]:
        """Return the data of the znode and of everything below it, by path; empty where it does not exist."""
        found: dict[str, bytes] = {}
        pending = [path]
        while pending:
            at = pending.pop()
            data, names = await self.get(at), await self.children(at)
            if data is not None and names is not None:
                found[at] = data
                pending += [f"{at}/{name}" for name in names]
        return found

    # --- frames ---------------------------------------------------------------------------------------------------

    async def _ask(self, opcode: int, body: bytes) -> bytes | None:
        self._xid += 1
        async with asyncio.timeout(self._limit_s):
            await self._send(struct.pack("!ii", self._xid, opcode) + body)
            reply = await self._receive()
        xid, _, error = struct.unpack_from("!iqi", reply)
        if xid != self._xid:
            raise ReadFailed(f"the reply has xid {xid}, not {self._xid}")
        if error == NO_NODE:
            return None
        if error:
            raise ReadFailed(f"ZooKeeper answers with error {error}")
        return reply[16:]

    async def _send(self, payload: bytes) -> None:
        if self._streams is None:
            raise ReadFailed("there is no connection")
        self._streams[1].write(_framed(payload))
        await self._streams[1].drain()

    async def _receive(self) -> bytes:
        assert self._streams is not None
        try:
            (size,) = struct.unpack("!i", await self._streams[0].readexactly(4))
            return await self._streams[0].readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise ReadFailed("the server closed the connection") from error


def _framed(payload: bytes) -> bytes:
    return struct.pack("!i", len(payload)) + payload


def _buffer(data: bytes) -> bytes:
    return struct.pack("!i", len(data)) + data


def _text(path: str) -> bytes:
    return _buffer(path.encode())
