"""Agents on a real ZooKeeper: registration, session loss, and death of the process in the middle of its work."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lethe.adapters.kafka.client import ClientError, KafkaConnection
from lethe.adapters.registration import notify_log_dir_failure
from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import OpenSession, ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.broker.runtime.app import AgentApp, ExitCode
from lethe.cluster.zookeeper import EmbeddedZooKeeper
from lethe.protocol.kafka.control import Addressed, StopReplicaResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataRequest
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from lethe.protocol.zookeeper.operations import Children, Create, Data, GetChildren, GetData, SetData, WatchFired
from lethe.protocol.zookeeper.paths import (
    broker_id,
    isr_change_notifications,
    log_dir_event_notifications,
    partition_state,
    topic,
)
from lethe.protocol.zookeeper.znodes import TopicZnode, decode_broker, decode_state, encode_state, encode_topic
from tests.fakes.agents import agent_config, connected, note_controller_epoch, running
from tests.fakes.runtime import reach
from tests.unit.broker.core.driver import X, become, live, metadata, stop, tombstone

pytestmark = pytest.mark.zookeeper


def sessions_on(connect: str, timeout_ms: int = 20_000) -> OpenSession:
    config = ZooKeeperConfig(parse_connect_string(connect), timeout_ms, timeout_ms)
    return lambda on_watch: open_session(config, on_watch)


def ignore(_: WatchFired) -> None:
    pass


async def registered(session: ZooKeeperSession, broker: int = 1) -> Broker | None:
    (found,) = await session.read([GetData(broker_id(broker))])
    return decode_broker(broker, found.stat.czxid, found.data) if isinstance(found, Data) else None


async def test_it_registers_obeys_and_leaves(zookeeper_chroot: str, tmp_path: Path) -> None:
    opener = sessions_on(zookeeper_chroot)
    async with opener(ignore) as watcher:
        async with running(agent_config(tmp_path, zookeeper_chroot), opener) as app, connected(app) as connection:
            broker = await registered(watcher)
            assert broker is not None
            assert (broker.epoch, broker.endpoints) == (app.loop.state.broker_epoch, app.endpoints)
            for off_by, expected in ((0, 0), (-1, ErrorCode.STALE_BROKER_EPOCH), (1, 0)):
                for request in (become(is_new=True, leader_epoch=off_by + 1), metadata(), stop()):
                    answer = await connection.ask(Addressed(request, BrokerEpoch(broker.epoch + off_by)))
                    assert answer.error == expected  # type: ignore[union-attr]
        assert await registered(watcher) is None


async def test_a_second_agent_with_the_same_id_is_refused(own_zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    connect = own_zookeeper.connect_string
    opener = sessions_on(connect, 2_000)
    async with running(agent_config(tmp_path / "1", connect), opener) as app:
        epoch = app.loop.state.broker_epoch
        other = AgentApp(agent_config(tmp_path / "2", connect), opener)
        assert await asyncio.wait_for(other.run(), 60) == ExitCode.CANNOT_START
        assert app.loop.state.broker_epoch == epoch


async def test_a_lost_session_means_a_new_epoch(own_zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    connect = own_zookeeper.connect_string
    async with (
        running(agent_config(tmp_path, connect), sessions_on(connect, 2_000)) as app,
        connected(app) as connection,
    ):
        before = app.loop.state.broker_epoch
        await connection.ask(Addressed(become(is_new=True), before))
        # While ZooKeeper stands still for longer than the session lasts, the agent gives the session up by itself.
        own_zookeeper.pause()
        try:
            await reach(lambda: app._sessions.session is None, 60)
            await connection.ask(MetadataRequest(None))
        finally:
            own_zookeeper.resume()
        await reach(lambda: app.loop.state.broker_epoch > before, 60)
        refused = await connection.ask(Addressed(stop(), before))
        assert refused.error == ErrorCode.STALE_BROKER_EPOCH  # type: ignore[union-attr]
        assert TopicPartition("t", 0) in app.loop.state.replicas


async def test_a_failed_log_directory_is_announced(zookeeper_chroot: str) -> None:
    async with sessions_on(zookeeper_chroot)(ignore) as session:
        await notify_log_dir_failure(session, BrokerId(1))
        (found,) = await session.read([GetChildren(log_dir_event_notifications())])
        assert isinstance(found, Children)
        assert len(found.names) == 1


async def test_a_leader_grows_its_isr_in_zookeeper_and_notifies_the_controller(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    opener = sessions_on(zookeeper_chroot)
    config = agent_config(tmp_path, zookeeper_chroot, replica_catch_up_delay_ms=50)
    async with opener(ignore) as session, running(config, opener) as app, connected(app) as connection:
        await session.ensure_path(topic("t") + "/partitions/0")
        await session.multi(
            [
                SetData(topic("t"), encode_topic(TopicZnode({0: ReplicaAssignment((1, 2))}, X)), -1),
                Create(partition_state("t", 0), encode_state(LeaderAndIsr(1, 5, (1,), 3))),
            ]
        )
        epoch = app.loop.state.broker_epoch
        await connection.ask(Addressed(metadata("u", brokers=live(1, 2)), epoch))
        await connection.ask(Addressed(become(replicas=(1, 2), leader_epoch=5), epoch))
        await reach(lambda: app.loop.state.replicas[TopicPartition("t", 0)].isr == (1, 2))
        state, names = await session.read([GetData(partition_state("t", 0)), GetChildren(isr_change_notifications())])
        assert isinstance(state, Data)
        assert decode_state("t", 0, state.data, state.stat.version) == LeaderAndIsr(1, 5, (1, 2), 3, 1)
        assert isinstance(names, Children)
        assert len(names.names) == 1


# --- real processes -----------------------------------------------------------------------------------------------


class AgentProcess:
    """`lethe broker` as a child process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def kill(self) -> None:
        """As `kill -9` does."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def terminate(self) -> int:
        self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), 60)


@asynccontextmanager
async def agent_process(file: Path) -> AsyncIterator[AgentProcess]:
    with (file.parent / "agent.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from lethe.cli.main import main; main()", "broker", str(file)),
            stdout=log,
            stderr=log,
            cwd=Path.cwd(),
        )
    agent = AgentProcess(process)
    try:
        yield agent
    finally:
        await agent.kill()


async def epoch_after(session: ZooKeeperSession, before: int, within_s: float = 90.0) -> Broker:
    """The registration, once it is newer than that epoch."""
    async with asyncio.timeout(within_s):
        while (broker := await registered(session)) is None or broker.epoch <= before:
            await asyncio.sleep(0.05)
    return broker


async def connect_to(endpoint: Endpoint) -> KafkaConnection:
    return await KafkaConnection.open(endpoint.host, endpoint.port, "test", request_timeout_ms=60_000)


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("[ab]/*") if path.is_dir())


@pytest.mark.processes
async def test_kill_9_in_the_middle_of_the_removal_and_it_is_finished_after_the_restart(
    own_zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"broker.id=1\nzookeeper.connect={own_zookeeper.connect_string}\nzookeeper.session.timeout.ms=4000\n"
        f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
        "log.segment.delete.delay.ms=1\nlethe.delete.files.per.second=40\nlethe.fill.bytes=64\n"
    )
    partitions = tuple(range(30))
    await note_controller_epoch(sessions_on(own_zookeeper.connect_string))
    async with sessions_on(own_zookeeper.connect_string)(ignore) as session:
        async with agent_process(file) as agent:
            broker = await epoch_after(session, -1)
            async with await connect_to(broker.endpoints[0]) as connection:
                for request in (
                    become(is_new=True, partitions=partitions),
                    become("stays", X, is_new=True),
                    metadata(partitions=partitions),
                    tombstone(partitions=partitions),
                    stop(partitions=partitions, delete=False),
                ):
                    await connection.ask(Addressed(request, broker.epoch))
                assert len(names(tmp_path)) == 31
                answer = await connection.ask(Addressed(stop(partitions=partitions), broker.epoch))
                assert isinstance(answer, StopReplicaResponse)
                assert {row.error for row in answer.rows} == {0}
                await reach(lambda: len(names(tmp_path)) < 28, 60)
            await agent.kill()
        left = names(tmp_path)
        assert 1 < len(left) < 28
        assert all(name == "stays-0" or name.endswith("-delete") for name in left)
        async with agent_process(file) as agent:
            broker = await epoch_after(session, broker.epoch)
            await reach(lambda: names(tmp_path) == ["stays-0"], 90)
            assert await agent.terminate() == ExitCode.STOPPED
        assert await registered(session) is None


@pytest.mark.processes
async def test_kill_9_in_the_middle_of_a_creation_and_a_deletion(
    own_zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    """The process dies at some moment of either; what is on disk is whole, identified, and obeys the next process."""
    file = tmp_path / "server.properties"
    file.write_text(
        f"broker.id=1\nzookeeper.connect={own_zookeeper.connect_string}\nzookeeper.session.timeout.ms=4000\n"
        f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
        "log.segment.delete.delay.ms=600000\nlethe.fill.bytes=64\n"
    )
    partitions = tuple(range(400))
    await note_controller_epoch(sessions_on(own_zookeeper.connect_string))
    before = -1
    async with sessions_on(own_zookeeper.connect_string)(ignore) as session:
        for request, moment in (
            (become(is_new=True, partitions=partitions), lambda: len(names(tmp_path)) > 50),
            (stop(partitions=partitions), lambda: any(name.endswith("-delete") for name in names(tmp_path))),
        ):
            async with agent_process(file) as agent:
                broker = await epoch_after(session, before)
                before = broker.epoch
                async with await connect_to(broker.endpoints[0]) as connection:
                    if isinstance(request, type(stop())):
                        for earlier in (become(partitions=partitions), tombstone(partitions=partitions)):
                            await connection.ask(Addressed(earlier, broker.epoch))
                    under_way = asyncio.create_task(connection.ask(Addressed(request, broker.epoch)))
                    await reach(moment, 60)
                    await agent.kill()
                    # It may have been answered just before the process died.
                    with contextlib.suppress(ClientError):
                        await under_way
        async with agent_process(file) as agent:
            broker = await epoch_after(session, before)
            async with await connect_to(broker.endpoints[0]) as connection:
                answers = [
                    await connection.ask(Addressed(request, broker.epoch))
                    for request in (
                        become(partitions=partitions),
                        tombstone(partitions=partitions),
                        stop(partitions=partitions),
                    )
                ]
            for answer in (answers[0], answers[2]):
                assert {row.error for row in answer.rows} == {0}  # type: ignore[union-attr]
            assert await agent.terminate() == ExitCode.STOPPED
    assert all(name.endswith("-delete") for name in names(tmp_path))


@pytest.mark.processes
async def test_a_wrong_configuration_ends_it_with_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=x\nlog.dirs=/\n")
    async with agent_process(file) as agent:
        assert await asyncio.wait_for(agent.process.wait(), 60) == 2
    said = (tmp_path / "agent.log").read_text()
    assert "broker.id='x'" in said
    assert os.fspath(file) in said
