"""Two ZooKeepers with one interface: the model behind the fake session, and a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import OpenSession, ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.protocol.zookeeper.operations import Exists, Read, ReadOutcome, WatchFired
from tests.fakes.tcp_proxy import Fault, Stage, TcpProxy, opcode
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_fixtures import own_zookeeper, zookeeper_chroot, zookeeper_server

__all__ = ["own_zookeeper", "zookeeper_chroot", "zookeeper_server"]


@dataclass
class Client:
    """A session and the watches that have gone off in it."""

    session: ZooKeeperSession
    fired: list[WatchFired] = field(default_factory=list)

    async def take_fired(self) -> list[WatchFired]:
        """All watches that went off because of what has been answered so far: events precede later answers."""
        await self.session.read([Exists("/")])
        taken = list(self.fired)
        self.fired.clear()
        return taken


Clients = Callable[[], AbstractAsyncContextManager[Client]]


def clients_of(opener: OpenSession) -> Clients:
    """How a test gets as many clients as it likes."""

    @asynccontextmanager
    async def client() -> AsyncIterator[Client]:
        fired: list[WatchFired] = []
        async with opener(fired.append) as session:
            yield Client(session, fired)

    return client


def real_opener(connect_string: str) -> OpenSession:
    """Sessions on a real server."""
    config = ZooKeeperConfig(parse_connect_string(connect_string), session_timeout_ms=10_000)
    return lambda on_watch: open_session(config, on_watch)


@pytest.fixture(params=["model", pytest.param("real", marks=pytest.mark.zookeeper)])
def zookeeper(request: pytest.FixtureRequest) -> FakeZooKeeper | str:
    """The model, then the connect string of a real server."""
    return FakeZooKeeper() if request.param == "model" else str(request.getfixturevalue("zookeeper_chroot"))


@pytest.fixture
def clients(zookeeper: FakeZooKeeper | str) -> Clients:
    """Clients of the model, then clients of a real server."""
    return clients_of(real_opener(zookeeper) if isinstance(zookeeper, str) else zookeeper.open_session)


Meanwhile = Callable[[], Awaitable[None]]


@dataclass
class Interrupted(Client):
    """A client between whose bulk reads and the arming of their watches something can happen."""

    proxy: TcpProxy | None = None

    async def read(self, reads: Sequence[Read], meanwhile: Meanwhile) -> list[ReadOutcome]:
        """The outcomes of reads whose watches are armed after `meanwhile`."""
        if isinstance(self.session, FakeSession):
            self.session.before_watches = meanwhile
            outcomes = await self.session.read(reads)
            self.session.before_watches = None
            return outcomes
        assert self.proxy is not None
        self.proxy.harm(Stage.BEFORE_REQUEST, Fault.DELAY, when=opcode(SET_WATCHES))
        reading = asyncio.ensure_future(self.session.read(reads))
        await self.proxy.harmed(1)
        await meanwhile()
        assert not reading.done()
        self.proxy.release()
        return await reading


SET_WATCHES = 101


@pytest.fixture
async def interrupted(zookeeper: FakeZooKeeper | str) -> AsyncIterator[Interrupted]:
    """One such client of the model, then of a real server."""
    fired: list[WatchFired] = []
    if not isinstance(zookeeper, str):
        async with zookeeper.open_session(fired.append) as session:
            yield Interrupted(session, fired)
        return
    address, _, chroot = zookeeper.partition("/")
    async with (
        TcpProxy("127.0.0.1", int(address.rsplit(":", 1)[1])) as proxy,
        real_opener(f"127.0.0.1:{proxy.port}/{chroot}")(fired.append) as real,
    ):
        yield Interrupted(real, fired, proxy)
