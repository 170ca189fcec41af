"""One process for each controller id: who comes second waits for the first one to go, and else does not start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lethe.adapters import registration
from lethe.controller.runtime import instance
from lethe.controller.runtime.app import ControllerApp, ExitCode
from lethe.controller.runtime.brokers import BrokerConnection
from lethe.controller.runtime.instance import ControllerIdTaken, Instance
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Data, GetData, MultiDone, Operation, Present
from tests.fakes.forbidden_znodes import forbidding
from tests.fakes.runtime import controller_config
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper

OURS = BrokerId(1001)
HERE = Endpoint("PLAINTEXT", "127.0.0.1", 9092, SecurityProtocol.PLAINTEXT)


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "PATIENCE_AFTER_S", -1_000.0)
    monkeypatch.setattr(instance, "POLL_S", 0.01)


@asynccontextmanager
async def opened(zookeeper: FakeZooKeeper) -> AsyncIterator[FakeSession]:
    async with zookeeper.open_session(lambda _: None) as session:
        yield session


async def registers(session: FakeSession, broker: int, *, is_controller: bool = False) -> None:
    await session.ensure_path(paths.BROKER_IDS)
    znode = Broker(BrokerId(broker), BrokerEpoch(-1), (HERE,))
    data = znodes.encode_broker(znode, timestamp_ms=1, version=4, is_controller=is_controller)
    operation: Operation = Create(paths.broker_id(BrokerId(broker)), data, ephemeral=True)
    assert isinstance(await session.multi([operation]), MultiDone)


async def test_the_second_process_of_an_id_is_refused_with_the_first_ones_address() -> None:
    zookeeper = FakeZooKeeper()
    async with opened(zookeeper) as first, opened(zookeeper) as second:
        await Instance(OURS).prepare(first)
        with pytest.raises(ControllerIdTaken, match=r"process \d+\) has the id of controller 1001 .*broker.id of"):
            await Instance(OURS).prepare(second)
        await Instance(BrokerId(1002)).prepare(second)


async def test_an_earlier_session_of_the_same_process_is_no_other_process() -> None:
    zookeeper = FakeZooKeeper()
    ours = Instance(OURS)
    async with opened(zookeeper) as first, opened(zookeeper) as second:
        await ours.prepare(first)
        await ours.prepare(second)
        (found,) = await second.read([GetData(paths.instance(OURS))])
        assert isinstance(found, Data)
        assert found.stat.ephemeral_owner == second.session_id


async def test_a_process_that_was_killed_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registration, "PATIENCE_AFTER_S", 60.0)
    zookeeper = FakeZooKeeper()
    async with opened(zookeeper) as killed, opened(zookeeper) as ours:
        await Instance(OURS).prepare(killed)
        waiting = asyncio.create_task(Instance(OURS).prepare(ours))
        async with asyncio.timeout(30):
            while not any("for it to go" in record.message for record in caplog.records):
                await asyncio.sleep(0)
            zookeeper.expire(killed.session_id)
            await waiting


async def test_a_new_connection_begins_the_wait_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper may have a new leader, under which the session of a killed process lasts for a whole timeout again."""
    now_s = 0.0
    monkeypatch.setattr(registration, "PATIENCE_AFTER_S", 0.0)
    async with opened(FakeZooKeeper()) as ours:
        patience = registration.Patience(ours, lambda: now_s)
        now_s = patience.seconds - 0.1
        assert not patience.is_over()
        ours.disconnect()
        ours.reconnect()
        now_s = patience.seconds + 0.1
        assert not patience.is_over()
        now_s = 2 * patience.seconds + 0.2
        assert patience.is_over()


@pytest.mark.parametrize("is_controller", [False, True])
async def test_a_broker_under_our_id_is_in_the_way_and_a_listed_controller_is_not(is_controller: bool) -> None:
    zookeeper = FakeZooKeeper()
    async with opened(zookeeper) as broker, opened(zookeeper) as ours:
        await registers(broker, OURS, is_controller=is_controller)
        if is_controller:
            await Instance(OURS).prepare(ours)
        else:
            with pytest.raises(ControllerIdTaken, match="broker 1001 is registered"):
                await Instance(OURS).prepare(ours)


async def test_a_registration_under_our_id_that_cannot_be_read_is_no_absence() -> None:
    async with opened(FakeZooKeeper()) as ours:
        path = paths.broker_id(OURS)
        why = r"NO_AUTH, since its access list .* log in to .*"
        words = rf"{path} cannot be read \({why}\): a broker may be .*: let this controller read it"
        with pytest.raises(ControllerIdTaken, match=words):
            await Instance(OURS).prepare(forbidding(ours, path))


async def test_a_controller_whose_id_is_taken_ends_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    zookeeper = FakeZooKeeper()
    async with opened(zookeeper) as first:
        await Instance(OURS).prepare(first)
        app = ControllerApp(controller_config(OURS), zookeeper.open_session, _nobody)
        async with asyncio.timeout(30):
            assert await app.run() == ExitCode.CANNOT_START
        critical = [record.getMessage() for record in caplog.records if record.levelname == "CRITICAL"]
        assert [("has the id of controller 1001" in message) for message in critical] == [True]


async def test_a_controller_for_one_command_leaves_nothing_in_zookeeper() -> None:
    zookeeper = FakeZooKeeper()
    async with opened(zookeeper) as first:
        await Instance(OURS).prepare(first)
        app = ControllerApp(controller_config(OURS), zookeeper.open_session, _nobody, holds_id=False)
        running = asyncio.create_task(app.run())
        async with asyncio.timeout(30):
            await app.started.wait()
            while not app.loop.context.holds_controller:
                await asyncio.sleep(0.01)
            app.stop("the test is over")
            assert await running == ExitCode.STOPPED
        (found,) = await first.read([GetData(paths.instance(OURS))])
        assert isinstance(found, Data | Present)


async def _nobody(endpoint: Endpoint) -> BrokerConnection:
    raise ConnectionError(f"nobody listens at {endpoint}")
