"""Tokens and changes over real sockets: what is refused, and what a foreign web page could try."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from lethe.adapters.http import (
    Health,
    HttpServer,
    Reply,
    Request,
    Route,
    Stream,
    json_reply,
    serve_http,
    standard_routes,
)
from lethe.adapters.http_access import Access, HttpAccess, TokenScope
from lethe.adapters.http_listener import HttpLimits
from lethe.adapters.http_token import BearerTokens
from lethe.adapters.security.refusal_counts import RefusalCounts, RefusalReason

LIMIT_S = 30
TOKEN = "0123456789abcdef" * 4
BEARER = {"Authorization": f"Bearer {TOKEN}"}
JSON = {"Content-Type": "application/json"}
SECRET = "orders.of.a.customer"


class Server:
    """A server with a route of each kind, and what it was told to change."""

    def __init__(self) -> None:
        self.changes: list[object] = []
        self.streaming = asyncio.Event()

    def routes(self) -> tuple[Route, ...]:
        unwell = Health(False, (f"log directory /data/{SECRET}-0 is offline",), {"dir": SECRET})
        return (
            *standard_routes(lambda: f'x{{topic="{SECRET}"}} 1\n'.encode(), lambda: unwell, lambda: unwell),
            Route("/state", lambda _: Reply(200, SECRET.encode())),
            Route("/explain/{topic}", lambda _: Reply(200, SECRET.encode())),
            Route("/stream", lambda _: Stream(self._pieces())),
            Route("/change", self._change, Access.CHANGES),
        )

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        while True:
            self.streaming.set()
            yield b"data: 1\n\n"
            await asyncio.sleep(0.01)

    def _change(self, request: Request) -> Reply:
        self.changes.append(request.document)
        return json_reply({"changed": True})


@asynccontextmanager
async def serving(
    token: Path | None,
    scope: TokenScope = TokenScope.ALL,
    limits: HttpLimits = HttpLimits(),  # noqa: B008 - frozen
    refused: RefusalCounts | None = None,
) -> AsyncIterator[tuple[Server, aiohttp.ClientSession]]:
    served = Server()
    access = HttpAccess(None if token is None else BearerTokens(token), scope, refused=refused)
    async with (
        serve_http("127.0.0.1", 0, served.routes(), access=access, limits=limits) as server,
        aiohttp.ClientSession(server.url, timeout=aiohttp.ClientTimeout(LIMIT_S)) as client,
    ):
        yield served, client


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


READS = ("/state", "/metrics", "/explain/orders", "/stream")
WRONG: tuple[dict[str, str], ...] = (
    {},
    {"Authorization": "Bearer " + "f" * 64},
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": TOKEN},
    {"Cookie": f"token={TOKEN}"},
    {"X-Token": TOKEN},
)


@pytest.mark.parametrize("path", READS)
async def test_what_tells_topic_names_needs_the_token_and_a_refusal_gives_no_hint(token: Path, path: str) -> None:
    refused = RefusalCounts(RefusalReason.TOKEN)
    async with serving(token, refused=refused) as (_, client):
        said = set()
        for headers in WRONG:
            async with client.get(path, headers=headers) as response:
                assert response.status == 401
                assert response.headers["WWW-Authenticate"] == 'Bearer realm="lethe"'
                said.add(await response.text())
        async with client.get(f"{path}?token={TOKEN}&access_token={TOKEN}") as response:
            assert response.status == 401, "a token in an address would be logged by proxies"
            said.add(await response.text())
        assert len(said) == 1
        assert SECRET not in said.pop()
        assert refused.by_reason == {RefusalReason.TOKEN: len(WRONG) + 1}
        async with client.get(path, headers=BEARER) as response:
            assert response.status == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_need_no_token_and_are_told_no_names(token: Path, path: str) -> None:
    async with serving(token) as (_, client):
        for headers in WRONG:
            async with client.get(path, headers=headers) as response:
                assert response.status == 503
                assert await response.json() == {"ok": False}
        async with client.get(path, headers=BEARER) as response:
            assert response.status == 503
            assert SECRET in await response.text()
    async with serving(None) as (_, client), client.get(path) as response:
        assert SECRET in await response.text()


async def test_the_token_may_be_for_changes_only(token: Path) -> None:
    async with serving(token, TokenScope.CHANGES) as (served, client):
        for path in READS:
            async with client.get(path) as response:
                assert response.status == 200
        async with client.post("/change", json={"a": 1}) as response:
            assert response.status == 401
        async with client.post("/change", json={"a": 1}, headers=BEARER) as response:
            assert response.status == 200
        assert served.changes == [{"a": 1}]


async def test_a_server_without_a_token_changes_nothing(token: Path) -> None:
    async with serving(None) as (served, client):
        for headers in ({}, BEARER):
            async with client.post("/change", json={}, headers=headers) as response:
                assert response.status == 403
                assert "set lethe.http.token.file" in await response.text()
        assert served.changes == []


async def test_a_token_that_is_replaced_ends_streams_and_requests_with_the_old_one(token: Path) -> None:
    async with serving(token) as (served, client), client.get("/stream", headers=BEARER) as response:
        await asyncio.wait_for(served.streaming.wait(), LIMIT_S)
        new = token.with_suffix(".new")
        new.write_text("f" * 64)
        new.replace(token)
        async with asyncio.timeout(LIMIT_S):
            assert (await response.content.read()).endswith(b"data: 1\n\n")
        async with client.get("/state", headers=BEARER) as refused:
            assert refused.status == 401
        async with client.get("/state", headers={"Authorization": "Bearer " + "f" * 64}) as answered:
            assert answered.status == 200


# --- what a foreign web page could send -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""]
)
async def test_a_change_is_json_which_no_foreign_form_can_send(token: Path, content_type: str) -> None:
    async with serving(token) as (served, client):
        headers = {**BEARER, "Content-Type": content_type}
        async with client.post("/change", data=b'{"a":1}', headers=headers) as response:
            assert response.status == 415
        assert served.changes == []


async def test_a_foreign_page_gets_no_permission_to_ask(token: Path) -> None:
    async with serving(token) as (served, client):
        origin = {"Origin": "https://evil.example"}
        preflight = {
            **origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        async with client.options("/change", headers=preflight) as response:
            assert response.status == 405
            assert not [name for name in response.headers if name.lower().startswith("access-control-")]
        async with client.post("/change", data=b"{}", headers={**origin, **JSON}) as response:
            assert response.status == 401
        async with client.get("/state", headers={**origin, **BEARER}) as response:
            assert not [name for name in response.headers if name.lower().startswith("access-control-")]
            assert "Set-Cookie" not in response.headers
        assert served.changes == []


async def test_nothing_is_changed_by_get_or_under_a_foreign_name(token: Path) -> None:
    async with serving(token) as (served, client):
        async with client.get("/change", headers=BEARER) as response:
            assert response.status == 405
        async with client.post("/change", json={}, headers={**BEARER, "Host": "evil.example"}) as response:
            assert response.status == 403
        async with client.get("/state", headers={**BEARER, "Host": "evil.example"}) as response:
            assert response.status == 403
        assert served.changes == []


# --- documents ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "document,status", [(b"{", 400), (b"", 400), (b"\xff", 400), (b'"' + b"x" * 70_000 + b'"', 413)]
)
async def test_a_document_that_is_none_or_too_large_changes_nothing(token: Path, document: bytes, status: int) -> None:
    async with serving(token) as (served, client):
        async with client.post("/change", data=document, headers={**BEARER, **JSON}) as response:
            assert response.status == status
        assert served.changes == []


@pytest.mark.parametrize("has_token", [True, False])
async def test_a_document_that_never_ends_is_hung_up_on(token: Path, has_token: bool) -> None:
    async with serving(token, limits=HttpLimits(first_request_s=0.3)) as (served, client):
        reader, writer = await asyncio.open_connection(client._base_url.host, client._base_url.port)  # type: ignore[union-attr]
        bearer = f"Authorization: Bearer {TOKEN}\r\n" if has_token else ""
        head = f"POST /change HTTP/1.1\r\nHost: localhost\r\n{bearer}Content-Type: application/json\r\n"
        writer.write(head.encode() + b"Content-Length: 1000\r\n\r\n{")
        try:
            async with asyncio.timeout(LIMIT_S):
                answer = await reader.read()
        finally:
            writer.transport.abort()
        assert answer.startswith(b"HTTP/1.1 408" if has_token else b"HTTP/1.1 401")
        assert served.changes == []


async def test_a_refusal_is_json_with_the_remedy_and_is_logged_without_the_token(
    token: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    guess = "f" * 64
    async with serving(token) as (_, client):
        async with client.get("/state", headers={"Authorization": f"Bearer {guess}"}) as response:
            assert "lethe.http.token.file" in json.loads(await response.text())["error"]
        async with client.get("/state", headers=BEARER) as response:
            assert response.status == 200
    assert "refused an HTTP request of 127.0.0.1 for '/state'" in caplog.text
    assert guess not in caplog.text
    assert TOKEN not in caplog.text


async def test_the_server_of_a_test_has_the_url_of_its_kind() -> None:
    assert HttpServer("::1", 8080).url == "http://[::1]:8080"
    assert HttpServer("controller-1", 8080, has_tls=True).url == "https://controller-1:8080"
