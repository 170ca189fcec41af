"""The board's stream of a whole controller over a fake ZooKeeper and brokers of real sockets."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lethe.adapters.clock import SystemClock
from lethe.adapters.http import Route, Stream, serve_http
from lethe.controller.core.context import Role
from lethe.controller.runtime.app import ControllerApp, ExitCode
from lethe.controller.runtime.board.document import Document, Rows
from lethe.controller.runtime.board.feed import MAX_PENDING_BYTES, BoardFeed
from lethe.controller.runtime.configuration import load_controller_config
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import decode_controller
from tests.fakes.board_scene import Scene, quiet_scene
from tests.fakes.broken_broker import Act
from tests.fakes.certificates import Authority
from tests.fakes.runtime import controller_config, reach
from tests.unit.controller.runtime.board.test_document import applied

LIMIT_S = 30.0
TOKEN = "0123456789abcdef" * 4


class Reader:
    """Reads server-sent events, and applies them as the page does."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.model: dict[str, Any] = {"values": {}, "lists": {}}
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.last_id = ""

    async def next(self) -> tuple[str, dict[str, Any]]:
        """The next event; IncompleteReadError where the stream has ended."""
        name, data = "", ""
        async with asyncio.timeout(LIMIT_S):
            while True:
                line = (await self._response.content.readuntil(b"\n")).decode()
                match line.rstrip("\n").partition(": "):
                    case "event", _, name:
                        pass
                    case "data", _, data:
                        self.sizes.append(len(line))
                    case "id", _, self.last_id:
                        pass
                    case "", _, _ if name:
                        break
                    case _:
                        pass
        said = json.loads(data)
        self.names.append(name)
        if name in ("snapshot", "delta"):
            self.model = applied(self.model if name == "delta" else {"values": {}, "lists": {}}, said)
        return name, said

    def counts(self) -> dict[str, int]:
        names = ("held", "queued", "started", "acknowledged", "removing", "done")
        lists = self.model["lists"]
        return {name: lists[name]["count"] for name in names if name in lists and lists[name]["count"]}

    async def until(self, **counts: int) -> None:
        """Read on until the columns hold so many topics."""
        async with asyncio.timeout(LIMIT_S):
            while self.counts() != counts:
                await self.next()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with quiet_scene() as found:
        yield found


async def test_a_snapshot_and_then_what_changes(scene: Scene) -> None:
    async with aiohttp.ClientSession(scene.url) as client, client.get("/board/events") as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        reader = Reader(response)
        name, _ = await reader.next()
        assert name == "snapshot"
        assert reader.model["values"]["controller"]["role"] == "active"
        await reach(lambda: len(scene.app.loop.context.cluster.brokers) == 3)
        topics = await scene.create(30, 1, 2)
        waiting = await scene.create(3, 1, 4)
        await scene.settled(66)
        await scene.mark([*topics, *waiting])
        await reader.until(started=3, done=30)
        card = reader.model["lists"]["started"]["rows"][waiting[0]]
        # What a card says of the core's memory comes with the look after the one in which it came.
        while not card["waits"] or reader.model["lists"]["brokers"]["rows"].get("4", {}).get("replicas") != 6:
            await reader.next()
            card = reader.model["lists"]["started"]["rows"][waiting[0]]
        assert (card["replicas"], card["broker"], card["cause"]) == (4, 4, "BROKER_TO_RETURN")
        assert card["note"] == "waits for broker 4, which is not registered in ZooKeeper"
        assert reader.model["lists"]["brokers"]["rows"]["4"]["status"] == "not registered"
        assert reader.model["lists"]["terms"]["count"] == 1
        assert set(reader.names) == {"snapshot", "delta"}
        number = reader.last_id
    again = {"Last-Event-ID": number}
    async with (
        aiohttp.ClientSession(scene.url, headers=again) as client,
        client.get("/board/events") as response,
    ):
        reader = Reader(response)
        assert (await reader.next())[0] == "snapshot"
        assert reader.counts() == {"started": 3, "done": 30}


async def test_an_unreadable_topic_is_not_said_to_be_in_service(scene: Scene) -> None:
    (held,) = await scene.create(1, 1, data=b"{not json")
    await scene.mark([held])
    async with aiohttp.ClientSession(scene.url) as client, client.get("/board/events") as response:
        reader = Reader(response)
        await reader.next()
        await reader.until(held=1)
        note = reader.model["lists"]["held"]["rows"][held]["note"]
        assert note.startswith("out of service, waits for its znode to be readable (not JSON")


