"""A whole agent inside the test's event loop, and clients that talk to it over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.zookeeper.interface import OpenSession
from lethe.broker.runtime.app import AgentApp
from lethe.broker.runtime.configuration import BrokerConfig, load_broker_config
from lethe.broker.runtime.disk import Disk
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch
from lethe.protocol.zookeeper.operations import Create, WatchFired
from lethe.protocol.zookeeper.paths import controller, controller_epoch
from lethe.protocol.zookeeper.znodes import ControllerZnode, encode_controller, encode_controller_epoch


def agent_config(root: Path, connect: str = "127.0.0.1:1", broker_id: int = 1, **more: str | int) -> BrokerConfig:
    """An agent with directories `a` and `b` under `root`; `more` has further properties, `_` for `.`."""
    environ = {
        "KAFKA_BROKER_ID": str(broker_id),
        "KAFKA_ZOOKEEPER_CONNECT": connect,
        "KAFKA_LOG_DIRS": f"{root / 'a'},{root / 'b'}",
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "KAFKA_LOG_SEGMENT_DELETE_DELAY_MS": "60000",
        **{f"KAFKA_{name.upper()}": str(value) for name, value in more.items()},
    }
    return load_broker_config(None, environ)


async def note_controller_epoch(open_session: OpenSession, epoch: int = 5, controller_id: int = 9) -> None:
    """Write `/controller` and `/controller_epoch` where there are none, so that agents obey a test that speaks for that
    controller; without more, it is the one of `tests.unit.broker.core.driver`."""
    async with open_session(ignore_watch) as session:
        await session.multi([Create(controller(), encode_controller(ControllerZnode(BrokerId(controller_id), 0)))])
        await session.multi([Create(controller_epoch(), encode_controller_epoch(ControllerEpoch(epoch)))])


def ignore_watch(_: WatchFired) -> None:
    """Tests that ask once need no watch."""


@asynccontextmanager
async def running(config: BrokerConfig, open_session: OpenSession, disk: Disk | None = None) -> AsyncIterator[AgentApp]:
    """The agent, registered and serving; stopped at the end, when it must end well. Unless the test has written
    `/controller_epoch` before, controller 9 has epoch 5."""
    await note_controller_epoch(open_session)
    app = AgentApp(config, open_session, disk=disk)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(app.run(), name="agent-under-test")
        started = tasks.create_task(app.started.wait())
        await asyncio.wait((run, started), return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert app.started.is_set(), f"the agent did not start: {run}"
        try:
            yield app
        finally:
            app.stop("the test is over")


@asynccontextmanager
async def connected(app: AgentApp) -> AsyncIterator[KafkaConnection]:
    """A connection to the agent's first listener."""
    (endpoint, *_) = app.endpoints
    async with await KafkaConnection.open(
        endpoint.host, endpoint.port, "test", request_timeout_ms=60_000
    ) as connection:
        yield connection
