"""Requests to the HTTP servers: for names that an attacker owns, without a token, and for paths that lead elsewhere."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from lethe.cluster.daemons import Daemon
from tests.attacks.attack import Attack, Attempt, Seen
from tests.attacks.setting import FOREIGN_HOST
from tests.attacks.world import World

REBINDING: Final = "DNS rebinding"
UNAUTHENTICATED: Final = "unauthenticated HTTP"
TRAVERSAL: Final = "path traversal"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")
OPEN_PATHS: Final = ("/", "/board", "/paths", "/healthz", "/readyz")
"""These and the board's scripts tell nothing about the cluster."""
_OPEN_ENDS: Final = (".js", ".css")
_ANSWER_S: Final = 15.0


class Answer(NamedTuple):
    """Status 0: closed without an answer."""

    status: int
    body: bytes


async def send(world: World, daemon: Daemon, request: str | bytes, *, tls: bool = True) -> Answer:
    """Send the bytes on a connection of their own, and return what comes within some seconds."""
    port = await world.http_port(daemon)
    context = world.setting.client_context() if tls else None
    received = bytearray()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(request if isinstance(request, bytes) else request.encode())
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(_ANSWER_S):
                while data := await reader.read(65_536):
                    received += data
    finally:
        if not writer.is_closing():
            writer.transport.abort()
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    return Answer(int(words[1]) if words[0].startswith(b"HTTP/") else 0, body)


def request(target: str, *headers: str, method: str = "GET", host: str | None = "Host: 127.0.0.1") -> str:
    lines = [f"{method} {target} HTTP/1.1", *([] if host is None else [host]), "Connection: close", *headers]
    return "\r\n".join(lines) + "\r\n\r\n"


def bearer(world: World) -> str:
    assert world.setting.http.token_file is not None
    return f"Authorization: Bearer {world.setting.http.token_file.read_text().strip()}"


async def with_the_token(world: World) -> str:
    """Control: with the token, both daemons answer."""
    for daemon in world.cluster.daemons:
        answer = await send(world, daemon, request("/metrics", bearer(world)))
        assert answer.status == 200, f"{daemon.name}: {answer.status}"
    return "with the token, to an allowed host: 200"


# --- DNS rebinding ------------------------------------------------------------------------------------------------


def rebound(*hosts: str, target: str = "/metrics") -> Attempt:
    """Return an attempt: a request with these Host lines and the token, which a page could have been given."""

    async def attempt(world: World) -> Seen:
        lines = [f"Host: {host}" for host in hosts]
        asked = request(target, *lines[1:], bearer(world), host=lines[0])
        answers = [await send(world, daemon, asked) for daemon in world.cluster.daemons]
        return _seen(answers)

    return attempt


async def _rebound_without_token(world: World) -> Seen:
    asked = request("/readyz", host=f"Host: {FOREIGN_HOST}")
    return _seen([await send(world, daemon, asked) for daemon in world.cluster.daemons])


def _seen(answers: Sequence[Answer]) -> Seen:
    return Seen(_statuses(answers), any(200 <= each.status < 300 for each in answers))


def _statuses(answers: Sequence[Answer]) -> str:
    found = sorted({each.status for each in answers})
    return "answered with " + ", ".join("nothing" if status == 0 else str(status) for status in found)


# --- without a token ----------------------------------------------------------------------------------------------


async def routes(world: World, daemon: Daemon) -> list[str]:
    """Return all paths that the server lists, with a topic where they have a part."""
    answer = await send(world, daemon, request("/paths"))
    assert answer.status == 200, answer
    return [line.replace("{topic}", "orders") for line in answer.body.decode().split()]


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.endswith(_OPEN_ENDS)


async def _every_method(world: World) -> Seen:
    """All methods on all paths; what is open may be read."""
    answers: list[Answer] = []
    for daemon in world.cluster.daemons:
        for path in await routes(world, daemon):
            for method in METHODS:
                if _is_open(path) and method in ("GET", "HEAD"):
                    continue
                body = ("Content-Type: application/json", "Content-Length: 0")
                answers.append(await send(world, daemon, request(path, *body, method=method)))
    return _seen(answers)


def _reading(headers: Callable[[World], Sequence[str]], query: Callable[[World], str] = lambda _: "") -> Attempt:
    """Return an attempt: all that tells something about the cluster is asked in this way."""

    async def attempt(world: World) -> Seen:
        answers: list[Answer] = []
        for daemon in world.cluster.daemons:
            guarded = [path for path in await routes(world, daemon) if not _is_open(path)]
            answers += [await send(world, daemon, request(path + query(world), *headers(world))) for path in guarded]
        return _seen(answers)

    return attempt


def _token(world: World) -> str:
    return bearer(world).rpartition(" ")[2]


def _basic(world: World) -> str:
    return "Authorization: Basic " + base64.b64encode(f"lethe:{_token(world)}".encode()).decode()


