"""Controllers on a real ZooKeeper."""

import asyncio
import functools
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.session import open_session
from lethe.cluster.zookeeper import EmbeddedZooKeeper
from lethe.controller.core.context import Context, Role
from lethe.controller.runtime.app import ControllerApp, ExitCode, application
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, ReplicaAssignment
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Data, Delete, Exists, GetData, MultiDone, Present, SetData
from tests.fakes.broken_broker import FakeBroker
from tests.fakes.runtime import controller_config, reach

pytestmark = pytest.mark.zookeeper

LIMIT_S = 90.0


class Running:
    def __init__(self, app: ControllerApp, task: asyncio.Task[int]) -> None:
        self.app = app
        self.task = task

    @property
    def context(self) -> Context:
        return self.app.loop.context

    async def becomes(self, role: Role) -> None:
        await reach(lambda: self.context.role is role, LIMIT_S)


@asynccontextmanager
async def controller(connect: str, number: int, session_timeout_ms: int = 20_000) -> AsyncIterator[Running]:
    app = application(controller_config(number, connect=connect, session_timeout_ms=session_timeout_ms))
    task = asyncio.create_task(app.run(), name=f"controller-{number}")
    try:
        async with asyncio.timeout(LIMIT_S):
            await app.started.wait()
        yield Running(app, task)
    finally:
        app.stop("the test is over")
        await asyncio.wait([task], timeout=LIMIT_S)
        task.cancel()
        await asyncio.wait([task])


def leads_alone(term: int, *controllers: Running) -> bool:
    active = [each.context for each in controllers if each.context.role is Role.ACTIVE]
    known = {each.context.active_controller for each in controllers}
    return len(active) == 1 and active[0].cluster.epoch == term and known == {active[0].config.controller_id}


async def test_tenures_follow_one_another_when_controller_is_deleted(zookeeper_chroot: str) -> None:
    config = ZooKeeperConfig(parse_connect_string(zookeeper_chroot))
    async with controller(zookeeper_chroot, 1001) as one:
        await one.becomes(Role.ACTIVE)
        async with (
            controller(zookeeper_chroot, 1002) as two,
            open_session(config, lambda _: None) as session,
        ):
            await two.becomes(Role.STANDING_BY)
            for term in range(2, 5):
                assert isinstance(await session.multi([Delete("/controller")]), MultiDone)
                await reach(functools.partial(leads_alone, term, one, two), LIMIT_S)
            (epoch,) = await session.read([GetData("/controller_epoch")])
            assert isinstance(epoch, Data)
            assert epoch.data == b"4"
            # The one that leads is asked to stop; the other one takes over without waiting for a session to expire.
            leader, other = (one, two) if one.context.role is Role.ACTIVE else (two, one)
            leader.app.stop("SIGTERM")
            assert await asyncio.wait_for(leader.task, LIMIT_S) == ExitCode.STOPPED
            await reach(functools.partial(leads_alone, 5, other), LIMIT_S)


async def test_a_write_with_a_stale_epoch_ends_the_tenure(zookeeper_chroot: str) -> None:
    config = ZooKeeperConfig(parse_connect_string(zookeeper_chroot))
    async with FakeBroker() as broker, controller(zookeeper_chroot, 1001) as one:
        await one.becomes(Role.ACTIVE)
        async with open_session(config, lambda _: None) as session:
            registration = znodes.encode_broker(
                Broker(BrokerId(1), BrokerEpoch(-1), (broker.endpoint,)), timestamp_ms=1
            )
            await session.multi([Create(paths.broker_id(BrokerId(1)), registration, ephemeral=True)])
            await reach(lambda: 1 in one.context.cluster.brokers, LIMIT_S)
            # Somebody raises the epoch behind its back, and then there is something to write.
            assert isinstance(await session.multi([SetData("/controller_epoch", b"7", -1)]), MultiDone)
            topic = znodes.TopicZnode({0: ReplicaAssignment((1,))}, None)
            await session.multi([Create(paths.topic("orders"), znodes.encode_topic(topic))])
            await reach(lambda: one.context.role is not Role.ACTIVE, LIMIT_S)