async def test_many_topics_are_shown_in_part_and_found_by_the_server(scene: Scene) -> None:
    names = await scene.create(300, 1, 4, partitions=1)
    await scene.settled(300)
    await scene.mark(names)
    await reach(lambda: len(scene.app.loop.context.cluster.deletions) == 300)
    async with aiohttp.ClientSession(scene.url) as client:
        async with client.get("/board/events") as response:
            reader = Reader(response)
            await reader.until(started=300)
            async with asyncio.timeout(LIMIT_S):
                # A look during a step of the core has cards and no groups, nor their list before the first.
                while not reader.model["lists"].get("groups", {"rows": {}})["rows"]:
                    await reader.next()
            assert list(reader.model["lists"]["started"]["rows"]) == list(scene.app.loop.context.cluster.deletions)[:20]
            (group,) = reader.model["lists"]["groups"]["rows"].values()
            assert (group["phase"], group["broker"], group["topics"], group["waits"]) == ("started", 4, 300, True)
            assert max(reader.sizes) < 60_000
        async with client.get("/board/topics", params={"search": names[299].upper()}) as response:
            found = await response.json()
            assert (found["lists"]["started"]["order"], found["lists"]["queued"]["count"]) == ([names[299]], 0)
            assert found["lists"]["started"]["rows"][names[299]]["waits"] is True
        async with client.get("/board/topics", params={"search": "x" * 250}) as response:
            assert response.status == 400


async def test_the_page_and_its_policy(scene: Scene) -> None:
    async with aiohttp.ClientSession(scene.url) as client:
        for path in ("/", "/board"):
            async with client.get(path) as response:
                assert response.headers["Content-Type"] == "text/html; charset=utf-8"
                assert "default-src 'none'" in response.headers["Content-Security-Policy"]
                assert "unsafe" not in response.headers["Content-Security-Policy"]
                text = await response.text()
                assert "<style" not in text
                assert "onclick" not in text
        async with client.get("/paths") as response:
            assert "/explain/{topic}" in (await response.text()).splitlines()


async def test_with_a_token_and_tls_only_the_empty_page_is_open(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "token").write_text(TOKEN)
    store = authority.issue().pem_file(tmp_path / "server.pem")
    lines = {
        "broker.id": "1",
        "zookeeper.connect": "localhost",
        "lethe.http.token.file": str(tmp_path / "token"),
        "lethe.http.ssl.keystore.location": str(store),
        "lethe.http.ssl.keystore.type": "PEM",
    }
    file = tmp_path / "controller.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    trust = ssl.create_default_context(cafile=authority.pem_file(tmp_path / "ca.pem"))
    async with quiet_scene(http=load_controller_config(file, {}).http) as scene:
        (topic,) = await scene.create(1, 1, 4)
        await scene.settled(2)
        await scene.mark([topic])
        await reach(lambda: topic in scene.app.loop.context.cluster.deletions)
        assert scene.url.startswith("https://127.0.0.1:")
        (znode,) = await scene.session.read([GetData(paths.CONTROLLER)])
        assert isinstance(znode, Data)
        assert decode_controller(znode.data).admin == scene.url
        connector = aiohttp.TCPConnector(ssl=trust)
        async with aiohttp.ClientSession(scene.url, connector=connector) as client:
            async with client.get("/paths") as response:
                listed = [path.replace("{topic}", topic) for path in (await response.text()).split()]
            opened = []
            for path in listed:
                async with client.get(path) as response:
                    assert response.status in (200, 401), path
                    if response.status == 200:
                        opened.append(path)
                        assert topic not in await response.text(), path
            board = [
                f"/board/{name}" for name in ("page.css", "page.js", "parts.js", "explain.js", "ask.js", "theme.js")
            ]
            assert opened == ["/", "/board", *board, "/healthz", "/readyz"]
            async with client.get("/board/events", headers={"Authorization": f"Bearer {TOKEN}"}) as response:
                reader = Reader(response)
                await reader.until(started=1)
                assert topic in reader.model["lists"]["started"]["rows"]


async def test_it_stops_at_once_although_pages_watch(scene: Scene) -> None:
    async with aiohttp.ClientSession(scene.url) as client, client.get("/board/events") as response:
        reader = Reader(response)
        await reader.next()
        scene.app.stop("SIGTERM")
        async with asyncio.timeout(LIMIT_S):
            while (await reader.next())[0] != "closing":
                pass
            assert await response.content.read() == b""
            assert await scene.task == ExitCode.STOPPED


async def test_a_standby_says_who_leads_and_where(scene: Scene) -> None:
    zookeeper = scene.session._zookeeper
    other = ControllerApp(controller_config(1002), zookeeper.open_session, scene.app._connect)
    task = asyncio.create_task(other.run(), name="standby")
    try:
        await other.started.wait()
        await reach(lambda: other.loop.context.role is Role.STANDING_BY)
        assert other.http is not None
        async with aiohttp.ClientSession(other.http.url) as client, client.get("/board/events") as response:
            reader = Reader(response)
            await reader.next()
            while reader.model["values"]["controller"]["active_url"] != scene.url:
                await reader.next()
            shown = reader.model["values"]["controller"]
            assert (shown["leads"], shown["active_controller"]) == (False, 1001)
            assert next(iter(reader.model["lists"]["terms"]["rows"].values()))["controller"] == 1001
            scene.app.stop("SIGTERM")
            while not reader.model["values"]["controller"]["leads"]:
                await reader.next()
            assert reader.model["values"]["controller"]["active_url"] is None or other.loop.context.is_leading
    finally:
        other.stop("the test is over")
        other.stop("at once")
        await asyncio.wait([task], timeout=LIMIT_S)


