"""Frames that are too large or never end, and connections that only take room."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from lethe.adapters.security.login import SaslLogin
from lethe.cluster.daemons import Daemon
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import ApiVersionsRequest, MetadataRequest
from tests.attacks.attack import Attack, Attempt, Seen
from tests.attacks.setting import CLEAR, GUEST, INTERNAL, MAX_CONNECTIONS, MAX_REQUEST_BYTES, RECEIVE_LIMIT_MS, SHA_512
from tests.attacks.world import LIMIT_S, World
from tests.fakes.raw_client import Raw, connected_to

OVERSIZED: Final = "oversized frames"
SLOW: Final = "slow-loris"
MOST: Final = 2_147_483_647
BEFORE_LOGIN: Final = 524_288
_MB: Final = 1024 * 1024
_GROWTH: Final = 48 * _MB
_CLOSED_S: Final = 15.0
_HTTP_LIMIT_S: Final = 10.0
_HTTP_CONNECTIONS: Final = 128
_LARGEST: Final = struct.pack(">ihhi", MAX_REQUEST_BYTES, ApiKey.UPDATE_METADATA, 8, 1)
"""The head of a request whose API has no smaller limit."""


async def log_in(world: World, client: Raw, user: str = GUEST) -> None:
    """Log in by SCRAM. AssertionError: the login is refused."""
    password = world.setting.secrets.password(user)
    side = await SaslLogin.scram(SHA_512, user, lambda: password).client()
    assert (await client.handshake(SHA_512.value)).error == ErrorCode.NONE
    sent: bytes | None = side.first()
    while sent is not None:
        answer = await client.token(sent)
        assert answer.error == ErrorCode.NONE, answer.error_message
        sent = side.answer(answer.auth_bytes)


async def guest_is_served(world: World, listener: str = CLEAR) -> str:
    """Control: a guest logs in and is answered."""
    async with world.raw(listener) as client:
        await log_in(world, client)
        await client.ask(MetadataRequest(None), ApiKey.METADATA, 12)
    return f"User:{GUEST} logs in and is answered"


def frame(size: int, *, body: int = 0, logs_in: bool = False) -> Attempt:
    """Return an attempt: a frame that announces a size, with so many bytes after it."""

    async def attempt(world: World) -> Seen:
        peak = world.resources(forget_peak=True).peak_bytes
        async with world.raw(CLEAR) as client:
            if logs_in:
                await log_in(world, client)
            with contextlib.suppress(ConnectionError):
                client.writer.write(struct.pack(">i", size) + bytes(body))
                await client.writer.drain()
            closed, answered = await client.closed_within(_CLOSED_S)
        small = world.resources().peak_bytes - peak < _GROWTH
        what = f"closed within {_CLOSED_S:g} s, {len(answered)} bytes answered" if closed else "not closed"
        return Seen(f"{what}; the process grows by {'less' if small else 'more'} than 48 MB", not (closed and small))

    return attempt


async def _many_unfinished(world: World) -> Seen:
    """Twenty clients leave a request of almost the largest size unfinished."""
    resources, part = world.resources(forget_peak=True), MAX_REQUEST_BYTES - 1024
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(world.raw(CLEAR)) for _ in range(20)]
        for client in clients:
            await log_in(world, client)
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.writer.write(_LARGEST + bytes(part - 8))
                await client.writer.drain()
        closed = [await client.closed_within(RECEIVE_LIMIT_MS / 1000 + _CLOSED_S) for client in clients]
        served = await world.is_served()
    small = world.resources().peak_bytes - resources.peak_bytes < _GROWTH
    ended = all(each for each, _ in closed)
    size = "less" if small else "more"
    what = f"{'all' if ended else 'not all'} are closed at their limits; the process grows by {size} than 48 MB"
    return Seen(what, not (ended and small and served))


# --- slow-loris ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _dripping(ports: list[int], count: int, begun: bytes) -> AsyncIterator[list[Raw]]:
    """Connections of which half send nothing, and half begin something and go on by single bytes."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected_to(ports[number % len(ports)])) for number in range(count)]
        slow = clients[::2]
        for client in slow:
            client.writer.write(begun)

        async def drip() -> None:
            while True:
                await asyncio.sleep(0.2)
                for client in slow:
                    if not client.writer.is_closing():
                        client.writer.write(b"\0")

        task = asyncio.create_task(drip())
        try:
            yield clients
        finally:
            task.cancel()


