"""Accepts HTTP connections, and limits their number and the time that they wait.

Theory of operation. aiohttp waits without limit for the rest of a request, and accepts any number of connections. So
connections are accepted here and passed to aiohttp. A connection is *answering* from the end of its request until the
answer is written, and otherwise *waiting*.

    event                                              action
    waits for its first request, or for its rest       closed after `first_request_s`
    waits for another request                          closed after `idle_s`
    more than `max_connections` connections            the longest waiting one is closed; if all are answering, the
                                                       new one is
    the process may open no more files (EMFILE)        logged once; a spare descriptor is released for the new
                                                       connection, then the longest waiting one is closed

So a process without free descriptors still answers `/healthz`, and a thousand incomplete requests block nobody.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

logger = logging.getLogger(__name__)

_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BACKLOG: Final = 128
_SPARE: Final = 4
_TICK_S: Final = 1.0
_NO_ROOM_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_connections: int = 128
    first_request_s: float = 10.0
    idle_s: float = 75.0
    """Longer than a scraper's interval, so that its connection is reused."""


class _Refused(asyncio.Protocol):
    """Closes a connection above the limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class HttpListener:
    """The listening sockets of one HTTP server, and the state of its connections."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._server: web.Server | None = None
        self._sockets: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._answering: dict[RequestHandler, None] = {}
        self._waiting_since_s: dict[RequestHandler, float] = {}
        self._answered_once: dict[RequestHandler, None] = {}
        self._spare: list[int] = []
        self._has_no_room = False

    async def open(self, host: str, port: int, server: web.Server) -> int:
        """Start to accept connections; return the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = server
        try:
            # A numeric address needs no look-up, and so no thread.
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(found):
            self._sockets.append(_listening(family, address))
        self._fill_spare()
        for index, listening in enumerate(self._sockets):
            self._tasks.append(loop.create_task(self._accept(listening), name=f"http-door-{index}"))
        self._tasks.append(loop.create_task(self._tick(), name="http-door-ticker"))
        return int(self._sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop accepting; the server closes the accepted connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        for descriptor in self._spare:
            os.close(descriptor)
        self._spare.clear()

    @contextmanager
    def answering(self, handler: RequestHandler) -> Iterator[None]:
        """Protect the connection from being closed while its request is being answered."""
        self._answering[handler] = None
        try:
            yield
        finally:
            del self._answering[handler]
            self._answered_once[handler] = None
            self._waiting_since_s[handler] = asyncio.get_running_loop().time()

    # --- accepting ------------------------------------------------------------------------------------------------

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in _NO_ROOM:
                    await self._make_room(error)
                continue
            try:
                await loop.connect_accepted_socket(self._protocol, accepted)
            except OSError:
                accepted.close()

    def _protocol(self) -> asyncio.BaseProtocol:
        assert self._server is not None
        if len(self._server.connections) >= self._limits.max_connections and not self._close_longest_waiting():
            return _Refused()
        handler = self._server()
        self._waiting_since_s[handler] = asyncio.get_running_loop().time()
        return handler

    async def _make_room(self, error: OSError) -> None:
        """Release a descriptor for the connection that waits in the kernel."""
        if not self._has_no_room:
            self._has_no_room = True
            logger.error(
                "no further file or connection can be opened (%s): HTTP is answered with %d descriptors that were kept "
                "for this, everything else fails; raise the limit (ulimit -n, LimitNOFILE=), or lower max.connections",
                errno.errorcode.get(error.errno or 0, "error"),
                _SPARE,
            )
        if self._spare:
            os.close(self._spare.pop())
            return
        self._close_longest_waiting()
        await asyncio.sleep(_NO_ROOM_PAUSE_S)

    def _close_longest_waiting(self) -> bool:
        assert self._server is not None
        for handler in sorted(self._waiting(), key=lambda each: self._waiting_since_s.get(each, 0.0)):
            _abort(handler)
            self._waiting_since_s.pop(handler, None)
            return True
        return False

    def _waiting(self) -> list[RequestHandler]:
        assert self._server is not None
        return [
            each
            for each in self._server.connections
            if each not in self._answering and each in self._waiting_since_s and each.transport is not None
        ]

    # --- periodically ---------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(min(_TICK_S, self._limits.first_request_s / 2))
            self._close_idle()
            self._fill_spare()

    def _close_idle(self) -> None:
        assert self._server is not None
        now_s = asyncio.get_running_loop().time()
        there = dict.fromkeys(self._server.connections)
        for known in (self._waiting_since_s, self._answered_once):
            for handler in [each for each in known if each not in there]:
                del known[handler]
        for handler in self._waiting():
            limit_s = self._limits.idle_s if handler in self._answered_once else self._limits.first_request_s
            if now_s - self._waiting_since_s[handler] >= limit_s:
                _abort(handler)

    def _fill_spare(self) -> None:
        try:
            while len(self._spare) < _SPARE:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return
        if self._has_no_room:
            self._has_no_room = False
            logger.info("files and connections can be opened again")


def _abort(handler: RequestHandler) -> None:
    if handler.transport is not None:
        handler.transport.abort()


def _listening(family: int, address: object) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)  # type: ignore[arg-type]
        made.listen(_BACKLOG)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
