"""What systemd would be told, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import pytest

from lethe.adapters.http import Health
from lethe.adapters.kafka.client import ConnectionFailed
from lethe.adapters.service_manager import ServiceManager, service_manager, status_line
from lethe.broker.runtime.app import AgentApp
from lethe.cluster.process import ChildProcess
from lethe.controller.core.events import BrokersChanged
from lethe.controller.runtime import admin
from lethe.controller.runtime.app import ControllerApp
from lethe.controller.runtime.brokers import BrokerConnection
from lethe.protocol.vocabulary import Endpoint
from tests.fakes.agents import agent_config
from tests.fakes.runtime import controller_config, reach
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper

ROOT: Final = Path(__file__).parents[2]
BLOCKED_WATCHDOG_S: Final = 0.6
WELL = Health(True, (), {"role": "active"})


async def connect(endpoint: Endpoint) -> BrokerConnection:
    raise ConnectionFailed(f"there is no broker at {endpoint}")


class Manager:
    """Systemd's end of the socket."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.told: list[str] = []

    def lines(self) -> list[str]:
        """Everything that has been told so far, line by line."""
        while True:
            try:
                self.told += self._listening.recv(10_000).decode().split("\n")
            except BlockingIOError:
                return self.told

    async def is_silent_for(self, limit_s: float) -> bool:
        """Nothing is told in that time. What was told before has to be taken by `lines`."""
        try:
            async with asyncio.timeout(limit_s):
                self.told += (await asyncio.get_running_loop().sock_recv(self._listening, 10_000)).decode().split("\n")
        except TimeoutError:
            return True
        return False


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield Manager(listening)


@asynccontextmanager
async def reporting(
    service: ServiceManager, health: Callable[[], Health], ready: Callable[[], Health]
) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(service.report(health, ready))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_it_is_ready_once_and_says_what_it_is_at_when_that_changes(manager: Manager, tmp_path: Path) -> None:
    ready = Health(False, ("no ZooKeeper session: refused",), {"role": "starting"})
    service = ServiceManager(str(tmp_path / "notify"), watchdog_s=0.03)
    async with reporting(service, lambda: WELL, lambda: ready):
        await reach(lambda: manager.lines().count("WATCHDOG=1") > 2)
        ready = WELL
        await reach(lambda: "STATUS=ready, role active" in manager.lines())
    assert manager.told[:2] == ["READY=1", "STATUS=not ready, role starting: no ZooKeeper session: refused"]
    assert manager.told.count("READY=1") == 1
    assert sum(line.startswith("STATUS=") for line in manager.told) == 2


async def test_who_is_not_well_gives_no_sign_of_life(manager: Manager, tmp_path: Path) -> None:
    looked = 0

    def stuck() -> Health:
        nonlocal looked
        looked += 1
        return Health(False, ("the event in progress has taken 301 s",))

    async with reporting(ServiceManager(str(tmp_path / "notify"), watchdog_s=0.03), stuck, lambda: WELL):
        await reach(lambda: looked > 3)
    assert manager.lines() == ["READY=1", "STATUS=ready, role active"]


async def test_without_a_watchdog_there_are_no_signs_of_life(manager: Manager, tmp_path: Path) -> None:
    async with reporting(ServiceManager(str(tmp_path / "notify")), lambda: WELL, lambda: WELL):
        await reach(lambda: bool(manager.lines()))
    assert manager.told == ["READY=1", "STATUS=ready, role active"]


async def test_names_in_the_abstract_space_are_reached() -> None:
    name = f"lethe-test-{os.getpid()}-{id(object())}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name)
        listening.setblocking(False)
        manager = Manager(listening)
        async with reporting(ServiceManager("@" + name), lambda: WELL, lambda: WELL):
            await reach(lambda: "READY=1" in manager.lines())


async def test_where_nobody_listens_it_is_logged_once_and_it_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    looked = 0

    def health() -> Health:
        nonlocal looked
        looked += 1
        return WELL

    with caplog.at_level(logging.WARNING):
        async with reporting(ServiceManager(str(tmp_path / "nobody"), watchdog_s=0.03), health, lambda: WELL) as task:
            await reach(lambda: looked > 3)
            assert not task.done()
    (line,) = caplog.messages
    assert f"NOTIFY_SOCKET={tmp_path / 'nobody'}" in line


async def test_without_a_service_manager_it_ends_at_once() -> None:
    await ServiceManager().report(lambda: WELL, lambda: WELL)


@pytest.mark.parametrize(
    "environ,watchdog_s",
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
    ],
)
def test_the_environment_says_where_and_how_often(environ: dict[str, str], watchdog_s: float | None) -> None:
    expected = ServiceManager("/run/notify", watchdog_s)
    assert vars(service_manager({"NOTIFY_SOCKET": "/run/notify", **environ})) == vars(expected)


