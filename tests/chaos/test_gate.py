"""A gate between a client and a server that echoes: what each mode does to what passes, and to connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.chaos.gate import Gate, Mode

SHORT_S = 0.2
"""Long enough for a byte on loopback, short enough to wait for its absence."""


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()


@asynccontextmanager
async def gated() -> AsyncIterator[Gate]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, Gate(server.sockets[0].getsockname()[:2]) as gate:
        yield gate


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: bytes, limit_s: float = 60.0) -> bytes:
    writer.write(text)
    return await asyncio.wait_for(reader.readexactly(len(text)), limit_s)


async def test_an_open_gate_passes_both_ways() -> None:
    async with gated() as gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        assert await ask(reader, writer, b"hello") == b"hello"
        writer.close()


async def test_a_cut_resets_connections_and_takes_new_ones() -> None:
    async with gated() as gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        await ask(reader, writer, b"hello")
        gate.cut()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await ask(reader, writer, b"again")
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        assert await ask(reader, writer, b"anew") == b"anew"
        writer.close()


async def test_a_stall_keeps_everything_and_loses_nothing() -> None:
    async with gated() as gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        await ask(reader, writer, b"hello")
        gate.set_mode(Mode.STALL)
        with pytest.raises(TimeoutError):
            await ask(reader, writer, b"later", SHORT_S)
        gate.set_mode(Mode.OPEN)
        assert await asyncio.wait_for(reader.readexactly(5), 10) == b"later"
        writer.close()


async def test_a_delay_is_at_least_as_long_each_way() -> None:
    async with gated() as gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        gate.set_mode(Mode.DELAY, SHORT_S)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await ask(reader, writer, b"late") == b"late"
        assert loop.time() - began >= 2 * SHORT_S
        writer.close()


async def test_a_refusing_gate_resets_old_and_new_connections() -> None:
    async with gated() as gate:
        old = await asyncio.open_connection("127.0.0.1", gate.port)
        await ask(*old, b"hello")
        gate.set_mode(Mode.REFUSE)
        new = await asyncio.open_connection("127.0.0.1", gate.port)
        for pair in (old, new):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await ask(*pair, b"anything")


async def test_a_closed_gate_leaves_no_connection_and_no_port() -> None:
    async with gated() as gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        await ask(reader, writer, b"hello")
        port = gate.port
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await ask(reader, writer, b"again")
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)