async def _silent(world: World) -> Seen:
    """Four times as many clients as there may be connections begin a login or handshake and do not end it."""
    files = world.resources().files
    ports = [await world.port(CLEAR), await world.port(INTERNAL)]
    async with _dripping(ports, 4 * MAX_CONNECTIONS, b"\x00\x00\x00\x20") as clients:
        began_s = time.monotonic()
        served = await world.is_served()
        await guest_is_served(world)
        more = world.resources().files - files
        closed = await asyncio.gather(*(each.closed_within(LIMIT_S) for each in clients))
        took_s = time.monotonic() - began_s
    return _kept_out(served, more, MAX_CONNECTIONS, all(each for each, _ in closed), took_s)


def _kept_out(served: bool, more: int, limit: int, closed: bool, took_s: float) -> Seen:
    within = closed and took_s < LIMIT_S
    said = [
        "true clients are served meanwhile" if served else "true clients are kept out",
        f"at most {limit} connections are held" if more <= limit + 8 else f"{more} connections are held",
        "all are closed at their limit" if within else "some stay open",
    ]
    return Seen("; ".join(said), not (served and more <= limit + 8 and within))


async def _slow_request(world: World) -> Seen:
    """A client that has logged in sends a request byte by byte."""
    async with world.raw(CLEAR) as client:
        await log_in(world, client)
        client.writer.write(struct.pack(">i", 2_000))

        async def drip() -> None:
            while not client.writer.is_closing():
                client.writer.write(b"\0")
                await asyncio.sleep(0.2)

        task = asyncio.create_task(drip())
        closed, _ = await client.closed_within(RECEIVE_LIMIT_MS / 1000 + _CLOSED_S)
        task.cancel()
    return Seen("closed at the limit of a request" if closed else "not closed", not closed)


async def _slow_http(world: World) -> Seen:
    """Twice as many clients as there may be connections begin a handshake at the HTTP server."""
    daemon: Daemon = world.controller
    files = world.resources(daemon).files
    began = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    async with _dripping([await world.http_port()], 2 * _HTTP_CONNECTIONS, began) as clients:
        began_s = time.monotonic()
        served = await daemon.get("/readyz", _HTTP_LIMIT_S) is not None
        more = world.resources(daemon).files - files
        closed = await asyncio.gather(*(each.closed_within(LIMIT_S) for each in clients))
        took_s = time.monotonic() - began_s
    return _kept_out(served, more, _HTTP_CONNECTIONS, all(each for each, _ in closed), took_s)


async def _ready(world: World) -> str:
    answer = await world.controller.get("/readyz")
    assert answer is not None, "no answer of /readyz"
    return "/readyz is answered"


async def _versions(world: World) -> str:
    async with world.raw(CLEAR) as client:
        await client.ask(ApiVersionsRequest(), ApiKey.API_VERSIONS, 0)
    return "ApiVersions is answered before the login"


ATTACKS: Final = (
    Attack(OVERSIZED, "before the login: 512 KiB and one byte announced", _versions, frame(BEFORE_LOGIN + 1)),
    Attack(OVERSIZED, "before the login: 600 KiB sent", _versions, frame(600 * 1024, body=600 * 1024)),
    Attack(OVERSIZED, "before the login: 2,147,483,647 bytes announced", _versions, frame(MOST)),
    Attack(OVERSIZED, "before the login: a length of -1", _versions, frame(-1)),
    Attack(OVERSIZED, "before the login: a length of 0", _versions, frame(0)),
    Attack(
        OVERSIZED,
        "after the login: one byte more than socket.request.max.bytes announced",
        guest_is_served,
        frame(MAX_REQUEST_BYTES + 1, logs_in=True),
    ),
    Attack(
        OVERSIZED,
        "after the login: 2,147,483,647 bytes announced and 16 MiB sent",
        guest_is_served,
        frame(MOST, body=16 * _MB, logs_in=True),
    ),
    Attack(OVERSIZED, "after the login: a length of -2,147,483,648", guest_is_served, frame(-MOST - 1, logs_in=True)),
    Attack(
        OVERSIZED,
        "after the login: 20 unfinished requests of 4 MiB, where 8 MiB may be unfinished",
        guest_is_served,
        _many_unfinished,
    ),
    Attack(
        SLOW,
        "240 connections that are silent or send a byte each 200 ms before the login, where 60 may be open",
        guest_is_served,
        _silent,
    ),
    Attack(SLOW, "a request byte by byte after the login", guest_is_served, _slow_request),
    Attack(
        SLOW,
        "256 handshakes of TLS at the HTTP server that do not end, where 128 connections may be open",
        _ready,
        _slow_http,
    ),
)