def test_a_status_is_one_line() -> None:
    assert status_line(Health(False, ("first\nline", "second"), {})) == "not ready: first line; second"
    assert status_line(Health(True, (), {"broker": 1})) == "ready, broker 1"
    assert len(status_line(Health(False, ("x" * 5_000,), {}))) == 1_000


async def test_a_controller_tells_its_role(manager: Manager, tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    service = ServiceManager(str(tmp_path / "notify"), watchdog_s=0.03)
    app = ControllerApp(controller_config(1001), zookeeper.open_session, connect, manager=service)
    task = asyncio.create_task(app.run())
    try:
        await reach(lambda: "STATUS=ready, role active" in manager.lines())
    finally:
        app.stop("the test is over")
        await asyncio.wait([task], timeout=30)
    assert task.result() == 0
    assert manager.lines()[0] == "READY=1"
    assert "WATCHDOG=1" in manager.told


async def test_an_event_that_does_not_end_ends_the_signs_of_life(
    manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop goes on, so that it is /healthz that says so."""
    zookeeper, answered = FakeZooKeeper(), asyncio.Event()
    service = ServiceManager(str(tmp_path / "notify"), watchdog_s=0.03)
    app = ControllerApp(controller_config(1001), zookeeper.open_session, connect, manager=service)
    task = asyncio.create_task(app.run())

    async def unanswered(_: FakeSession) -> None:
        await answered.wait()

    try:
        await reach(lambda: "STATUS=ready, role active" in manager.lines() and app.loop.handling is None)
        monkeypatch.setattr(FakeSession, "_turn", unanswered)
        monkeypatch.setattr(admin, "STUCK_AFTER_S", 0.05)
        app.loop.post(BrokersChanged())
        await reach(lambda: app.loop.standing_s > 0.05)
        manager.lines()
        assert app.http is not None
        async with aiohttp.ClientSession() as client, client.get(f"{app.http.url}/healthz") as response:
            assert (response.status, "the event in progress has stood still" in await response.text()) == (503, True)
        assert await manager.is_silent_for(0.2)
    finally:
        answered.set()
        app.stop("the test is over")
        await asyncio.wait([task], timeout=30)
    assert task.result() == 0


async def test_an_agent_is_up_before_zookeeper_is(manager: Manager, tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    zookeeper.unavailable = "the test wants it so"
    service = ServiceManager(str(tmp_path / "notify"))
    app = AgentApp(agent_config(tmp_path / "data"), zookeeper.open_session, manager=service)
    task = asyncio.create_task(app.run())
    try:
        await reach(lambda: bool(manager.lines()))
    finally:
        app.stop("the test is over")
        await asyncio.wait([task], timeout=30)
    assert task.result() == 0
    assert manager.told[0] == "READY=1"
    assert manager.told[1].startswith("STATUS=not ready, broker 1: ")


@pytest.mark.parametrize("daemon", ["controller", "agent"])
async def test_one_whose_event_loop_stands_still_gives_no_sign_of_life(
    daemon: str, manager: Manager, tmp_path: Path
) -> None:
    """Nothing of it runs any more, nor does another thread speak for it; so systemd ends it, with SIGKILL at last."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "WATCHDOG_USEC": str(int(BLOCKED_WATCHDOG_S * 1e6)),
    }
    command = (sys.executable, "-m", "tests.fakes.blocked_daemon", daemon, str(tmp_path / "data"))
    child = ChildProcess(daemon, command, log_file=tmp_path / "log", environment=environment)
    child.start()
    try:
        await reach(lambda: manager.lines().count("WATCHDOG=1") > 2 and _url(child), 90)
        url = _url(child)
        assert url is not None
        async with aiohttp.ClientSession() as client, client.get(f"{url}/healthz") as response:
            assert response.status == 200
        assert child.pid is not None
        os.kill(child.pid, signal.SIGUSR1)
        await reach(lambda: "blocked" in child.output().splitlines())
        manager.lines()
        where = urlsplit(url)
        reading, writing = await asyncio.open_connection(where.hostname, where.port)
        writing.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = asyncio.create_task(_answer(reading), name="what /healthz answers")
        assert await manager.is_silent_for(BLOCKED_WATCHDOG_S)
        os.kill(child.pid, signal.SIGTERM)
        assert await manager.is_silent_for(BLOCKED_WATCHDOG_S), "WatchdogSignal= wakes nobody"
        assert child.is_running
        assert not answer.done()
        await child.kill()
        assert child.exit_code == -signal.SIGKILL
        assert await answer == b""
        writing.close()
    finally:
        await child.stop(0.0)
        child.close()


async def _answer(reading: asyncio.StreamReader) -> bytes:
    """What it begins with; nothing where the connection ends without."""
    try:
        return await reading.read(16)
    except ConnectionResetError:
        return b""


def _url(child: ChildProcess) -> str | None:
    """Where it answers; None until it has said so."""
    return next((line for line in child.output().splitlines() if line.startswith("http://")), None)
