"""An agent that comes back after its topics were deleted: real directories, and debts in the fake ZooKeeper."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from lethe.broker.core.replica import ReplicaState
from lethe.protocol.kafka.disk_formats import PARTITION_METADATA, encode_partition_metadata
from lethe.protocol.vocabulary import TopicId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.znodes import Debt, TopicZnode, encode_debt, encode_topic
from tests.fakes.agents import agent_config, running
from tests.fakes.log_dirs import FaultyDisk
from tests.fakes.runtime import reach
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import X, Y


def owed(zookeeper: FakeZooKeeper, topic: str, topic_id: TopicId | None = X, czxid: int = 17) -> str:
    """Broker 1 owes partitions 0 and 1."""
    path = paths.debt(1, topic, czxid)
    put(zookeeper, path, encode_debt(Debt(topic_id, (0, 1), 0, 1_000)))
    return path


def put(zookeeper: FakeZooKeeper, path: str, data: bytes | None) -> None:
    session = zookeeper.model.open_session()
    missing = [each for each in paths.ancestors_of(path) if zookeeper.model.node(each) is None]
    zookeeper.model.multi(session, [*(Create(each, None) for each in missing), Create(path, data)])


def on_disk(root: Path, name: str, topic_id: TopicId | None, log_dir: str = "a") -> Path:
    """A replica's directory with a segment."""
    directory = root / log_dir / name
    directory.mkdir(parents=True)
    (directory / "00000000000000000000.log").write_bytes(b"records")
    if topic_id is not None:
        (directory / PARTITION_METADATA).write_bytes(encode_partition_metadata(topic_id))
    return directory


async def test_it_deletes_what_it_owes_before_it_is_registered(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    debt = owed(zookeeper, "t")
    gone = [on_disk(tmp_path, "t-0", X), on_disk(tmp_path, "t-1", X, "b")]
    kept = on_disk(tmp_path, "u-0", Y)
    config = agent_config(tmp_path, log_segment_delete_delay_ms=1)
    async with running(config, zookeeper.open_session) as app:
        registered = zookeeper.model.node(paths.broker_id(1))
        assert registered is not None
        assert zookeeper.model.node(debt) is None
        assert not any(each.exists() for each in gone)
        await reach(lambda: not app.loop.state.removal.pending)
    assert sorted(path.name for path in (tmp_path / "a").iterdir() if path.is_dir()) == ["u-0"]
    assert (kept / "00000000000000000000.log").read_bytes() == b"records"


@pytest.mark.parametrize("why", ["no id in the debt", "the topic exists", "the trash has it", "no id on disk"])
async def test_what_is_unclear_is_left_to_the_controller(tmp_path: Path, why: str) -> None:
    zookeeper = FakeZooKeeper()
    debt = owed(zookeeper, "t", None if why == "no id in the debt" else X)
    if why == "the topic exists":
        put(zookeeper, paths.topic("t"), encode_topic(TopicZnode({}, X)))
    if why == "the trash has it":
        put(zookeeper, paths.trashed("t"), b"{}")
    directory = on_disk(tmp_path, "t-0", None if why == "no id on disk" else X)
    async with running(agent_config(tmp_path), zookeeper.open_session) as app:
        assert zookeeper.model.node(debt) is not None
        assert app.loop.state.replicas[TopicPartition("t", 0)].state is ReplicaState.LOADED
    assert (directory / "00000000000000000000.log").exists()


async def test_a_new_topic_of_the_name_is_not_touched(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    debt = owed(zookeeper, "t")
    put(zookeeper, paths.topic("t"), encode_topic(TopicZnode({}, Y)))
    old, new = on_disk(tmp_path, "t-0", X), on_disk(tmp_path, "t-1", Y)
    async with running(agent_config(tmp_path), zookeeper.open_session):
        assert zookeeper.model.node(debt) is None
    assert not old.exists()
    assert new.exists()


async def test_a_debt_that_cannot_be_read_does_not_keep_the_agent_from_serving(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    put(zookeeper, paths.debt(1, "t", 17), b"{}")
    readable = owed(zookeeper, "u", Y)
    directory = on_disk(tmp_path, "t-0", X)
    async with running(agent_config(tmp_path), zookeeper.open_session):
        assert zookeeper.model.node(readable) is None
        assert zookeeper.model.node(paths.debt(1, "t", 17)) is not None
    assert directory.exists()


async def test_a_rename_that_fails_keeps_the_debt_and_the_next_start_pays_it(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    debt = owed(zookeeper, "t")
    directory = on_disk(tmp_path, "t-0", X)
    disk = FaultyDisk()

    def fail(call: str, name: str) -> None:
        if (call, name) == ("rename", "t-0"):
            raise OSError(errno.EIO, "Input/output error", name)

    disk.before = fail
    async with running(agent_config(tmp_path), zookeeper.open_session, disk):
        assert zookeeper.model.node(debt) is not None
    assert directory.exists()
    async with running(agent_config(tmp_path), zookeeper.open_session):
        assert zookeeper.model.node(debt) is None
    assert not directory.exists()
