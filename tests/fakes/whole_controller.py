"""A whole controller with a listener inside the test's event loop, and connections to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.zookeeper.interface import OpenSession
from lethe.admin import rescue_control
from lethe.controller.core.context import Role
from lethe.controller.core.scope import Scope
from lethe.controller.runtime.app import ControllerApp
from lethe.controller.runtime.brokers import BrokerConnection
from lethe.controller.runtime.configuration import ControllerConfig
from lethe.protocol.vocabulary import Endpoint
from tests.fakes.runtime import controller_config, reach
from tests.fakes.zookeeper import FakeZooKeeper

HERE = (Endpoint("PLAINTEXT", "127.0.0.1", 0),)


async def connect(endpoint: Endpoint) -> BrokerConnection:
    return await KafkaConnection.open(endpoint.host, endpoint.port, "1001", request_timeout_ms=60_000)


def made_by_commands(monkeypatch: pytest.MonkeyPatch, zookeeper: FakeZooKeeper) -> list[ControllerApp]:
    """Controllers that commands start are on this ZooKeeper; they are in the list that is returned."""
    made: list[ControllerApp] = []

    def application(config: ControllerConfig, *, scope: Scope, cache_look_rest: int, holds_id: bool) -> ControllerApp:
        opening = cast(OpenSession, zookeeper.open_session)
        made.append(
            ControllerApp(config, opening, connect, scope=scope, cache_look_rest=cache_look_rest, holds_id=holds_id)
        )
        return made[-1]

    monkeypatch.setattr(rescue_control, "application", application)
    return made


@asynccontextmanager
async def controller(zookeeper: FakeZooKeeper, number: int = 1001) -> AsyncIterator[ControllerApp]:
    app = ControllerApp(controller_config(number, listeners=HERE), zookeeper.open_session, connect)
    task = asyncio.create_task(app.run(), name=f"controller-{number}")
    try:
        async with asyncio.timeout(30):
            await app.started.wait()
        yield app
    finally:
        app.stop("the test is over")
        app.stop("at once")
        await asyncio.wait([task], timeout=30)
        task.cancel()
        await asyncio.wait([task])


async def becomes(app: ControllerApp, role: Role) -> None:
    await reach(lambda: app.loop.context.role is role)


async def connected_to(app: ControllerApp) -> KafkaConnection:
    """As a broker or a client connects to the controller's listener."""
    (endpoint,) = app.endpoints
    return await KafkaConnection.open(endpoint.host, endpoint.port, "1", request_timeout_ms=60_000)
