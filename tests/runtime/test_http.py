import aiohttp
import pytest

from lethe.adapters.http import (
    AddressUnavailable,
    Health,
    Reply,
    Request,
    Route,
    json_reply,
    serve_http,
    standard_routes,
)


def _echo(request: Request) -> Reply:
    return json_reply({"topic": request.parts["topic"], "verbose": request.query.get("verbose")})


async def _later(_: Request) -> Reply:
    return Reply(200, b"later")


def _broken(_: Request) -> Reply:
    raise LookupError("no such topic")


async def test_routes_answer_and_the_rest_is_404() -> None:
    async with (
        serve_http("127.0.0.1", 0, [Route("/explain/{topic}", _echo), Route("/later", _later)]) as server,
        aiohttp.ClientSession(server.url) as client,
    ):
        assert server.port > 0
        async with client.get("/explain/orders?verbose=1") as response:
            assert await response.json() == {"topic": "orders", "verbose": "1"}
        async with client.get("/later") as response:
            assert await response.text() == "later"
        async with client.get("/") as response:
            assert await response.text() == "/explain/{topic}\n/later\n"
        async with client.get("/missing") as response:
            assert response.status == 404


async def test_standard_routes_say_what_is_wrong() -> None:
    routes = standard_routes(
        lambda: b"up 1\n", lambda: Health(True), lambda: Health(False, ("no ZooKeeper session",), {"role": "standby"})
    )
    async with serve_http("127.0.0.1", 0, routes) as server, aiohttp.ClientSession(server.url) as client:
        async with client.get("/metrics") as response:
            assert (await response.text(), response.headers["Content-Type"]) == (
                "up 1\n",
                "text/plain; version=0.0.4; charset=utf-8",
            )
        async with client.get("/healthz") as response:
            assert response.status == 200
        async with client.get("/readyz") as response:
            assert response.status == 503
            assert await response.json() == {"ok": False, "reasons": ["no ZooKeeper session"], "role": "standby"}


async def test_a_failing_handler_answers_500_and_the_server_stays() -> None:
    async with (
        serve_http("127.0.0.1", 0, [Route("/broken", _broken), Route("/later", _later)]) as server,
        aiohttp.ClientSession(server.url) as client,
    ):
        async with client.get("/broken") as response:
            assert response.status == 500
            assert "no such topic" in await response.text()
        async with client.get("/later") as response:
            assert response.status == 200


async def test_a_port_in_use_is_a_clear_error() -> None:
    async with serve_http("127.0.0.1", 0, []) as server:
        with pytest.raises(AddressUnavailable, match=f"127.0.0.1:{server.port}: the port is in use"):
            async with serve_http("127.0.0.1", server.port, []):
                pass


async def test_the_port_is_free_again_afterwards() -> None:
    async with serve_http("127.0.0.1", 0, []) as server:
        port = server.port
    async with serve_http("127.0.0.1", port, []) as again:
        assert again.port == port