async def test_a_topic_is_created_and_deleted_with_nothing_left(zookeeper_chroot: str) -> None:
    config = ZooKeeperConfig(parse_connect_string(zookeeper_chroot))
    async with FakeBroker() as broker, controller(zookeeper_chroot, 1001) as one:
        await one.becomes(Role.ACTIVE)
        async with open_session(config, lambda _: None) as session:
            registration = znodes.encode_broker(
                Broker(BrokerId(1), BrokerEpoch(-1), (broker.endpoint,)), timestamp_ms=1
            )
            await session.multi([Create(paths.broker_id(BrokerId(1)), registration, ephemeral=True)])
            topic = znodes.TopicZnode({number: ReplicaAssignment((1,)) for number in range(200)}, None)
            await session.multi([Create(paths.topic("orders"), znodes.encode_topic(topic))])
            await reach(lambda: one.context.cluster.partitions_with_leader_and_isr == 200, LIMIT_S)
            await session.multi([Create(paths.delete_topic("orders"), None)])
            async with asyncio.timeout(LIMIT_S):
                while any(
                    isinstance(found, Present)
                    for found in await session.read(
                        [Exists(paths.delete_topic("orders")), Exists(paths.topic("orders"))]
                    )
                ):
                    await asyncio.sleep(0.005)
            # The znodes are gone before the controller has heard that they are.
            await reach(lambda: one.context.cluster.topics == {}, LIMIT_S)


@pytest.mark.slow
async def test_zookeeper_goes_away_and_comes_back(own_zookeeper: EmbeddedZooKeeper) -> None:
    async with controller(own_zookeeper.connect_string, 1001, session_timeout_ms=2_000) as one:
        await one.becomes(Role.ACTIVE)
        term = one.context.cluster.epoch
        own_zookeeper.kill()
        await one.becomes(Role.NO_SESSION)
        assert not one.task.done()
        own_zookeeper.start()
        await one.becomes(Role.ACTIVE)
        assert one.context.cluster.epoch > term


@asynccontextmanager
async def process(directory: Path, connect: str, number: int) -> AsyncIterator[asyncio.subprocess.Process]:
    file = directory / f"controller-{number}.properties"
    file.write_text(
        f"broker.id={number}\nzookeeper.connect={connect}\nzookeeper.session.timeout.ms=2000\n"
        f"lethe.journal.dir={directory / 'journal'}\n"
    )
    with (directory / f"controller-{number}.log").open("wb") as log:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "lethe", "controller", str(file), stderr=log, cwd=Path(__file__).parents[2]
        )
        try:
            yield child
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()


@pytest.mark.processes
async def test_kill_9_and_sigterm(tmp_path: Path, zookeeper_chroot: str) -> None:
    config = ZooKeeperConfig(parse_connect_string(zookeeper_chroot))
    async with process(tmp_path, zookeeper_chroot, 1001) as first, open_session(config, lambda _: None) as session:

        async def holder() -> int | None:
            (found,) = await session.read([GetData("/controller")])
            return znodes.decode_controller(found.data).broker_id if isinstance(found, Data) else None

        async def until_held_by(number: int | None) -> None:
            async with asyncio.timeout(LIMIT_S):
                while await holder() != number:
                    await asyncio.sleep(0.01)

        await until_held_by(1001)
        async with process(tmp_path, zookeeper_chroot, 1002) as second:
            os.kill(first.pid, signal.SIGKILL)
            await until_held_by(1002)
            assert second.returncode is None
            second.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(second.wait(), LIMIT_S) == 0
            assert await holder() is None
    log = (tmp_path / "controller-1002.log").read_text()
    assert "stopping: received SIGTERM" in log
    assert "Traceback" not in log
    assert len(list((tmp_path / "journal").iterdir())) == 2
