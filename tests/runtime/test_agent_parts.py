"""The smaller parts of the agent's runtime: the pace of removal, the recorder, the sessions, who may touch the disk."""

from __future__ import annotations

import ast
import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lethe.adapters.clock import SystemClock
from lethe.adapters.journal import JournalCounts
from lethe.broker.core.effects import DirectoryRef
from lethe.broker.core.inputs import TopicAbsence, TopicIdUnavailable
from lethe.broker.runtime.log_dirs import LogDirs
from lethe.broker.runtime.metrics import METRICS, AgentCounts, AgentMetrics
from lethe.broker.runtime.ownership import CannotStart
from lethe.broker.runtime.recorder import Recorder
from lethe.broker.runtime.removal_pace import RemovalLimits, RemovalPace
from lethe.broker.runtime.remover import Remover
from lethe.broker.runtime.sessions import Sessions
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.kafka.directory_names import deletion_name
from lethe.protocol.own_settings import REMOVED_BYTES_PER_SECOND, REMOVED_FILES_PER_SECOND
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, SetData
from lethe.protocol.zookeeper.paths import broker_id, topic
from lethe.protocol.zookeeper.znodes import TopicZnode, encode_config, encode_topic
from tests.fakes.forbidden_znodes import NO_AUTH, forbidding
from tests.fakes.runtime import Facts, reach
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import X

ME = Broker(BrokerId(1), BrokerEpoch(-1), (Endpoint("PLAINTEXT", "h", 1),))


# --- removal ------------------------------------------------------------------------------------------------------


def fixed(files: int = 0, size: int = 0) -> Callable[[], RemovalLimits]:
    return lambda: RemovalLimits(files, size)


async def test_removal_rests_as_long_as_the_bytes_demand(tmp_path: Path) -> None:
    """100 bytes a second are five in a slice: three files of two, and the last directory goes with the last file."""
    log_dirs = LogDirs([tmp_path], broker_id=1, fill_bytes=0, fill_segment_bytes=1)
    log_dirs.open()
    names = [deletion_name(TopicPartition("t", n), f"{n:032x}") for n in range(2)]
    for name in names:
        (tmp_path / name).mkdir()
        for n in range(6):
            (tmp_path / name / str(n)).write_bytes(b"12")
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    with ThreadPoolExecutor(1) as thread:
        remover = Remover(log_dirs, thread, fixed(size=100), rest)
        outcomes = await remover.remove([DirectoryRef(str(tmp_path), name) for name in names])
    assert [(o.error, o.size_bytes, o.files) for o in outcomes] == [(None, 12, 6)] * 2
    assert list(tmp_path.glob("*-delete")) == []
    assert len(rests) >= 4
    assert all(rest_s <= 6 / 100 for rest_s in rests)
    log_dirs.close()


async def test_limits_of_removal_are_followed_in_zookeeper() -> None:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        pace = RemovalPace(1, RemovalLimits(5, 6))
        await pace.refresh(session)
        assert pace.limits == (5, 6)
        for path, config in (
            (paths.config_broker_default(), {REMOVED_BYTES_PER_SECOND: "10", REMOVED_FILES_PER_SECOND: "7"}),
            (paths.config_broker(1), {REMOVED_BYTES_PER_SECOND: "20"}),
        ):
            await session.ensure_path(path)
            await session.multi([SetData(path, encode_config(config), -1)])
        await pace.refresh(session)
        assert pace.limits == (7, 20)
        for unclear in (b"{", encode_config({REMOVED_BYTES_PER_SECOND: "many"})):
            await session.multi([SetData(paths.config_broker(1), unclear, -1)])
            await pace.refresh(session)
            assert pace.limits == (7, 20), "what cannot be read changes nothing"


async def test_limits_of_removal_that_may_not_be_read_are_logged_once_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        pace = RemovalPace(1, RemovalLimits(5, 6))
        for _ in range(3):
            await pace.refresh(forbidding(session, paths.config_broker(1)))
        assert pace.limits == (5, 6)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"the limits of removal stay as they are, because they cannot be read: /config/brokers/1: {NO_AUTH}"
    )


