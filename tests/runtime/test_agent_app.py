"""The whole agent on a fake ZooKeeper, over real sockets and on a real disk."""

from __future__ import annotations

import asyncio
import errno
import json
import urllib.request
from pathlib import Path

import pytest

from lethe.adapters.kafka.client import ConnectionFailed
from lethe.broker.core.effects import DirectoryRef
from lethe.broker.core.replica import ReplicaState
from lethe.broker.runtime.app import AgentApp, ExitCode
from lethe.protocol.journal import EventRecordType, JournalEntry, decode_lines
from lethe.protocol.journal_schema import schema_problems
from lethe.protocol.kafka.control import Addressed, ControlRequest
from lethe.protocol.kafka.directory_names import deletion_name, stray_name
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    MetadataRequest,
    MetadataResponse,
)
from lethe.protocol.kafka.to_controller import ControlledShutdownRequest
from lethe.protocol.kafka.versions import SPOKEN
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, TopicPartition
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.paths import broker_id, log_dir_event_notifications, topic
from lethe.protocol.zookeeper.znodes import TopicZnode, decode_broker, encode_topic
from tests.fakes.agents import agent_config, connected, note_controller_epoch, running
from tests.fakes.log_dirs import FaultyDisk, break_log_dir, mend_log_dir
from tests.fakes.runtime import reach
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import X, Y, become, metadata, stop, tombstone

UNIQUE = "0123456789abcdef" * 2
T0 = TopicPartition("t", 0)


def addressed(app: AgentApp, request: ControlRequest, off_by: int = 0) -> Addressed:
    return Addressed(request, BrokerEpoch(app.loop.state.broker_epoch + off_by))


def directories(root: Path) -> list[str]:
    return sorted(path.name for log_dir in ("a", "b") for path in (root / log_dir).iterdir() if path.is_dir())


async def get(url: str) -> str:
    def read() -> str:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(read)


