"""Two ZooKeepers with one interface: the model behind the fake session, and a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from adapters.zookeeper.interface import OpenSession, ZooKeeperSession
from adapters.zookeeper.session import open_session
from protocol.zookeeper.operations import Exists, WatchFired
from tests.fakes.zookeeper import FakeZooKeeper
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
def clients(request: pytest.FixtureRequest) -> Clients:
    """Clients of the model, then clients of a real server."""
    if request.param == "model":
        return clients_of(FakeZooKeeper().open_session)
    return clients_of(real_opener(request.getfixturevalue("zookeeper_chroot")))
