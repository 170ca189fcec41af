"""One client of the proxy: how its requests are looked at before they are copied."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, cast

import pytest
import uvloop

from lethe.adapters.kafka.connection_state import PeerClosed
from lethe.adapters.kafka.forwarded_client import ForwardedClient
from lethe.adapters.kafka.forwarding_proxy import (
    BrokerTarget,
    ForwardingCounts,
    ForwardingProxy,
    NoBrokerAvailable,
    Upstream,
)
from lethe.protocol.kafka.connection import ServerConnection
from lethe.protocol.kafka.forwarding import request_head
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, Endpoint

LIMIT_S: Final = 30.0


class Counting(ServerConnection):
    """Counts the bytes that are looked at."""

    def __init__(self) -> None:
        super().__init__({}, passes_on=True)
        self.looked_at = 0

    def peek(self, count: int) -> bytes:
        start = super().peek(count)
        self.looked_at += len(start)
        return start


class BrokerReached(Exception):
    """The request would be copied now."""


class NoBroker:
    """A proxy that only says when it is asked for a broker."""

    async def connect(self, *_: object) -> None:
        raise BrokerReached


def a_produce_of_many_tags(count: int, body_bytes: int = 8) -> bytes:
    """Produce v9 without acks, whose header has so many empty tagged fields."""
    tags = bytes((count & 127 | 128, count >> 7 & 127 | 128, count >> 14)) + b"\x01\x00" * count
    payload = struct.pack(">hhih", 0, 9, 7, -1) + tags + b"\0" + struct.pack(">h", 0) + bytes(body_bytes)
    return struct.pack(">i", len(payload)) + payload


def client_of(
    proxy: object,
    protocol: ServerConnection,
    more: Callable[[], Awaitable[None]],
    *,
    answers: asyncio.StreamWriter | None = None,
    lost: Callable[[str], None] = lambda _: None,
) -> ForwardedClient:
    """A client of this proxy; where nothing is said of `answers`, none may come."""
    return ForwardedClient(
        cast(ForwardingProxy, proxy),
        "PLAINTEXT",
        protocol,
        cast(asyncio.StreamWriter, answers),
        more=more,
        lost=lost,
        spawn=asyncio.get_running_loop().create_task,
        max_idle_ms=1000,
    )


async def test_a_request_that_comes_byte_by_byte_is_not_looked_at_for_each() -> None:
    frame = a_produce_of_many_tags(20_000)
    left = iter(frame[16:])
    protocol = Counting()
    protocol.receive(frame[:16])

    async def one_byte() -> None:
        protocol.receive(bytes((next(left),)))

    client = client_of(NoBroker(), protocol, one_byte)
    with pytest.raises(BrokerReached):
        await client.forward(request_head(frame[:12]))
    assert protocol.looked_at < 4 * len(frame)


Serves = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A broker that reads the beginning of the first request, and resets the connection."""
    await reader.readexactly(1)
    at_once = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    writer.transport.abort()


async def answer_at_length(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A broker that answers the first request with more than any buffer holds."""
    await reader.readexactly(1)
    with contextlib.suppress(ConnectionError):
        writer.write(struct.pack(">ii", 50_000_000, 7) + bytes(49_999_996))
        await writer.drain()


class OneBroker:
    """A proxy with this broker."""

    def __init__(self, serves: Serves = reset) -> None:
        self.upstream: Upstream | None = None
        self.counts = ForwardingCounts()
        self._serves = serves

    def check_answer(self, _: int) -> None:
        """All sizes are welcome."""

    async def connect(self, *_: object) -> Upstream:
        self._server = await asyncio.start_server(self._serves, "127.0.0.1")
        host, port = self._server.sockets[0].getsockname()
        target = BrokerTarget(BrokerId(3), BrokerEpoch(7), Endpoint("PLAINTEXT", host, port))
        self.upstream = Upstream(target, *await asyncio.open_connection(host, port))
        return self.upstream

    async def is_reset(self) -> None:
        assert self.upstream is not None
        async with asyncio.timeout(LIMIT_S):
            await self.upstream.writer.wait_closed()

    def closed(self, _: Upstream) -> None:
        self._server.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_broker_that_leaves_in_the_middle_of_a_request_is_named_on_each_event_loop(
    run: Callable[[Coroutine[None, None, None]], None],
) -> None:
    """A controller on uvloop ended: its streams raise a RuntimeError where those of asyncio do not."""

    async def scenario() -> None:
        frame = a_produce_of_many_tags(1, 40_000)
        protocol = ServerConnection({}, passes_on=True)
        protocol.receive(frame[:30_000])
        broker = OneBroker()

        async def more() -> None:
            with contextlib.suppress(ConnectionError):
                await broker.is_reset()
            protocol.receive(frame[30_000:])

        client = client_of(broker, protocol, more)
        try:
            with pytest.raises(NoBrokerAvailable, match=r"^broker 3"):
                await client.forward(request_head(frame[:12]))
        finally:
            client.close()

    run(scenario())


class ClientConnection:
    """A client's connection, and what was said when it was ended."""

    def __init__(self) -> None:
        self.lost: list[str] = []

    async def __aenter__(self) -> ClientConnection:
        accepted: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), "127.0.0.1")
        self._socket = socket.create_connection(self._server.sockets[0].getsockname())
        self.answers = await accepted
        return self

    def leave(self) -> None:
        self._socket.close()

    async def __aexit__(self, *_: object) -> None:
        self.leave()
        self.answers.transport.abort()
        self._server.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("leaves", [True, False])
def test_a_client_that_does_not_take_its_answer_is_not_a_failure_of_the_broker(
    run: Callable[[Coroutine[None, None, None]], None], *, leaves: bool
) -> None:
    async def scenario() -> None:
        metadata = struct.pack(">ihhihi", 14, 3, 1, 7, -1, -1)
        protocol = ServerConnection({}, passes_on=True)
        protocol.receive(metadata)
        broker = OneBroker(answer_at_length)

        async def no_more() -> None:
            raise AssertionError("the whole request was there")

        async with ClientConnection() as connection:
            client = client_of(broker, protocol, no_more, answers=connection.answers, lost=connection.lost.append)
            try:
                await client.forward(request_head(metadata[:12]))
                if leaves:
                    connection.leave()
                with pytest.raises(PeerClosed):
                    async with asyncio.timeout(LIMIT_S):
                        await client.settled()
            finally:
                client.close()
        (said,) = connection.lost
        assert said.startswith("it did not take an answer" if leaves else "it did not read an answer within 1 s")
        assert broker.counts.failures == 0

    run(scenario())
