"""Connections to the HTTP server that stand still, that are too many, or for which there is no descriptor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lethe.adapters.http import Health, HttpServer, Reply, Request, Route, Stream, serve_http, standard_routes
from lethe.adapters.http_listener import HttpLimits

LIMIT_S = 60
ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
ROUTES = standard_routes(lambda: b"up 1\n", lambda: Health(True), lambda: Health(True))
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(server: HttpServer, sent: bytes = b"") -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        writer.write(sent)
        yield reader, writer
    finally:
        writer.transport.abort()


async def status_of(reader: asyncio.StreamReader) -> int:
    """Of one answer; its body is read too."""
    async with asyncio.timeout(LIMIT_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(line for line in head.splitlines() if line.lower().startswith("content-length"))
        await reader.readexactly(int(length.split(":")[1]))
    return int(head.split()[1])


async def closed(reader: asyncio.StreamReader) -> None:
    """Returns when the server has hung up."""
    async with asyncio.timeout(LIMIT_S):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


async def ask(server: HttpServer, host: str = "localhost") -> int:
    async with connected(server, ASK.replace(b"localhost", host.encode())) as (reader, _):
        return await status_of(reader)


# --- time ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target, status", [("http://evil.example/healthz", 403), ("http://127.0.0.1/healthz", 200)])
async def test_a_name_in_the_target_counts_before_the_header(target: str, status: int) -> None:
    asked = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    async with serve_http("127.0.0.1", 0, ROUTES) as server, connected(server, asked) as (reader, _):
        assert (await asyncio.wait_for(reader.readline(), LIMIT_S)).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: loc"])
async def test_a_request_that_is_never_complete_is_hung_up_on(sent: bytes) -> None:
    limits = HttpLimits(first_request_s=0.1)
    async with serve_http("127.0.0.1", 0, ROUTES, limits=limits) as server, connected(server, sent) as (reader, _):
        await closed(reader)


async def test_a_connection_that_asks_again_stays_and_then_an_idle_one_goes() -> None:
    limits = HttpLimits(first_request_s=10 * LIMIT_S, idle_s=1.0)
    async with serve_http("127.0.0.1", 0, ROUTES, limits=limits) as server, connected(server) as (reader, writer):
        for _ in range(2):
            writer.write(ASK)
            assert await status_of(reader) == 200
        await closed(reader)


async def test_a_stream_is_no_idle_connection() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            await asyncio.sleep(0.5)
            yield b"data: 1\n\n"

    routes = [Route("/stream", lambda _: Stream(pieces()))]  # type: ignore[arg-type]
    limits = HttpLimits(first_request_s=1.0, idle_s=0.1)
    async with (
        serve_http("127.0.0.1", 0, routes, limits=limits) as server,
        connected(server, b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n") as (reader, _),
        asyncio.timeout(LIMIT_S),
    ):
        answer = b""
        while not answer.endswith(b"0\r\n\r\n"):
            answer += await reader.read(1000)
    assert answer.count(b"data: 1") == 4


# --- number -------------------------------------------------------------------------------------------------------


async def test_half_requests_beyond_the_limit_make_room_for_a_whole_one() -> None:
    async with (
        serve_http("127.0.0.1", 0, ROUTES, limits=HttpLimits(max_connections=3)) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        halves = [await stack.enter_async_context(connected(server, b"GET /h")) for _ in range(5)]
        assert await ask(server) == 200
        await closed(halves[0][0])


async def test_where_all_are_being_answered_one_more_is_refused() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Reply:
        entered.set()
        await release.wait()
        return Reply(200, b"late")

    async with (
        serve_http("127.0.0.1", 0, [Route("/slow", slow)], limits=HttpLimits(max_connections=1)) as server,
        connected(server, b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n") as (reader, _),
    ):
        await asyncio.wait_for(entered.wait(), LIMIT_S)
        async with connected(server) as (refused, _):
            await closed(refused)
        release.set()
        assert await status_of(reader) == 200


# --- size ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 1_000 + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 512,
    ],
    ids=["address", "header", "number of headers", "TLS on a port without"],
)
async def test_a_request_that_is_too_large_or_none_is_refused_and_hung_up_on(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serve_http("127.0.0.1", 0, ROUTES) as server:
        async with connected(server, sent) as (reader, _), asyncio.timeout(LIMIT_S):
            with contextlib.suppress(ConnectionError):
                assert (await reader.read()).startswith(b"HTTP/1.0 400")
        assert await ask(server) == 200
    assert not caplog.records, "a client could fill the log"


@pytest.mark.parametrize(
    "begin,piece",
    [
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", b"x" * 65_536),
        (ASK[:-2] + b"Content-Length: 100000000000\r\n\r\n", b"x" * 65_536),
        (b"", ASK * 1_000),
    ],
    ids=["header", "body", "requests without reading answers"],
)
async def test_what_never_ends_is_cut_off_and_takes_no_memory(begin: bytes, piece: bytes) -> None:
    """It is sent as fast as it is taken, until the server hangs up; the limit is on the memory that this takes."""
    limits = HttpLimits(first_request_s=0.5, idle_s=0.5)
    async with serve_http("127.0.0.1", 0, ROUTES, limits=limits) as server, connected(server, begin) as (_, writer):
        before = _resident_bytes()
        highest = before
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(LIMIT_S):
                while True:
                    writer.write(piece)
                    await writer.drain()
                    highest = max(highest, _resident_bytes())
        assert highest - before < 32 * 1024 * 1024
        assert await ask(server) == 200


async def test_a_reader_that_does_not_take_its_answer_is_hung_up_on() -> None:
    routes = [Route("/large", lambda _: Reply(200, b"x" * 64_000_000))]
    limits = HttpLimits(first_request_s=0.5, idle_s=0.5)
    async with serve_http("127.0.0.1", 0, routes, limits=limits) as server:
        client = await _client_socket()
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(client, (server.host, server.port))
            await loop.sock_sendall(client, b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(LIMIT_S):
                    # An aborted connection cannot be written to any more.
                    while True:
                        await asyncio.sleep(0.05)
                        await loop.sock_sendall(client, b"\r\n")
        finally:
            client.close()


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


# --- descriptors --------------------------------------------------------------------------------------------------


async def test_a_process_without_descriptors_says_so_once_and_is_still_healthy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    clients = [await _client_socket() for _ in range(6)]
    taken: list[int] = []
    async with serve_http("127.0.0.1", 0, ROUTES) as server:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (_highest_descriptor() + 8, hard))
            with pytest.raises(OSError, match="Too many open files"):
                _take_every_descriptor(taken)
            loop = asyncio.get_running_loop()
            for client in clients:
                await loop.sock_connect(client, (server.host, server.port))
                await loop.sock_sendall(client, ASK)
                async with asyncio.timeout(LIMIT_S):
                    assert (await loop.sock_recv(client, 1000)).startswith(b"HTTP/1.1 200")
        finally:
            for descriptor in taken:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for client in clients:
                client.close()
        async with asyncio.timeout(LIMIT_S):
            while "can be opened again" not in caplog.text:
                await asyncio.sleep(0.01)
    assert caplog.text.count("no further file or connection can be opened (EMFILE)") == 1


async def _client_socket() -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    return made


def _take_every_descriptor(taken: list[int]) -> None:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))


def _highest_descriptor() -> int:
    return max(int(name) for name in os.listdir("/proc/self/fd"))


# --- names --------------------------------------------------------------------------------------------------------


async def test_a_name_of_a_stranger_is_refused_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with serve_http("127.0.0.1", 0, ROUTES, names=("lethe.example.com",)) as server:
        assert await ask(server, "127.0.0.1") == 200
        assert await ask(server, "controller-1:8080") == 200
        assert await ask(server, "lethe.example.com") == 200
        for _ in range(3):
            assert await ask(server, "evil.example") == 403
    assert caplog.text.count("lethe.http.allowed.hosts") == 1
