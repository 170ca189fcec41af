"""HTTP server of a daemon: metrics, health, readiness, and views of the daemon's state.

A request passes, in this order: TLS if it is configured; the limits on connections in number and time
(`adapters.http_listener`); the host name, which no attacker may own (`adapters.http_hosts`); the token, if its route
needs one (`adapters.http_access`); for a change its document. If a handler raises, the answer is 500 with the error's
name, and the daemon continues. A stream lasts as long as its source and its token; a reader that stalls beyond a limit
is disconnected.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, cast

import orjson
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler as WebHandler
from aiohttp.typedefs import Middleware

from lethe.adapters.http_access import CHALLENGE, Access, AccessRefused, HttpAccess
from lethe.adapters.http_hosts import AllowedHosts
from lethe.adapters.http_listener import HttpLimits, HttpListener, TlsContext

logger = logging.getLogger(__name__)

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
METRICS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of Prometheus' text format."""
EVENT_STREAM: Final = "text/event-stream; charset=utf-8"
INDEX: Final = "/paths"
"""Lists the paths; `/` does so too if no route uses it."""
_CLOSE_LIMIT_S: Final = 1.0
_WRITE_LIMIT_S: Final = 5.0
_MAX_DOCUMENT_BYTES: Final = 64 * 1024
_MAX_REFUSED_NAMES: Final = 20
"""Each is logged once. The limit is needed because an attacker can invent any number of names."""
_MAX_SHOWN: Final = 100
_ADD_THE_NAME: Final = "if it is a name of this machine, add it to lethe.http.allowed.hosts"


@dataclass(frozen=True, slots=True)
class Request:
    """A handler's argument: `parts` are the values of `{name}` in its path."""

    path: str
    query: Mapping[str, str]
    parts: Mapping[str, str]
    document: object = None
    """The JSON of a change."""
    may_know_reasons: bool = True
    """False: an open answer must not tell reasons."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer in pieces, each sent as soon as it is produced. The source is closed when the reader disconnects."""

    pieces: AsyncGenerator[bytes, None]
    content_type: str = EVENT_STREAM
    write_limit_s: float = _WRITE_LIMIT_S
    """A reader that takes nothing for so long is disconnected."""