# --- the feed alone -------------------------------------------------------------------------------------------------


class Looking:
    """A document that grows with each look."""

    def __init__(self, text: str = "") -> None:
        self.looks = 0
        self.text = text

    def __call__(self) -> Document:
        self.looks += 1
        return Document({"number": self.looks}, {"held": Rows(1, {"t": {"note": f"{self.looks}{self.text}"}})})


async def _watched(feed: BoardFeed) -> AsyncGenerator[aiohttp.ClientSession, None]:
    runner = asyncio.create_task(feed.run())
    routes = [Route("/events", lambda _: Stream(feed.stream(), write_limit_s=2.0))]
    try:
        async with serve_http("127.0.0.1", 0, routes) as server, aiohttp.ClientSession(server.url) as client:
            yield client
            runner.cancel()
            await asyncio.wait([runner])
    finally:
        runner.cancel()


async def test_one_look_for_all_and_none_for_nobody() -> None:
    looking = Looking()
    feed = BoardFeed(looking, SystemClock(), interval_s=0.01, max_watchers=12)
    async with aclosing(_watched(feed)) as running:
        client = await anext(running)
        assert looking.looks == 0
        responses = [await client.get("/events") for _ in range(12)]
        readers = [Reader(response) for response in responses]
        for reader in readers:
            for _ in range(5):
                await reader.next()
        assert all(reader.names == ["snapshot", *["delta"] * 4] for reader in readers)
        assert feed.watchers == 12
        refused = Reader(await client.get("/events"))
        name, said = await refused.next()
        assert (name, "12 pages" in said["why"]) == ("refused", True)
        for response in responses:
            response.close()
        await reach(lambda: feed.watchers == 0)
        looks = looking.looks
        await asyncio.sleep(0.05)
        assert looking.looks <= looks + 1


async def test_calm_is_told_by_a_beat() -> None:
    feed = BoardFeed(lambda: Document({"same": 1}), SystemClock(), interval_s=0.01, beat_s=0.02)
    async with aclosing(_watched(feed)) as running:
        client = await anext(running)
        reader = Reader(await client.get("/events"))
        assert [(await reader.next())[0] for _ in range(3)] == ["snapshot", "beat", "beat"]


async def test_a_failing_look_ends_nothing() -> None:
    looking = Looking()

    def look() -> Document:
        if looking.looks == 2:
            looking.looks += 1
            raise RuntimeError("odd")
        return looking()

    feed = BoardFeed(look, SystemClock(), interval_s=0.01)
    async with aclosing(_watched(feed)) as running:
        reader = Reader(await (await anext(running)).get("/events"))
        for _ in range(4):
            await reader.next()
        assert reader.model["values"]["number"] >= 4


async def test_a_reader_who_takes_nothing_is_let_go_of_and_the_others_notice_nothing() -> None:
    feed = BoardFeed(Looking("x" * 100_000), SystemClock(), interval_s=0.01)
    async with aclosing(_watched(feed)) as running:
        client = await anext(running)
        host, port = str(client._base_url.host), client._base_url.port or 0  # type: ignore[union-attr]
        slow = socket.create_connection((host, port))
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        await reach(lambda: feed.watchers == 1)
        quick = Reader(await client.get("/events"))
        await quick.next()
        async with asyncio.timeout(LIMIT_S):
            while feed.watchers == 2:
                await quick.next()
        await quick.next()
        assert feed.watchers == 1
        slow.close()


async def test_what_waits_for_a_reader_is_bounded_and_ends_with_a_word() -> None:
    feed = BoardFeed(Looking("x" * 60_000), SystemClock(), interval_s=0.001)
    stream = feed.stream()
    runner = asyncio.create_task(feed.run())
    try:
        assert (await anext(stream)).startswith(b"retry: 2000\nevent: snapshot\nid: ")
        (watcher,) = feed._watchers
        await reach(lambda: watcher.is_over)
        assert sum(map(len, watcher._pending)) < MAX_PENDING_BYTES
        left = [piece async for piece in stream]
        assert [piece.split(b"\n")[0] for piece in left] == [b"event: dropped"]
        assert feed.watchers == 0
    finally:
        runner.cancel()


async def test_a_held_broker_shows_its_backlog(scene: Scene) -> None:
    names = await scene.create(20, 1, 3)
    await scene.settled(40)
    scene.brokers[2].acts.extend([Act.HOLD] * 4)
    await scene.mark(names)
    async with aiohttp.ClientSession(scene.url) as client, client.get("/board/events") as response:
        reader = Reader(response)
        await reader.until(started=20)
        while reader.model["lists"]["brokers"]["rows"]["3"]["replicas"] != 40:
            await reader.next()
        row = reader.model["lists"]["brokers"]["rows"]["3"]
        assert (row["status"], row["requests"] > 0, row["bytes"] > 0) == ("registered", True, True)
        scene.brokers[2].acts.clear()
        scene.brokers[2].released.set()
        await reader.until(done=20)
