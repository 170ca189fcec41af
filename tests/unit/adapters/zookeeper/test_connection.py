"""One connection against a scripted server: whatever arrives, however it is cut, each request ends exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from lethe.adapters.zookeeper import wire
from lethe.adapters.zookeeper.connection import Answer, Connection, Dropped, Skipped, connect
from lethe.protocol.zookeeper.operations import Children, GetChildren, ZkError

GRANTED = struct.pack("!iiqi", 0, 4000, 7, 16) + b"p" * 16 + b"\0"
REQUEST = wire.pack_read("", GetChildren("/"))
BODY = struct.pack("!ii", 1, 1) + b"a"


def frame(body: bytes) -> bytes:
    return struct.pack("!i", len(body)) + body


def reply(xid: int, body: bytes = BODY, error: int = 0) -> bytes:
    return frame(struct.pack("!iqi", xid, 99, error) + body)


Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def connected(script: Script, events: list[bytes] | None = None) -> AsyncIterator[Connection]:
    """A connection, shaken hands with, to a server that then does what the script says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (size,) = struct.unpack("!i", await reader.readexactly(4))
        await reader.readexactly(size)
        writer.write(frame(GRANTED))
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await script(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        heard = events if events is not None else []
        connection = await connect("127.0.0.1", port, heard.append, max_reply_bytes=1000, timeout_s=10)
        try:
            assert (await connection.shake_hands(wire.pack_connect(0, 4000, 0, bytes(16)))).session_id == 7
            yield connection
        finally:
            connection.drop("the test is over")


def saying(*chunks: bytes) -> Script:
    """Says the chunks one after another, each in a packet of its own, then hears the client out."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(0)
        await reader.read()

    return script


GOOD = Answer(99, None, Children(("a",)), 0)


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_answers_arrive_whole_however_they_are_cut(size: int) -> None:
    event = frame(struct.pack("!iqi", -1, -1, 0) + b"event")
    stream = reply(1) + event + reply(2, b"", -101) + frame(struct.pack("!iqi", -2, 1, 0)) + reply(3)
    events: list[bytes] = []
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    async with connected(saying(*chunks), events) as connection:
        sent = [connection.send(REQUEST) for _ in range(2)]
        connection.ping()
        sent.append(connection.send(REQUEST))
        assert [await each for each in sent] == [GOOD, Answer(99, ZkError.NO_NODE, None, -101), GOOD]
        assert events == [b"event"]
        assert connection.oldest_unanswered_at is None
        assert connection.is_open


@pytest.mark.parametrize(
    "nonsense, told",
    [
        (reply(2), "request 2 where 1 is expected"),
        (reply(-2), "request -2 where none is expected"),
        (reply(1, BODY[:-1]), "unparsable"),
        (reply(1, BODY + b"x"), "does not end"),
        (frame(b"short"), "unparsable answer: it ends too early"),
        (reply(1, b"\0\0"), "unparsable answer: it ends too early"),
        (struct.pack("!i", -5), "a frame of -5 bytes: the server does not speak ZooKeeper's protocol"),
        (b"HTTP/1.1 200 OK\r\n", "the text 'HTTP' is no frame: the server does not speak ZooKeeper's protocol"),
    ],
)
async def test_an_answer_that_does_not_fit_ends_the_connection(nonsense: bytes, told: str) -> None:
    async with connected(saying(nonsense)) as connection:
        first, second = connection.send(REQUEST), connection.send(REQUEST)
        for ending in (await first, await second):
            assert isinstance(ending, Dropped)
        assert told in await connection.closed
        late = await connection.send(REQUEST)
        assert isinstance(late, Dropped)
        assert told in late.reason


@pytest.mark.parametrize("cuts", [(10, 2000), (10, 2000, 4000), (5020,)])
async def test_an_answer_above_the_limit_is_skipped_and_the_next_one_heard(cuts: tuple[int, ...]) -> None:
    stream = reply(1, b"x" * 5000) + reply(2)
    chunks = [stream[begin:end] for begin, end in itertools.pairwise((0, *cuts, len(stream)))]
    connection = Connection(lambda _: None, max_reply_bytes=1000)
    shaken = asyncio.ensure_future(connection.shake_hands(b""))
    await asyncio.sleep(0)
    connection.data_received(frame(GRANTED))
    await shaken
    first, second = connection.send(REQUEST), connection.send(REQUEST)
    for chunk in chunks:
        connection.data_received(chunk)
    assert await first == Skipped(5016)
    assert await second == GOOD


async def test_a_closed_connection_ends_what_was_sent() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)

    async with connected(hang_up) as connection:
        connection.ping()
        ending = await connection.send(REQUEST)
        assert isinstance(ending, Dropped)
        assert "closed" in ending.reason
        assert not connection.is_open


async def test_what_was_answered_is_what_the_server_has_heard() -> None:
    async with connected(saying(reply(1))) as connection:
        before = connection.confirmed_at
        sent_at = asyncio.get_running_loop().time()
        answered = connection.send(REQUEST)
        waiting = connection.send(REQUEST)
        await answered
        assert before <= sent_at <= connection.confirmed_at
        assert connection.oldest_unanswered_at is not None
        connection.drop("enough")
        connection.drop("once more")
        assert await waiting == Dropped("enough")
        assert await connection.closed == "enough"


async def test_answers_are_told_before_anything_that_follows_them() -> None:
    order: list[object] = []
    event = frame(struct.pack("!iqi", -1, -1, 0) + b"event")

    class Events(list[bytes]):
        def append(self, body: bytes) -> None:
            order.append(body)

    async with connected(saying(reply(1) + event + reply(2)), Events()) as connection:
        first = connection.send(REQUEST, on_answer=order.append)
        second = connection.send(REQUEST, on_answer=order.append)
        first.cancel()
        await second
        assert order == [GOOD, b"event", GOOD]


@pytest.mark.parametrize(
    "said, told",
    [
        (b"", "closed the connection without an answer.*zookeeper.ssl.client.enable=true"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "answers with an alert of TLS, so this is its TLS port"),
        (b"\0", "^connection closed by the server$"),
        (b"HTTP/1.1 400 Bad Request\r\n", "^unparsable answer: the text 'HTTP' is no frame: the server does not speak"),
        (frame(b"\0\0"), "^unparsable answer to the connect request: it ends too early$"),
    ],
)
async def test_a_port_of_something_else_is_recognised(said: bytes, told: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(said)
        writer.write_eof()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = await connect("127.0.0.1", port, lambda _: None, max_reply_bytes=1000, timeout_s=10)
        with pytest.raises(ConnectionError, match=told):
            await connection.shake_hands(wire.pack_connect(0, 4000, 0, bytes(16)))