Answer = Reply | Stream
Handler = Callable[[Request], Answer | Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """A path (`/explain/{topic}` has a part) and its handler: for POST if it changes something, else for GET."""

    path: str
    handler: Handler
    access: Access = Access.READS


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a process is healthy, and the reasons if not, as sentences for users."""

    ok: bool
    reasons: tuple[str, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)


class AddressUnavailable(Exception):
    """The daemon cannot listen on its address; the message names the address and a remedy."""


class HttpServer:
    """A listening server; `port` is the actual port."""

    __slots__ = ("has_tls", "host", "port")

    def __init__(self, host: str, port: int, *, has_tls: bool = False) -> None:
        self.host = host
        self.port = port
        self.has_tls = has_tls

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.has_tls else 'http'}://{host}:{self.port}"


def json_reply(document: object, status: int = 200) -> Reply:
    """Return the document as indented JSON."""
    return Reply(status, orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + b"\n", JSON)


def health_reply(health: Health, *, with_reasons: bool = True) -> Reply:
    """Return 200 if healthy, else 503; the body contains the reasons if it may."""
    document: dict[str, object] = {"ok": health.ok}
    if with_reasons:
        document |= {"reasons": list(health.reasons), **health.details}
    return json_reply(document, 200 if health.ok else 503)


def standard_routes(
    metrics: Callable[[], bytes | Awaitable[bytes]], health: Callable[[], Health], ready: Callable[[], Health]
) -> tuple[Route, ...]:
    """Return `/metrics` (Prometheus text), `/healthz` (the process works) and `/readyz` (it can do its job now)."""

    async def scrape(_: Request) -> Reply:
        text = metrics()
        return Reply(200, text if isinstance(text, bytes) else await text, METRICS_TEXT)

    return (
        Route("/metrics", scrape),
        Route("/healthz", lambda each: health_reply(health(), with_reasons=each.may_know_reasons), Access.OPEN),
        Route("/readyz", lambda each: health_reply(ready(), with_reasons=each.may_know_reasons), Access.OPEN),
    )


def _serve(
    route: Route, access: HttpAccess, body_limit_s: float
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        authorization = request.headers.getall("Authorization", ())
        if refused := access.refusal(route.access, authorization):
            return _refusal(request, refused, access)
        document: object = None
        if route.access is Access.CHANGES:
            found = await _document(request, body_limit_s)
            if isinstance(found, AccessRefused):
                return _refusal(request, found, access)
            document = found
        asked = Request(
            request.path, dict(request.query), dict(request.match_info), document, access.tells_reasons(authorization)
        )
        reply = await _reply(route, asked)
        if isinstance(reply, Stream):
            return await _send(request, reply, lambda: access.refusal(route.access, authorization) is None)
        headers = {"Content-Type": reply.content_type, **reply.headers}
        return web.Response(status=reply.status, body=reply.body, headers=headers)

    return answer


async def _reply(route: Route, asked: Request) -> Answer:
    try:
        found = route.handler(asked)
        return await found if inspect.isawaitable(found) else found
    except Exception as error:
        logger.exception("HTTP request for %s failed", asked.path)
        return json_reply({"error": f"{type(error).__name__}: {error}"}, 500)


def _refusal(request: web.Request, refused: AccessRefused, access: HttpAccess) -> web.Response:
    headers = {"Content-Type": JSON, "Cache-Control": "no-store"}
    if refused.status == 401:
        headers["WWW-Authenticate"] = CHALLENGE
        access.note_refused(request.remote or "an unknown address", request.path)
    response = web.Response(
        status=refused.status, body=orjson.dumps({"error": refused.message}) + b"\n", headers=headers
    )
    # What is left of its body is not waited for.
    if request.can_read_body:
        response.force_close()
    return response


async def _document(request: web.Request, limit_s: float) -> object | AccessRefused:
    """Return the JSON in the body of a change, or how the request is refused."""
    if request.content_type != JSON:
        return AccessRefused(415, f"a change needs the header 'Content-Type: {JSON}'")
    try:
        async with asyncio.timeout(limit_s):
            return cast(object, orjson.loads(await request.read()))
    except TimeoutError:
        return AccessRefused(408, f"the document was not complete within {limit_s:g} s")
    except web.HTTPRequestEntityTooLarge:
        return AccessRefused(413, f"the document is larger than {_MAX_DOCUMENT_BYTES} bytes")
    except orjson.JSONDecodeError as error:
        return AccessRefused(400, f"the document is not JSON: {error}")


async def _send(request: web.Request, stream: Stream, is_allowed: Callable[[], bool]) -> web.StreamResponse:
    """Send the pieces while the request is allowed: its token may be withdrawn meanwhile."""
    response = web.StreamResponse(headers={"Content-Type": stream.content_type, "Cache-Control": "no-store"})
    async with aclosing(stream.pieces) as pieces:
        try:
            await response.prepare(request)
            async for piece in pieces:
                if not is_allowed():
                    logger.info("the reader of %s is disconnected: its token is not accepted any more", request.path)
                    break
                async with asyncio.timeout(stream.write_limit_s):
                    await response.write(piece)
        except ConnectionError:
            logger.debug("the reader of %s has disconnected", request.path)
        except TimeoutError:
            logger.info("the reader of %s has stalled: the connection is closed", request.path)
            if request.transport is not None:
                request.transport.abort()
        except Exception:
            # The head of the answer is sent, so its status cannot change any more.
            logger.exception("HTTP GET %s failed on the way", request.path)
    return response


def _indexes(routes: Sequence[Route]) -> tuple[Route, ...]:
    """Return the routes that list all paths, at INDEX and `/` unless these are taken."""
    listing = "".join(f"{route.path}\n" for route in routes).encode()
    taken = {route.path for route in routes}
    return tuple(Route(path, lambda _: Reply(200, listing), Access.OPEN) for path in ("/", INDEX) if path not in taken)


def _named_host(request: web.Request) -> str | None:
    """Return the host that the request names; one in the target (`GET http://host/path`) counts before the header."""
    target = request.raw_path
    return request.headers.get("Host") if target.startswith(("/", "*")) else request.url.host


def _guard(door: HttpListener, hosts: AllowedHosts) -> Middleware:
    """Return middleware that refuses foreign host names and marks connections as answering."""
    refused: dict[str, None] = {}

    @web.middleware
    async def guard(request: web.Request, handler: WebHandler) -> web.StreamResponse:
        host = _named_host(request)
        if not hosts.allow(host):
            if host is not None and host not in refused and len(refused) < _MAX_REFUSED_NAMES:
                refused[host] = None
                logger.warning("refused HTTP requests for the name %r: %s", host[:_MAX_SHOWN], _ADD_THE_NAME)
            return web.Response(status=403, text=f"this server does not answer for that host name: {_ADD_THE_NAME}\n")
        with door.answering(request.protocol):
            return await handler(request)

    return guard


def _server_logger() -> logging.Logger:
    """Return the logger of aiohttp's server. What a client sends wrongly is logged for debugging only: a client could
    fill the log with tracebacks."""
    server_logger = logging.getLogger(f"{__name__}.server")
    server_logger.addFilter(_is_our_fault)
    return server_logger


def _is_our_fault(record: logging.LogRecord) -> bool:
    failure = record.exc_info[1] if record.exc_info else None
    return not isinstance(failure, HttpProcessingError) or logger.isEnabledFor(logging.DEBUG)


@asynccontextmanager
async def serve_http(
    host: str,
    port: int,
    routes: Sequence[Route],
    *,
    names: Iterable[str] = (),
    limits: HttpLimits = HttpLimits(),  # noqa: B008 - frozen
    access: HttpAccess | None = None,
    tls: TlsContext | None = None,
) -> AsyncIterator[HttpServer]:
    """Serve the routes, and the list of paths, until the block is left.

    `names` are allowed in the Host header in addition. `access`: None asks for no token and changes nothing. `tls`:
    returns the context of each new connection; None serves plain HTTP. Raises AddressUnavailable if the server cannot
    listen.
    """
    access = HttpAccess() if access is None else access
    door = HttpListener(limits, tls, access.refused)
    application = web.Application(
        middlewares=[_guard(door, AllowedHosts.of_this_machine(names))], client_max_size=_MAX_DOCUMENT_BYTES
    )
    for route in (*routes, *_indexes(routes)):
        router = application.router
        add = router.add_post if route.access is Access.CHANGES else router.add_get
        add(route.path, _serve(route, access, limits.first_request_s))
    runner = web.AppRunner(
        application,
        logger=_server_logger(),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=_CLOSE_LIMIT_S,
        lingering_time=_CLOSE_LIMIT_S,
    )
    await runner.setup()
    try:
        assert runner.server is not None
        try:
            bound_port = await door.open(host, port, runner.server)
        except OSError as error:
            raise AddressUnavailable(_why_not(host, port, error)) from error
        yield HttpServer(host, bound_port, has_tls=tls is not None)
    finally:
        await door.close()
        await runner.cleanup()


def _why_not(host: str, port: int, error: OSError) -> str:
    where = f"cannot serve HTTP on {host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: the port is in use by another process; choose another port (0 takes any free one)"
    if error.errno == errno.EACCES:
        return f"{where}: not permitted; ports below 1024 need privileges"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where}: this machine has no such address"
    return f"{where}: {error.strerror or error}"