async def _reasons(world: World) -> Seen:
    """What is open must not tell more than whether the daemon is ready."""
    answers = [await send(world, daemon, request("/readyz")) for daemon in world.cluster.daemons]
    told = any(b"reasons" in each.body or b"role" in each.body for each in answers)
    return Seen(f"{_statuses(answers)}, and {'reasons' if told else 'no reasons'}", told)


async def _without_tls(world: World) -> Seen:
    """A request without TLS; the server must not answer it."""
    daemons = world.cluster.daemons
    return _seen([await send(world, daemon, request("/readyz"), tls=False) for daemon in daemons])


# --- paths --------------------------------------------------------------------------------------------------------

UP: Final = "../" * 12
PATHS: Final = (
    f"/explain/{UP}etc/passwd",
    f"/explain/{UP.replace('/', '%2f')}etc%2fpasswd",
    f"/explain/{UP.replace('../', '%2e%2e%2f')}etc%2fpasswd",
    "/explain/..%252f..%252fetc%252fpasswd",
    "/explain/..%5c..%5cetc%5cpasswd",
    "/explain/%00",
    "/explain/orders%00.json",
    "/explain/%c0%ae%c0%ae%c0%afetc%c0%afpasswd",
    "/deletions/..%2f..%2foutside%2forders-0%2f00000000000000000000.log",
    f"/board/{UP}etc/passwd",
    "/board/%2e%2e/admin.py",
    "/board/..%2f..%2fadmin.py",
    "//etc/passwd",
    f"/{UP}etc/passwd",
    "/" + "a" * 7_000,
)
_CONTENTS: Final = (b"root:", b"not of this agent", b"class AdminPages")


async def _paths(world: World) -> Seen:
    answers = [
        await send(world, daemon, request(path, bearer(world))) for daemon in world.cluster.daemons for path in PATHS
    ]
    is_read = any(content in each.body for each in answers for content in _CONTENTS)
    found = Seen(f"{_statuses(answers)}, and no file", False)
    return Seen("a file is sent", True) if is_read else found


HOSTS: Final[tuple[tuple[str, Attempt], ...]] = (
    (f"Host: {FOREIGN_HOST}, with the token", rebound(FOREIGN_HOST)),
    ("the same with a port", rebound(f"{FOREIGN_HOST}:8080")),
    ("the same in capital letters, with a dot at the end", rebound(f"{FOREIGN_HOST.upper()}.")),
    (f"a foreign name that begins with an address: 127.0.0.1.{FOREIGN_HOST}", rebound(f"127.0.0.1.{FOREIGN_HOST}")),
    (f"a foreign name that begins with an address of IPv6: [::1].{FOREIGN_HOST}", rebound(f"[::1].{FOREIGN_HOST}")),
    (f"a foreign name that begins with localhost: localhost.{FOREIGN_HOST}", rebound(f"localhost.{FOREIGN_HOST}")),
    ("a foreign name with a user: 127.0.0.1@" + FOREIGN_HOST, rebound(f"127.0.0.1@{FOREIGN_HOST}")),
    ("two Host lines, the allowed one first", rebound("127.0.0.1", FOREIGN_HOST)),
    ("two Host lines, the foreign one first", rebound(FOREIGN_HOST, "127.0.0.1")),
    (
        "a request target with a foreign name, and an allowed Host",
        rebound("127.0.0.1", target=f"http://{FOREIGN_HOST}/metrics"),
    ),
)
ATTACKS: Final = (
    *(
        Attack(REBINDING, sent, with_the_token, attempt, "foreign host allowed" if index == 0 else None)
        for index, (sent, attempt) in enumerate(HOSTS)
    ),
    Attack(
        REBINDING, f"Host: {FOREIGN_HOST}, without the token, of what is open", with_the_token, _rebound_without_token
    ),
    Attack(
        UNAUTHENTICATED,
        f"{len(METHODS)} methods on every path, without the token",
        with_the_token,
        _every_method,
        "reading without token",
    ),
    Attack(
        UNAUTHENTICATED,
        "a wrong token",
        with_the_token,
        _reading(lambda _: [f"Authorization: Bearer {'0' * 64}"]),
    ),
    Attack(
        UNAUTHENTICATED,
        "the token in the query",
        with_the_token,
        _reading(lambda _: [], lambda world: f"?token={_token(world)}&access_token={_token(world)}"),
    ),
    Attack(
        UNAUTHENTICATED,
        "the token in a cookie",
        with_the_token,
        _reading(lambda world: [f"Cookie: token={_token(world)}; Authorization={_token(world)}"]),
    ),
    Attack(UNAUTHENTICATED, "the token as a password (Basic)", with_the_token, _reading(lambda world: [_basic(world)])),
    Attack(
        UNAUTHENTICATED,
        "the token beside a wrong one",
        with_the_token,
        _reading(lambda world: [f"Authorization: Bearer {'0' * 64}", bearer(world)]),
    ),
    Attack(UNAUTHENTICATED, "/readyz without the token", with_the_token, _reasons),
    Attack(UNAUTHENTICATED, "a request without TLS", with_the_token, _without_tls),
    Attack(TRAVERSAL, f"{len(PATHS)} paths of HTTP that lead out of theirs, with the token", with_the_token, _paths),
)
