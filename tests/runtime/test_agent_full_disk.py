"""A full disk: deletions go on, because they are what frees it; whoever needs space fails alone, not the directory."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from lethe.broker.core.replica import ReplicaState
from lethe.broker.runtime import app as agent_app
from lethe.protocol.kafka.directory_names import deletion_name
from lethe.protocol.kafka.disk_formats import RECOVERY_POINT_CHECKPOINT, decode_checkpoint
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import TopicPartition
from tests.fakes.agents import agent_config, connected, running
from tests.fakes.full_disk import fill_up, is_full, small_disk
from tests.fakes.log_dirs import FaultyDisk
from tests.fakes.runtime import reach
from tests.fakes.zookeeper import FakeZooKeeper
from tests.runtime.test_agent_app import UNIQUE, addressed
from tests.unit.broker.core.driver import X, Y, become, stop, tombstone

T0, STAYS = TopicPartition("t", 0), TopicPartition("stays", 0)
MIB = 1 << 20


@pytest.fixture
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are written often, so that no test waits seconds for one."""
    monkeypatch.setattr(agent_app, "CHECKPOINT_INTERVAL_S", 0.05)


def checkpointed(log_dir: Path) -> set[TopicPartition]:
    """The partitions in the recovery point file."""
    file = log_dir / RECOVERY_POINT_CHECKPOINT
    return set(decode_checkpoint(file.read_bytes())) if file.exists() else set()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_a_deletion_is_acknowledged_and_removed_where_no_checkpoint_can_be_written(
    tmp_path: Path, number: int, quick_ticks: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    zookeeper, disk = FakeZooKeeper(), FaultyDisk()
    config = agent_config(tmp_path, log_segment_delete_delay_ms=1, log_dirs=str(tmp_path / "a"))
    async with running(config, zookeeper.open_session, disk) as app, connected(app) as connection:
        await connection.ask(addressed(app, become("stays", Y, is_new=True)))
        await connection.ask(addressed(app, become(is_new=True)))
        await reach(lambda: checkpointed(tmp_path / "a") == {T0, STAYS})
        disk.fail_with(number, on="replace")
        await connection.ask(addressed(app, tombstone()))
        answer = await connection.ask(addressed(app, stop()))
        assert [row.error for row in answer.rows] == [ErrorCode.NONE]  # type: ignore[union-attr]
        state = app.loop.state
        await reach(lambda: state.removal.removed_directories == 1)
        assert not state.has_offline_log_dir
        assert state.replicas[STAYS].state is ReplicaState.HOSTED
        assert sorted(path.name for path in (tmp_path / "a").iterdir() if path.is_dir()) == ["stays-0"]
        assert checkpointed(tmp_path / "a") == {T0, STAYS}, "not written while there is no space"
        disk.heal()
        await reach(lambda: checkpointed(tmp_path / "a") == {STAYS})
    said = [record.message for record in caplog.records if "checkpoint files" in record.message]
    assert len(said) == 2, said
    assert "the disk is full" in said[0]
    assert "there is space again" in said[1]


@pytest.mark.parametrize("call", ["mkdir", "write", "allocate"])
async def test_what_needs_space_fails_alone_and_leaves_nothing(tmp_path: Path, call: str) -> None:
    zookeeper, disk = FakeZooKeeper(), FaultyDisk()
    config = agent_config(tmp_path, log_dirs=str(tmp_path / "a"), lethe_fill_bytes=100)
    async with running(config, zookeeper.open_session, disk) as app, connected(app) as connection:
        await connection.ask(addressed(app, become("stays", Y, is_new=True)))
        disk.fail_with(errno.ENOSPC, on=call)
        answer = await connection.ask(addressed(app, become(is_new=True)))
        assert [row.error for row in answer.rows] == [ErrorCode.KAFKA_STORAGE_ERROR]  # type: ignore[union-attr]
        state = app.loop.state
        assert not state.has_offline_log_dir
        assert state.replicas[STAYS].state is ReplicaState.HOSTED
        left = {path.name for path in (tmp_path / "a").glob("t-0/*")}
        assert left <= {"partition.metadata"}
        assert (tmp_path / "a" / "t-0").exists() == (call == "allocate")
        disk.heal()
        answer = await connection.ask(addressed(app, become()))
        assert [row.error for row in answer.rows] == [ErrorCode.NONE]  # type: ignore[union-attr]
        assert state.replicas[T0].size_bytes > 100


async def test_a_rename_without_space_is_answered_and_can_be_repeated(tmp_path: Path) -> None:
    zookeeper, disk = FakeZooKeeper(), FaultyDisk()
    config = agent_config(tmp_path, log_dirs=str(tmp_path / "a"))
    async with running(config, zookeeper.open_session, disk) as app, connected(app) as connection:
        await connection.ask(addressed(app, become(is_new=True)))
        await connection.ask(addressed(app, tombstone()))
        disk.fail_with(errno.ENOSPC, on="rename")
        answer = await connection.ask(addressed(app, stop()))
        assert [row.error for row in answer.rows] == [ErrorCode.KAFKA_STORAGE_ERROR]  # type: ignore[union-attr]
        assert not app.loop.state.has_offline_log_dir
        disk.heal()
        answer = await connection.ask(addressed(app, stop()))
        assert [row.error for row in answer.rows] == [ErrorCode.NONE]  # type: ignore[union-attr]


# --- a disk that is really full -----------------------------------------------------------------------------------


async def test_a_full_file_system_is_freed_by_a_deletion(
    tmp_path: Path, quick_ticks: None, caplog: pytest.LogCaptureFixture
) -> None:
    with small_disk(tmp_path / "disk", 8 * MIB) as place:
        zookeeper = FakeZooKeeper()
        config = agent_config(place, log_segment_delete_delay_ms=1, log_dirs=str(place / "a"), lethe_fill_bytes=2 * MIB)
        async with running(config, zookeeper.open_session) as app, connected(app) as connection:
            await connection.ask(addressed(app, become("stays", Y, is_new=True)))
            await connection.ask(addressed(app, become(is_new=True)))
            fill_up(place)
            assert is_full(place)
            await connection.ask(addressed(app, tombstone()))
            answer = await connection.ask(addressed(app, stop()))
            assert [row.error for row in answer.rows] == [ErrorCode.NONE]  # type: ignore[union-attr]
            state = app.loop.state
            await reach(lambda: state.removal.removed_directories == 1)
            assert not state.has_offline_log_dir
            assert not is_full(place)
            await reach(lambda: checkpointed(place / "a") == {STAYS})
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_after_a_restart_on_a_full_file_system_what_was_renamed_is_removed(
    tmp_path: Path, quick_ticks: None
) -> None:
    """The controller announces a replica of the topic in deletion again, which finds no space either."""
    with small_disk(tmp_path / "disk", 4 * MIB) as place:
        zookeeper = FakeZooKeeper()
        log_dirs = str(place / "a")
        async with running(agent_config(place, log_dirs=log_dirs), zookeeper.open_session) as app:
            pass
        renamed = place / "a" / deletion_name(T0, UNIQUE)
        renamed.mkdir()
        (renamed / "00000000000000000000.log").write_bytes(bytes(MIB))
        fill_up(place)
        config = agent_config(place, log_dirs=log_dirs, log_segment_delete_delay_ms=1_000)
        async with running(config, zookeeper.open_session) as app, connected(app) as connection:
            assert is_full(place)
            answer = await connection.ask(addressed(app, become(topic_id=X, leader=-1, replicas=(1, 2))))
            assert [row.error for row in answer.rows] == [ErrorCode.KAFKA_STORAGE_ERROR]  # type: ignore[union-attr]
            assert not app.loop.state.has_offline_log_dir
            await reach(lambda: not renamed.exists())
            answer = await connection.ask(addressed(app, become(topic_id=X, leader=-1, replicas=(1, 2))))
            assert [row.error for row in answer.rows] == [ErrorCode.NONE]  # type: ignore[union-attr]
