"""A whole controller that checks its invariants: a planted violation is a fault, and the controller resigns."""

import asyncio
import logging
from dataclasses import replace

import pytest

from lethe.adapters.kafka.client import KafkaConnection
from lethe.controller.core.context import Role
from lethe.controller.core.events import TopicsChanged
from lethe.controller.runtime.app import ControllerApp
from lethe.controller.runtime.brokers import BrokerConnection
from lethe.protocol.vocabulary import Endpoint
from tests.fakes.runtime import controller_config, reach
from tests.fakes.zookeeper import FakeZooKeeper


async def connect(endpoint: Endpoint) -> BrokerConnection:
    return await KafkaConnection.open(endpoint.host, endpoint.port, "1001", request_timeout_ms=60_000)


@pytest.mark.parametrize("check", [True, False], ids=["checked", "unchecked"])
async def test_a_planted_violation_makes_a_controller_resign_that_checks(
    check: bool, caplog: pytest.LogCaptureFixture
) -> None:
    config = replace(controller_config(), invariants_check=check)
    app = ControllerApp(config, FakeZooKeeper().open_session, connect)
    running = asyncio.create_task(app.run())
    try:
        async with asyncio.timeout(30):
            await app.started.wait()
        await reach(lambda: app.loop.context.role is Role.ACTIVE and app.loop.handling is None)
        with caplog.at_level(logging.ERROR):
            (await app.loop.between_steps()).cluster.offline_partitions += 1
            async with asyncio.timeout(30):
                app.loop.post(TopicsChanged())
                await app.loop.changed()
                # The step that follows a check at once is not checked.
                while check and app.loop.context.role is Role.ACTIVE:
                    app.loop.post(TopicsChanged())
                    await app.loop.changed()
        assert ("offline partitions: 1 counted, there are 0" in caplog.text) is check
        assert app.loop.context.role is (Role.BACKING_OFF if check else Role.ACTIVE)
    finally:
        app.stop("the test is over")
        await asyncio.wait([running], timeout=30)