async def test_it_registers_with_its_real_port_and_takes_the_czxid_for_its_epoch(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    async with running(agent_config(tmp_path, broker_rack="r1"), zookeeper.open_session) as app:
        node = zookeeper.model.node(broker_id(1))
        assert node is not None
        broker = decode_broker(1, node.czxid, node.data)
        assert broker.endpoints == app.endpoints
        assert broker.endpoints[0].port > 0
        assert broker.rack == "r1"
        assert app.loop.state.broker_epoch == node.czxid
    assert zookeeper.model.node(broker_id(1)) is None, "it leaves at once when it is stopped"


async def test_a_topic_from_its_creation_to_its_last_byte(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    config = agent_config(tmp_path, log_segment_delete_delay_ms=1, lethe_fill_bytes=100)
    me = Broker(BrokerId(1), BrokerEpoch(-1), (Endpoint("PLAINTEXT", "127.0.0.1", 9),))
    async with running(config, zookeeper.open_session) as app, connected(app) as connection:
        await connection.ask(addressed(app, become(is_new=True, partitions=(0, 1))))
        await connection.ask(addressed(app, metadata(partitions=(0, 1), brokers=(me,))))
        assert directories(tmp_path) == ["t-0", "t-1"]
        described = await connection.ask(DescribeLogDirsRequest())
        assert isinstance(described, DescribeLogDirsResponse)
        sizes = [p.size_bytes for log_dir in described.log_dirs for t in log_dir.topics for p in t.partitions]
        assert sizes == [100, 100], "segments alone, as Kafka counts"
        held = app.loop.state.hosted_bytes
        assert held > sum(sizes)
        assert all(log_dir.total_bytes > 0 for log_dir in described.log_dirs)
        found = await connection.ask(MetadataRequest(None))
        assert isinstance(found, MetadataResponse)
        assert [(t.name, t.topic_id, len(t.partitions)) for t in found.topics] == [("t", X, 2)]
        assert found.controller_id == 9

        await connection.ask(addressed(app, tombstone(partitions=(0, 1), brokers=(me,))))
        await connection.ask(addressed(app, stop(partitions=(0, 1), delete=False)))
        answer = await connection.ask(addressed(app, stop(partitions=(0, 1))))
        assert [row.error for row in answer.rows] == [0, 0]  # type: ignore[union-attr]
        assert "t-0" not in directories(tmp_path)
        await reach(lambda: not app.loop.state.removal.pending)
        assert directories(tmp_path) == []
        assert app.loop.state.removal.freed_bytes == held
        found = await connection.ask(MetadataRequest(None))
        assert isinstance(found, MetadataResponse)
        assert found.topics == ()


@pytest.mark.parametrize("off_by,expected", [(0, 0), (-1, ErrorCode.STALE_BROKER_EPOCH), (1, 0)])
async def test_broker_epochs_over_the_wire(tmp_path: Path, off_by: int, expected: int) -> None:
    zookeeper = FakeZooKeeper()
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as connection:
        for request in (become(is_new=True), metadata(), stop()):
            answer = await connection.ask(addressed(app, request, off_by))
            assert answer.error == expected  # type: ignore[union-attr]


async def test_every_version_of_every_request_is_answered(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as connection:
        offered = await connection.offered_versions()
        epoch = 0
        for request in (become(topic_id=None), metadata(topic_id=None), stop(delete=False)):
            api = type(request).__name__
            for key, versions in SPOKEN.items():
                if key.name.replace("_", "").lower() + "request" == api.lower():
                    for version in range(versions.min, versions.max + 1):
                        epoch += 1
                        again = become(topic_id=None, leader_epoch=epoch) if "Isr" in api else request
                        answer = await connection.request(addressed(app, again), version)
                        assert answer.error == 0, (api, version)  # type: ignore[union-attr]
                    assert offered[key].max == versions.max


async def test_what_an_agent_does_not_serve_closes_the_connection(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as connection:
        with pytest.raises(ConnectionFailed):
            await connection.request(ControlledShutdownRequest(BrokerId(1)), 3)
        async with connected(app) as another:
            await another.ask(MetadataRequest(None))


async def test_after_a_lost_session_it_registers_again_with_a_new_epoch(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as connection:
        await connection.ask(addressed(app, become(is_new=True)))
        before = app.loop.state.broker_epoch
        (session,) = zookeeper.sessions
        zookeeper.expire(session)
        await reach(lambda: app.loop.state.broker_epoch > before)
        node = zookeeper.model.node(broker_id(1))
        assert node is not None
        assert node.czxid == app.loop.state.broker_epoch
        refused = await connection.ask(Addressed(stop(), before))
        assert refused.error == ErrorCode.STALE_BROKER_EPOCH  # type: ignore[union-attr]
        assert T0 in app.loop.state.replicas, "what it hosts is still there"


async def test_without_zookeeper_it_waits_and_then_starts(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    zookeeper.unavailable = "nobody is at home"
    app = AgentApp(agent_config(tmp_path), zookeeper.open_session)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(app.run())
        await reach(
            lambda: app.http is not None and app._sessions.problem == "no ZooKeeper answered: nobody is at home"
        )
        assert app.http is not None
        with pytest.raises(urllib.error.HTTPError, match="503"):
            await get(f"{app.http.url}/readyz")
        zookeeper.unavailable = None
        await asyncio.wait_for(app.started.wait(), 30)
        assert json.loads(await get(f"{app.http.url}/readyz"))["ok"]
        app.stop("enough")


async def test_an_agent_that_remembers_nothing_asks_zookeeper_whose_replica_it_is(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as connection:
        await connection.ask(addressed(app, become(is_new=True, partitions=(0,))))
        await connection.ask(addressed(app, become("u", Y, is_new=True)))
    model = zookeeper.model
    session = model.open_session()
    for name, topic_id in (("t", X), ("u", X)):
        model.multi(session, [Create(topic(name), encode_topic(TopicZnode({}, topic_id)))])
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as connection:
        assert app.loop.state.replicas[T0].state is ReplicaState.LOADED
        for name in ("t", "u", "nothing-of-that-name"):
            answer = await connection.ask(addressed(app, stop(name)))
            assert [row.error for row in answer.rows] == [0]  # type: ignore[union-attr]
        left = directories(tmp_path)
    assert [name.rsplit("-", 1)[1] for name in left] == ["delete", "stray"]


async def test_a_failing_directory_is_told_to_the_controller_and_described(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    disk = FaultyDisk()
    async with running(agent_config(tmp_path), zookeeper.open_session, disk) as app, connected(app) as connection:
        disk.fail_with(errno.EROFS, on="mkdir")
        answer = await connection.ask(addressed(app, become(is_new=True)))
        assert [row.error for row in answer.rows] == [ErrorCode.KAFKA_STORAGE_ERROR]  # type: ignore[union-attr]
        disk.heal()
        await reach(lambda: zookeeper.model.children(log_dir_event_notifications()))
        described = await connection.ask(DescribeLogDirsRequest())
        assert isinstance(described, DescribeLogDirsResponse)
        assert sorted(log_dir.error for log_dir in described.log_dirs) == [0, ErrorCode.KAFKA_STORAGE_ERROR]
        assert app.http is not None
        assert "kafka_log_logmanager_offlinelogdirectorycount 1.0" in await get(f"{app.http.url}/metrics")


@pytest.mark.parametrize("busy", [True, False])
async def test_a_directory_that_is_taken_away_is_told_to_the_controller(tmp_path: Path, busy: bool) -> None:
    """Found by an operation, and where there is none by the look at its checkpoints; works for root as well."""
    zookeeper = FakeZooKeeper()
    config = agent_config(tmp_path)
    async with running(config, zookeeper.open_session) as app, connected(app) as connection:
        await connection.ask(addressed(app, become(is_new=True)))
        break_log_dir(tmp_path / "a")
        if busy:
            answer = await connection.ask(addressed(app, stop()))
            assert [row.error for row in answer.rows] == [ErrorCode.KAFKA_STORAGE_ERROR]  # type: ignore[union-attr]
        await reach(lambda: zookeeper.model.children(log_dir_event_notifications()), 60)
        answer = await connection.ask(addressed(app, become(leader_epoch=1)))
        assert [row.error for row in answer.rows] == [ErrorCode.KAFKA_STORAGE_ERROR]  # type: ignore[union-attr]
        assert len(zookeeper.model.children(log_dir_event_notifications())) == 1
    mend_log_dir(tmp_path / "a")
    async with running(config, zookeeper.open_session) as app, connected(app) as connection:
        answer = await connection.ask(addressed(app, become(leader_epoch=1)))
        assert [row.error for row in answer.rows] == [ErrorCode.NONE]  # type: ignore[union-attr]
    assert directories(tmp_path) == ["t-0"], "nothing is lost"


async def test_the_loss_of_all_directories_ends_the_agent(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    disk = FaultyDisk()
    await note_controller_epoch(zookeeper.open_session)
    app = AgentApp(agent_config(tmp_path), zookeeper.open_session, disk=disk)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(app.run())
        await asyncio.wait_for(app.started.wait(), 30)
        disk.fail_with(errno.EIO, on="mkdir")
        async with connected(app) as connection:
            await connection.ask(addressed(app, become(is_new=True, partitions=(0, 1))))
        assert await asyncio.wait_for(run, 30) == ExitCode.FAULT


async def test_directories_that_all_fail_from_the_start(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("a file")
    assert await AgentApp(agent_config(tmp_path), FakeZooKeeper().open_session).run() == ExitCode.CANNOT_START


async def test_a_directory_of_another_broker_or_in_use(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    async with running(agent_config(tmp_path), zookeeper.open_session):
        assert await AgentApp(agent_config(tmp_path), zookeeper.open_session).run() == ExitCode.CANNOT_START
    other = agent_config(tmp_path, broker_id=2)
    assert await AgentApp(other, zookeeper.open_session).run() == ExitCode.CANNOT_START
    assert await AgentApp(agent_config(tmp_path), FakeZooKeeper().open_session).run() == ExitCode.CANNOT_START


async def test_a_port_in_use(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    async with running(agent_config(tmp_path / "1"), zookeeper.open_session) as app:
        taken = agent_config(tmp_path / "2", broker_id=2, listeners=f"PLAINTEXT://127.0.0.1:{app.endpoints[0].port}")
        assert await AgentApp(taken, zookeeper.open_session).run() == ExitCode.CANNOT_START
        assert app.http is not None
        taken = agent_config(tmp_path / "3", broker_id=3, lethe_http_port=app.http.port)
        assert await AgentApp(taken, zookeeper.open_session).run() == ExitCode.CANNOT_START


async def test_removal_is_taken_up_again_at_the_next_start(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    name, stray = deletion_name(T0, UNIQUE), stray_name(T0, UNIQUE)
    for directory in (name, stray, "photos"):
        (tmp_path / "a" / directory).mkdir(parents=True)
        (tmp_path / "a" / directory / "file").write_bytes(b"1234")
    config = agent_config(tmp_path, log_segment_delete_delay_ms=20)
    async with running(config, zookeeper.open_session) as app:
        await reach(lambda: not app.loop.state.removal.pending)
        assert directories(tmp_path) == ["photos", stray]
        assert app.http is not None
        shown = json.loads(await get(f"{app.http.url}/state"))
        assert [entry["path"] for entry in shown["set_aside"]["list"]] == [str(tmp_path / "a" / stray)]
        assert [entry["path"] for entry in shown["unknown"]["list"]] == [str(tmp_path / "a" / "photos")]
        assert shown["freed_bytes"] == 4


async def test_a_removal_that_fails_is_shown_and_repeated(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    disk = FaultyDisk()
    (tmp_path / "a" / deletion_name(T0, UNIQUE)).mkdir(parents=True)
    disk.fail_with(errno.EBUSY, on="rmdir")
    config = agent_config(tmp_path, log_segment_delete_delay_ms=1)
    async with running(config, zookeeper.open_session, disk) as app:
        directory = DirectoryRef(str(tmp_path / "a"), deletion_name(T0, UNIQUE))
        await reach(lambda: app.loop.state.removal.failed_attempts > 0)
        assert "EBUSY" in (app.loop.state.removal.pending[directory].error or "")
        assert app.loop.state.log_dirs[str(tmp_path / "a")] is None
        disk.heal()
        await reach(lambda: not app.loop.state.removal.pending)
        assert directories(tmp_path) == []


async def test_the_pace_of_removal_does_not_hold_up_the_end(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    directory = tmp_path / "a" / deletion_name(T0, UNIQUE)
    directory.mkdir(parents=True)
    for n in range(2_000):
        (directory / str(n)).touch()
    config = agent_config(tmp_path, log_segment_delete_delay_ms=1, lethe_delete_files_per_second=20)
    async with running(config, zookeeper.open_session):
        await reach(lambda: len(list(directory.iterdir())) < 2_000)
    assert len(list(directory.iterdir())) > 1_000


async def test_the_journal_tells_what_was_freed_and_acknowledged(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    config = agent_config(tmp_path, log_segment_delete_delay_ms=1, lethe_journal_dir=str(tmp_path / "journal"))
    async with running(config, zookeeper.open_session) as app, connected(app) as connection:
        await connection.ask(addressed(app, become(is_new=True, partitions=(0, 1, 2))))
        await connection.ask(addressed(app, tombstone(partitions=(0, 1, 2))))
        await connection.ask(addressed(app, stop(partitions=(0, 1, 2))))
        await reach(lambda: not app.loop.state.removal.pending)
    lines = [line for path in (tmp_path / "journal").iterdir() for line in path.read_bytes().splitlines(keepends=True)]
    entries = [entry for entry in decode_lines(lines) if isinstance(entry, JournalEntry)]
    assert len(entries) == len(lines)
    assert {entry.source for entry in entries} == {"/lethe/broker/1"}
    assert [problem for entry in entries for problem in schema_problems(entry.record)] == []
    (ack,) = [entry.record for entry in entries if entry.record.type is EventRecordType.ACK]
    assert ack.data["partitions"] == "0-2"
    freed = [entry.record.data for entry in entries if entry.record.type is EventRecordType.BYTES_FREED]
    assert sum(int(str(data["directories"])) for data in freed) == 3
    assert {data["topic"] for data in freed} == {"t"}


async def test_a_fault_in_a_step_ends_the_agent_and_closes_the_connection(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    await note_controller_epoch(zookeeper.open_session)
    app = AgentApp(agent_config(tmp_path), zookeeper.open_session)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(app.run())
        await asyncio.wait_for(app.started.wait(), 30)
        app.loop.state.replicas = None  # type: ignore[assignment]
        async with connected(app) as connection:
            with pytest.raises(ConnectionFailed):
                await connection.ask(addressed(app, become(is_new=True)))
        assert await asyncio.wait_for(run, 30) == ExitCode.FAULT
