"""The recording proxy: everything passes, every frame is written down, and who loses one side loses the other."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest

from lethe.cluster.loopback_server import Address
from lethe.cluster.recording_proxy import RecordingProxy

LIMIT_S = 30


def framed(payload: bytes) -> bytes:
    return struct.pack("!i", len(payload)) + payload


@pytest.fixture
async def echo() -> AsyncIterator[Address]:
    """Answers each frame with itself reversed; hangs up on `bye`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack("!i", await reader.readexactly(4))
                payload = await reader.readexactly(size)
                if payload == b"bye":
                    break
                writer.write(framed(payload[::-1]))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[:2]


async def test_frames_pass_unchanged_and_are_written_down_in_their_order(echo: Address) -> None:
    async def find() -> Address:
        return echo

    async with asyncio.timeout(LIMIT_S), RecordingProxy("echo", find) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        large = bytes(range(256)) * 4000
        writer.write(framed(b"abc")[:5])
        await writer.drain()
        writer.write(framed(b"abc")[5:] + framed(b"") + framed(large))
        answers = framed(b"cba") + framed(b"") + framed(large[::-1])
        assert await reader.readexactly(len(answers)) == answers
        sent = [frame.payload for frame in proxy.frames if frame.to_server]
        assert sent == [b"abc", b"", large]
        assert [frame.payload for frame in proxy.frames if not frame.to_server] == [p[::-1] for p in sent]
        for payload in sent:
            if payload:
                order = [frame.to_server for frame in proxy.frames if frame.payload in (payload, payload[::-1])]
                assert order == [True, False]
        other_reader, other = await asyncio.open_connection("127.0.0.1", proxy.port)
        other.write(framed(b"bye"))
        assert await other_reader.read() == b""
        assert proxy.frames[-1].connection == 2
        for each in (writer, other):
            each.close()


async def test_who_cannot_be_reached_hangs_up() -> None:
    async def find() -> Address:
        raise OSError("not there")

    async with asyncio.timeout(LIMIT_S), RecordingProxy("nobody", find) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await reader.read() == b""
        writer.close()
        assert proxy.frames == []


async def test_leaving_ends_the_connections_and_says_nothing(echo: Address) -> None:
    async def find() -> Address:
        return echo

    said: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    async with asyncio.timeout(LIMIT_S):
        async with RecordingProxy("echo", find) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(framed(b"ab"))
            assert await reader.readexactly(6) == framed(b"ba")
        assert await reader.read() == b""
        writer.close()
    assert said == []
