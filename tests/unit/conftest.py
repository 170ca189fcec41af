"""A fake ZooKeeper with the znodes of a small cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import prepare


@pytest.fixture
def zookeeper() -> FakeZooKeeper:
    return FakeZooKeeper()


@pytest.fixture
async def session(zookeeper: FakeZooKeeper) -> AsyncIterator[FakeSession]:
    """A session in a cluster of brokers 1, 2 and 3 on three racks."""
    async with zookeeper.open_session(lambda _: None) as session:
        await prepare(session, {1: "a", 2: "b", 3: "c"})
        yield session
