"""A whole controller with a listener: how brokers find it, and what they are told when it does not lead."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from lethe.adapters.http import serve_http
from lethe.adapters.kafka.client import ConnectionFailed, KafkaConnection
from lethe.controller.core.context import Role
from lethe.controller.core.events import BrokerRequested, BrokersChanged
from lethe.controller.runtime.app import ControllerApp, ExitCode
from lethe.protocol.kafka.control import UpdateMetadataRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import Response
from lethe.protocol.kafka.to_controller import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, MultiDone
from tests.fakes.broken_broker import FakeBroker
from tests.fakes.runtime import controller_config, reach
from tests.fakes.whole_controller import becomes, connect, connected_to, controller
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper

SHUTDOWN = ControlledShutdownRequest(BrokerId(1), BrokerEpoch(7))
ALTER = AlterPartitionRequest(BrokerId(1), BrokerEpoch(7), ())


@asynccontextmanager
async def first_active(zookeeper: FakeZooKeeper) -> AsyncIterator[ControllerApp]:
    """Controller 1001, which leads before another one is started."""
    async with controller(zookeeper, 1001) as app:
        await becomes(app, Role.ACTIVE)
        yield app


async def register(session: FakeSession, number: int, endpoint: Endpoint) -> None:
    registration = Broker(BrokerId(number), BrokerEpoch(-1), (endpoint,))
    await session.ensure_path(paths.BROKER_IDS)
    data = znodes.encode_broker(registration, timestamp_ms=1)
    done = await session.multi([Create(paths.broker_id(BrokerId(number)), data, ephemeral=True)])
    assert isinstance(done, MultiDone)


async def ends(connection: KafkaConnection) -> None:
    with pytest.raises(ConnectionFailed):
        await connection.request(SHUTDOWN, 3)


async def test_brokers_are_told_where_it_is_among_the_live_ones() -> None:
    zookeeper = FakeZooKeeper()
    async with (
        FakeBroker() as broker,
        zookeeper.open_session(lambda _: None) as session,
        controller(zookeeper) as app,
    ):
        await becomes(app, Role.ACTIVE)
        await register(session, 1, broker.endpoint)
        await reach(lambda: any(isinstance(each, UpdateMetadataRequest) for each in broker.requests))
        told = next(each for each in broker.requests if isinstance(each, UpdateMetadataRequest))
        assert {each.id: each.endpoints for each in told.live_brokers} == {1: (broker.endpoint,), 1001: app.endpoints}
        assert told.controller_id == 1001
        assert list(app.loop.context.cluster.brokers) == [1]


async def test_one_that_stands_by_says_so_and_stays_connected() -> None:
    zookeeper = FakeZooKeeper()
    async with first_active(zookeeper), controller(zookeeper, 1002) as two:
        await becomes(two, Role.STANDING_BY)
        async with await connected_to(two) as broker:
            for _ in range(2):
                assert await broker.request(ALTER, 3) == AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)
                assert await broker.request(SHUTDOWN, 3) == ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)


async def test_one_without_zookeeper_says_that_it_does_not_lead() -> None:
    zookeeper = FakeZooKeeper()
    zookeeper.unavailable = "connection refused"
    async with controller(zookeeper) as app, await connected_to(app) as broker:
        assert await broker.request(ALTER, 3) == AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)


async def test_one_that_resigns_closes_the_connections_of_brokers() -> None:
    zookeeper = FakeZooKeeper()
    async with controller(zookeeper) as app, await connected_to(app) as broker:
        await becomes(app, Role.ACTIVE)
        await broker.request(SHUTDOWN, 3)
        zookeeper.expire(app.loop.context.session_id)
        await reach(lambda: app.loop.context.cluster.epoch == 2)
        await ends(broker)


async def test_a_fault_closes_the_connections_of_brokers() -> None:
    zookeeper = FakeZooKeeper()
    async with controller(zookeeper) as app, await connected_to(app) as broker:
        await becomes(app, Role.ACTIVE)
        await broker.request(SHUTDOWN, 3)
        app.loop.fault(LookupError("planted"), "a test")
        await reach(lambda: app.loop.context.role is Role.BACKING_OFF)
        await ends(broker)


async def test_a_request_that_waits_when_the_session_is_lost_is_refused() -> None:
    zookeeper = FakeZooKeeper()
    async with controller(zookeeper) as app, await connected_to(app) as broker:
        await becomes(app, Role.ACTIVE)
        (session,) = zookeeper.sessions.values()
        # The core waits for an answer that does not come, and the request behind it.
        session.disconnect()
        app.loop.post(BrokersChanged())
        await reach(lambda: app.loop.context.awaiting_result)
        async with asyncio.TaskGroup() as group:
            answer: asyncio.Task[Response] = group.create_task(broker.request(ALTER, 3))
            await reach(lambda: any(isinstance(each, BrokerRequested) for each in app.loop.queue.events))
            zookeeper.expire(app.loop.context.session_id)
            assert await answer == AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)
        await ends(broker)


async def test_no_verdict_is_given_by_one_that_may_have_lost_its_session_unheard() -> None:
    zookeeper = FakeZooKeeper()
    async with controller(zookeeper) as app, await connected_to(app) as broker:
        await becomes(app, Role.ACTIVE)
        (session,) = zookeeper.sessions.values()
        session.out_of_touch = True
        assert await broker.request(ALTER, 3) == AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)
        await ends(broker)


async def test_a_port_in_use_is_said_and_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    async with serve_http("127.0.0.1", 0, []) as server:
        taken = (Endpoint("PLAINTEXT", "127.0.0.1", server.port),)
        app = ControllerApp(controller_config(listeners=taken), FakeZooKeeper().open_session, connect)
        assert await asyncio.wait_for(app.run(), 30) == ExitCode.CANNOT_START
    assert "in `listeners`" in caplog.text


async def test_what_brokers_ask_is_measured() -> None:
    zookeeper = FakeZooKeeper()
    async with first_active(zookeeper), controller(zookeeper, 1002) as app, await connected_to(app) as broker:
        await becomes(app, Role.STANDING_BY)
        await broker.request(SHUTDOWN, 3)
        assert app.http is not None
        async with aiohttp.ClientSession(app.http.url) as client, client.get("/metrics") as response:
            text = await response.text()
        assert 'kafka_network_requestmetrics_totaltimems_count{request="ControlledShutdown"} 1.0' in text
        labels = 'error="STALE_CONTROLLER_EPOCH",request="ControlledShutdown"'
        assert f"kafka_network_requestmetrics_errorspersec_count{{{labels}}} 1.0" in text
        assert "lethe_controller_listener_connections 1.0" in text