@pytest.mark.parametrize("files_per_second", [0, 100])
async def test_removal_rests_as_long_as_the_pace_demands(tmp_path: Path, files_per_second: int) -> None:
    """Five directories of ten files, and the directories themselves, are 55 entries."""
    log_dirs = LogDirs([tmp_path], broker_id=1, fill_bytes=0, fill_segment_bytes=1)
    log_dirs.open()
    names = [deletion_name(TopicPartition("t", n), f"{n:032x}") for n in range(5)]
    for name in names:
        (tmp_path / name).mkdir()
        for n in range(10):
            (tmp_path / name / str(n)).write_bytes(b"12")
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    with ThreadPoolExecutor(1) as thread:
        remover = Remover(log_dirs, thread, fixed(files=files_per_second), rest)
        outcomes = await remover.remove([DirectoryRef(str(tmp_path), name) for name in names])
    assert [(o.error, o.size_bytes, o.files) for o in outcomes] == [(None, 20, 10)] * 5
    assert list(tmp_path.glob("*-delete")) == []
    if files_per_second:
        assert len(rests) == 10, "five entries, now and then with a directory, at a time"
        assert sum(rests) <= 55 / files_per_second
    else:
        assert rests == []
    log_dirs.close()


async def test_one_directory_that_cannot_be_removed_does_not_hold_up_the_others(tmp_path: Path) -> None:
    log_dirs = LogDirs([tmp_path], broker_id=1, fill_bytes=0, fill_segment_bytes=1)
    log_dirs.open()
    bad, good = (deletion_name(TopicPartition("t", n), f"{n:032x}") for n in range(2))
    (tmp_path / bad).write_text("a file")
    (tmp_path / good).mkdir()
    with ThreadPoolExecutor(1) as thread:
        remover = Remover(log_dirs, thread, fixed())
        outcomes = await remover.remove([DirectoryRef(str(tmp_path), name) for name in (bad, good)])
    assert [outcome.error is None for outcome in outcomes] == [False, True]
    assert (tmp_path / bad).read_text() == "a file"
    log_dirs.close()


# --- sessions -----------------------------------------------------------------------------------------------------


async def test_what_zookeeper_says_about_topics() -> None:
    zookeeper = FakeZooKeeper()
    epochs: list[BrokerEpoch] = []

    async def prepare(session: object) -> Broker:
        await session.ensure_path("/brokers/ids")  # type: ignore[attr-defined]
        return ME

    sessions = Sessions(zookeeper.open_session, SystemClock(), prepare=prepare, registered=epochs.append)
    assert await sessions.ask_topic_ids(["t"]) == (TopicIdUnavailable("no ZooKeeper session has been opened yet"),)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(sessions.run())
        await reach(lambda: sessions.session is not None)
        session = sessions.session
        assert session is not None
        await session.ensure_path("/brokers/topics")
        await session.multi([Create(topic("known"), encode_topic(TopicZnode({}, X)))])
        await session.multi([Create(topic("old"), encode_topic(TopicZnode({}, None)))])
        await session.multi([Create(topic("bad"), b"nonsense")])
        known, old, bad, missing = await sessions.ask_topic_ids(["known", "old", "bad", "missing"])
        assert (known, old, missing) == (X, TopicAbsence.NO_ID, TopicAbsence.NO_TOPIC)
        assert isinstance(bad, TopicIdUnavailable)
        assert topic("bad") in bad.reason
        run.cancel()
    node = zookeeper.model.node(broker_id(1))
    assert node is None
    assert len(epochs) == 1


async def test_an_id_that_stays_taken_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = FakeZooKeeper()
    monkeypatch.setattr("tests.fakes.zookeeper.TIMEOUT_MS", -600)
    async with zookeeper.open_session(lambda fired: None) as other:
        await other.ensure_path("/brokers/ids")
        await other.multi([Create(broker_id(1), None, ephemeral=True)])

        async def prepare(_: object) -> Broker:
            return ME

        sessions = Sessions(zookeeper.open_session, SystemClock(), prepare=prepare, registered=lambda epoch: None)
        with pytest.raises(CannotStart, match="is registered as broker 1"):
            await asyncio.wait_for(sessions.run(), 60)


