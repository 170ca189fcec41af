"""Accepts HTTP connections, and limits their number and the time that they wait.

Theory of operation. aiohttp waits without limit for the rest of a request, and accepts any number of connections. So
connections are accepted here and passed to aiohttp. A connection is *answering* from the end of its request until the
answer is written, and otherwise *waiting*.

    event                                              action
    has not finished its TLS handshake                 closed after `first_request_s`
    waits for its first request, or for its rest       closed after `first_request_s`
    waits for another request                          closed after `idle_s`
    more than `max_connections` connections            the longest waiting one is closed; if all are answering, the
                                                       new one is
    the process may open no more files (EMFILE)        logged once; a spare descriptor is released for the new
                                                       connection, then the longest waiting one is closed

So a process without free descriptors still answers `/healthz`, and a thousand incomplete requests or handshakes block
nobody. Handshakes run beside the accepting, and count as waiting connections.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from lethe.adapters.peers import accept, peer_of_socket
from lethe.adapters.security.audit import AuditLog
from lethe.adapters.security.handshakes import handshake_problem, shows_refusal
from lethe.adapters.security.refusal_counts import RefusalCounts, RefusalReason

logger = logging.getLogger(__name__)

_BACKLOG: Final = 128
_SPARE: Final = 4
_TICK_S: Final = 1.0
_NO_ROOM_PAUSE_S: Final = 0.1
_TLS_CLOSE_S: Final = 1.0

TlsContext = Callable[[], ssl.SSLContext]
"""Returns the context for the next connection, so that a renewed certificate is used without a restart. It is called in
a thread, since it may read files."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_connections: int = 128
    first_request_s: float = 10.0
    idle_s: float = 75.0
    """Longer than a scraper's interval, so that its connection is reused."""


class HttpListener:
    """The listening sockets of one HTTP server, and the state of its connections."""

    def __init__(self, limits: HttpLimits, tls: TlsContext | None, refused: RefusalCounts) -> None:
        """`refused` counts handshakes that one side refused."""
        self._refused = refused
        self._refusals = AuditLog(logger)
        self._limits = limits
        self._tls = tls
        self._server: web.Server | None = None
        self._sockets: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._answering: dict[RequestHandler, None] = {}
        self._waiting_since_s: dict[RequestHandler, float] = {}
        self._answered_once: dict[RequestHandler, None] = {}
        self._handshakes: dict[asyncio.Task[None], float] = {}
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
        tasks = (*self._tasks, *self._handshakes)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
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
        while True:
            accepted = await accept(listening, self._make_room)
            if not self._has_room():
                accepted.close()
            elif self._tls is None:
                await self._connect(accepted, None)
            else:
                self._begin_handshake(accepted, self._tls)

    def _has_room(self) -> bool:
        assert self._server is not None
        taken = len(self._server.connections) + len(self._handshakes)
        return taken < self._limits.max_connections or self._close_longest_waiting()

    def _begin_handshake(self, accepted: socket.socket, tls: TlsContext) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._handshake(accepted, tls), name="http-door-handshake")
        self._handshakes[task] = loop.time()
        task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _handshake(self, accepted: socket.socket, tls: TlsContext) -> None:
        try:
            # It may read files.
            context = await asyncio.to_thread(tls)
        except Exception:
            logger.exception("an HTTP connection is closed, because there is no usable certificate")
            accepted.close()
            return
        except asyncio.CancelledError:
            accepted.close()
            raise
        await self._connect(accepted, context)

    async def _connect(self, accepted: socket.socket, context: ssl.SSLContext | None) -> None:
        """Pass the connection to aiohttp, after its TLS handshake if there is a context."""
        loop = asyncio.get_running_loop()
        peer = peer_of_socket(accepted)
        # Made here, since uvloop returns its own protocol for TLS, not the factory's.
        handler = self._protocol()
        try:
            if context is None:
                await loop.connect_accepted_socket(lambda: handler, accepted)
            else:
                await loop.connect_accepted_socket(
                    lambda: handler,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=self._limits.first_request_s,
                    ssl_shutdown_timeout=_TLS_CLOSE_S,
                )
        except OSError as error:
            logger.debug("an HTTP connection was closed before its first request: %s", error)
            if shows_refusal(error):
                self._refused.note(RefusalReason.TLS)
                problem = handshake_problem(error, str(peer), prefix="lethe.http.")
                self._refusals.note(peer.host, f"refused an HTTP client at {problem}")
            if context is None:
                # With a context the transport closes it.
                accepted.close()
            return
        # The handshake may have taken longer than a look at idle connections.
        self._waiting_since_s.setdefault(handler, loop.time())

    def _protocol(self) -> RequestHandler:
        assert self._server is not None
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
        """Close the connection or handshake that has waited longest; False if there is none."""
        handler = min(self._waiting(), key=self._waiting_since_s.__getitem__, default=None)
        handshake = next(iter(self._handshakes), None)
        if handler is not None and (handshake is None or self._waiting_since_s[handler] <= self._handshakes[handshake]):
            _abort(handler)
            self._waiting_since_s.pop(handler, None)
            return True
        if handshake is None:
            return False
        handshake.cancel()
        # It counts no longer, although its task ends a moment later.
        del self._handshakes[handshake]
        return True

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