async def test_the_registration_of_a_process_that_died_is_waited_for() -> None:
    zookeeper = FakeZooKeeper()
    epochs: list[BrokerEpoch] = []
    async with zookeeper.open_session(lambda fired: None) as dead:
        await dead.ensure_path("/brokers/ids")
        await dead.multi([Create(broker_id(1), None, ephemeral=True)])

        async def prepare(_: object) -> Broker:
            return ME

        sessions = Sessions(zookeeper.open_session, SystemClock(), prepare=prepare, registered=epochs.append)
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(sessions.run())
            await reach(lambda: len(zookeeper.sessions) == 2)
            zookeeper.expire(dead.session_id)
            await reach(lambda: epochs)
            run.cancel()


# --- event records and metrics ----------------------------------------------------------------------------------


def test_a_failed_log_directory_is_an_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(None, AgentCounts())
    with caplog.at_level(logging.INFO):
        recorder.record(EventRecord(EventRecordType.BROKER, "broker/1", {"happened": "registered", "broker_epoch": 3}))
        failed = {"happened": "log directory failed", "log_dir": "/a", "error": "EROFS: Read-only file system"}
        recorder.record(EventRecord(EventRecordType.BROKER, "broker/1", failed))
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.ERROR]


def test_facts_go_to_journal_and_counts_and_a_flood_of_refusals_is_a_few_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records, counts = Facts(), AgentCounts()
    recorder = Recorder(records, counts)
    with caplog.at_level(logging.INFO):
        for _ in range(100):
            recorder.record(EventRecord(EventRecordType.REFUSAL, "broker/1", {"what": "STOP_REPLICA", "why": "x"}))
        recorder.record(
            EventRecord(
                EventRecordType.REQUEST,
                "broker/1",
                {"api": "STOP_REPLICA", "answers": {"NONE": 3, "KAFKA_STORAGE_ERROR": 1}},
            )
        )
        recorder.record(EventRecord(EventRecordType.SET_ASIDE, "topic/t", {"reason": "another incarnation"}))
    assert len(records.seen) == 102
    assert sum("refusal" in record.message for record in caplog.records) == 20
    assert sum("set-aside" in record.message for record in caplog.records) == 1
    assert counts.refusals == {"STOP_REPLICA": 100}
    assert counts.answers == {("STOP_REPLICA", "NONE"): 3, ("STOP_REPLICA", "KAFKA_STORAGE_ERROR"): 1}


def test_every_declared_metric_is_measured() -> None:
    from tests.unit.broker.core.driver import Driver

    metrics = AgentMetrics()
    metrics.state, metrics.journal, metrics.journal_topic = Driver().state, JournalCounts(), JournalCounts(5, 3)
    text = metrics.text().decode()
    for declared in METRICS:
        assert f"# TYPE {declared.name} {declared.kind.value}\n" in text, declared
    assert "\nlethe_journal_topic_lines_total 5.0\n" in text
    assert "\nlethe_journal_topic_lost_total 3.0\n" in text


def test_an_agent_that_has_never_had_a_session_says_so() -> None:
    """The alert needs a series: one that is not there is no reason to fire."""
    assert "\nlethe_agent_registered 0.0\n" in AgentMetrics().text().decode()


def test_a_journal_without_files_shows_only_its_topic() -> None:
    metrics = AgentMetrics()
    metrics.journal_topic = JournalCounts(failing="no broker")
    text = metrics.text().decode()
    assert "\nlethe_journal_topic_failing 1.0\n" in text
    assert "lethe_journal_lines" not in text


# --- who touches the disk -----------------------------------------------------------------------------------------

CHANGES = {"mkdir", "makedirs", "rename", "replace", "unlink", "remove", "rmdir", "rmtree", "truncate", "ftruncate",
           "symlink", "link", "posix_fallocate", "write", "write_text", "write_bytes"}  # fmt: skip


def test_only_disk_py_makes_system_calls_that_change_anything() -> None:
    """And what it offers for removal is used by log_dirs.py alone."""
    offenders: list[str] = []
    for path in sorted(Path("broker").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            called, owner = node.func.attr, ast.unparse(node.func.value)
            if owner in ("os", "shutil", "pathlib") and called in CHANGES and path.name != "disk.py":
                offenders.append(f"{path}: {owner}.{called}")
            if (
                owner.endswith(("disk", "_disk"))
                and called in ("unlink", "rmdir", "rename")
                and path.name
                not in (
                    "disk.py",
                    "log_dirs.py",
                )
            ):
                offenders.append(f"{path}: {owner}.{called}")
    assert offenders == []
