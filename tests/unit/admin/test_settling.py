"""Settling what a broker owes: when it is refused, and the script for its host, which removes nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from lethe.adapters.debts import OpenDebt
from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.rescue_run import RescueOptions
from lethe.admin.settling import own_debts, script, settle_plan
from lethe.admin.topic_znodes import NoCluster
from lethe.cli.answer import Answer
from lethe.cli.brokers_settle import printed, settled
from lethe.protocol.kafka.disk_formats import PARTITION_METADATA, encode_partition_metadata
from lethe.protocol.vocabulary import BrokerId, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, GetChildren, Operation, SetData
from lethe.protocol.zookeeper.znodes import Debt, TopicZnode, encode_debt, encode_topic
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, elect

OLD, NEW = TopicId(UUID(int=2**120 + 7)), TopicId(UUID(int=2**121 + 8))
DEBT = Debt(OLD, (0, 2), 3, 1_000, 64)


@pytest.fixture
async def owing(session: FakeSession) -> FakeSession:
    """Broker 3 owes a topic and is registered."""
    await session.ensure_path(paths.debts_of(3))
    await apply(session, Create(paths.debt(3, "gone", 17), encode_debt(DEBT)))
    return session


@pytest.mark.parametrize("admin, takes_control", [("http://localhost:1", False), (None, True)])
async def test_who_settles(owing: FakeSession, admin: str | None, takes_control: bool) -> None:
    await elect(owing, 1, admin=admin)
    plan = await settle_plan(owing, 3)
    assert plan.takes_control is takes_control
    assert [debt.debt for debt in plan.debts] == [DEBT]
    assert (await settle_plan(owing, 2)).debts == ()


@pytest.mark.parametrize(
    "admin, command", [("http://localhost:1", "lethe brokers forget 3"), (None, "lethe rescue --forget 3")]
)
async def test_an_absent_broker_settles_nothing(owing: FakeSession, admin: str | None, command: str) -> None:
    await elect(owing, 1, admin=admin)
    await apply(owing, Delete(paths.broker_id(3)))
    with pytest.raises(Refusal, match=f"{command}$"):
        await settle_plan(owing, 3)


async def test_a_debt_that_cannot_be_read_is_not_nothing(owing: FakeSession) -> None:
    await apply(owing, Create(paths.debt(3, "odd", 18), b"?"))
    with pytest.raises(Refusal, match="/lethe/debts/3/odd@18") as refused:
        await own_debts(owing, 3)
    assert refused.value.exit is Exit.UNREACHABLE


def replica(log_dir: Path, name: str, topic_id: TopicId | None) -> Path:
    directory = log_dir / name
    directory.mkdir(parents=True)
    (directory / "0.log").write_bytes(b"records")
    if topic_id is not None:
        (directory / PARTITION_METADATA).write_bytes(encode_partition_metadata(topic_id))
    return directory


def run(tmp_path: Path, *log_dirs: Path, debts: tuple[OpenDebt, ...] | None = None) -> subprocess.CompletedProcess[str]:
    owed = (OpenDebt(BrokerId(3), "gone", 17, DEBT, 0),) if debts is None else debts
    file = tmp_path / "settle.sh"
    file.write_text("\n".join(script(3, owed, {})))
    return subprocess.run(["sh", str(file), *map(str, log_dirs)], capture_output=True, text=True, timeout=60)


def log_dir_of(tmp_path: Path, name: str, broker: int = 3) -> Path:
    log_dir = tmp_path / name
    log_dir.mkdir()
    (log_dir / "meta.properties").write_text(f"version=0\nbroker.id={broker}\n")
    return log_dir


def test_the_script_removes_what_has_the_deleted_topics_id_and_nothing_else(tmp_path: Path) -> None:
    a, b = log_dir_of(tmp_path, "a b"), log_dir_of(tmp_path, "b")
    gone = [replica(a, "gone-0", OLD), replica(b, "gone-2", OLD)]
    kept = [
        replica(b, "gone-0", NEW),
        replica(a, "gone-1", OLD),
        replica(a, "gone-2", None),
        replica(a, "other-0", OLD),
    ]
    (b / "link").symlink_to(kept[1])
    ran = run(tmp_path, a, b)
    assert ran.returncode == 0, ran.stderr
    assert not any(each.exists() for each in gone)
    assert all((each / "0.log").exists() for each in kept)
    assert f"kept {b}/gone-0: it does not say that it is of topic id" in ran.stdout
    assert run(tmp_path, a, b).returncode == 0, "it may run again"


def test_the_script_follows_no_link(tmp_path: Path) -> None:
    a, elsewhere = log_dir_of(tmp_path, "a"), replica(tmp_path / "elsewhere", "gone-0", OLD)
    (a / "gone-0").symlink_to(elsewhere)
    assert run(tmp_path, a).returncode == 0
    assert (elsewhere / "0.log").exists()


def test_the_script_stops_at_the_disk_of_another_broker(tmp_path: Path) -> None:
    mine, other = log_dir_of(tmp_path, "a"), log_dir_of(tmp_path, "b", broker=33)
    directory = replica(mine, "gone-0", OLD)
    ran = run(tmp_path, mine, other)
    assert (ran.returncode, "nothing was removed" in ran.stderr) == (1, True)
    assert directory.exists()
    assert run(tmp_path).returncode == 2, "without any log directory"


def test_the_script_removes_nothing_by_its_name_alone(tmp_path: Path) -> None:
    a = log_dir_of(tmp_path, "a")
    directory = replica(a, "gone-0", None)
    debt = OpenDebt(BrokerId(3), "gone", 17, Debt(None, (0,), 3, 1_000), 0)
    assert run(tmp_path, a, debts=(debt,)).returncode == 0
    assert directory.exists()


# --- topics that are there ------------------------------------------------------------------------------------------


def topic(topic_id: TopicId | None) -> bytes:
    return encode_topic(TopicZnode({0: ReplicaAssignment((3,))}, topic_id))


@pytest.mark.parametrize(
    "path, data, why",
    [
        (paths.topic("gone"), topic(OLD), "its topic exists"),
        (paths.topic("gone"), topic(None), "its topic exists, or one of that name without an id"),
        (paths.topic("gone"), b"?", "the topic of that name cannot be read"),
        (paths.trashed("gone"), b"?", "a topic of that name is in the trash"),
        (paths.topic("gone"), topic(NEW), None),
    ],
)
async def test_the_script_leaves_a_topic_that_exists(
    owing: FakeSession, tmp_path: Path, path: str, data: bytes, why: str | None
) -> None:
    """A deletion that was called off leaves its debt behind until a controller of Lethe's finds that."""
    await owing.ensure_path(paths.parent_of(path))
    await apply(owing, Create(path, data))
    file, log_dir = tmp_path / "settle.sh", log_dir_of(tmp_path, "a")
    directory = replica(log_dir, "gone-0", OLD)
    file.write_text("\n".join((await printed(owing, 3)).lines))
    ran = subprocess.run(["sh", str(file), str(log_dir)], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert directory.exists() is (why is not None)
    assert why is None or f"kept partitions 0,2 of gone: {why}" in ran.stdout


async def test_the_script_is_in_the_json_too(owing: FakeSession) -> None:
    await owing.ensure_path(paths.topic("gone"))
    answer = await printed(owing, 3)
    assert isinstance(answer.data, dict)
    assert answer.data["script"] == "".join(f"{line}\n" for line in answer.lines)
    assert answer.data["kept"] == [
        {"path": "/lethe/debts/3/gone@17", "why": answer.lines[-1].split(": ", 1)[1].rstrip("'")}
    ]


def test_what_the_script_leaves_is_named_when_it_runs(tmp_path: Path) -> None:
    a = log_dir_of(tmp_path, "a")
    (a / "gone-0").symlink_to(replica(tmp_path / "elsewhere", "gone-0", OLD))
    assert f"kept {a}/gone-0: it is a symbolic link" in run(tmp_path, a).stdout
    odd = OpenDebt(BrokerId(3), "it's $(touch x)", 17, Debt(None, (0,), 3, 1_000), 0)
    assert (
        "kept partitions 0 of it's $(touch x): no id tells it from a later topic"
        in run(tmp_path, a, debts=(odd,)).stdout
    )


# --- what is said -----------------------------------------------------------------------------------------------------


async def test_where_no_cluster_is_nothing_is_said_to_be_owed() -> None:
    async with FakeZooKeeper().open_session(lambda _: None) as nowhere:
        for command in (settle_plan, printed):
            with pytest.raises(NoCluster):
                await command(nowhere, 3)


class Meddling:
    """A session in which something is written before the debts are read for the second time: while they are awaited."""

    def __init__(self, session: FakeSession, *writes: Operation) -> None:
        self._session, self._writes, self._looks = session, writes, 0

    async def read(self, reads: Sequence[Any]) -> Any:
        self._looks += GetChildren(paths.debts_of(3)) in reads
        if self._looks == 2 and self._writes:
            await apply(self._session, *self._writes)
            self._writes = ()
        return await self._session.read(reads)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


async def settling(session: FakeSession, *writes: Operation, timeout_ms: int = 60_000) -> Answer:
    await elect(session, 1, admin="http://localhost:1")
    meddling = cast(ZooKeeperSession, Meddling(session, *writes))
    options = RescueOptions("nowhere:1", PLAINTEXT_REACH, timeout_ms=timeout_ms)
    return await settled(meddling, 3, options, confirm=None, say=lambda _: None)


async def test_debts_that_are_gone_are_settled_where_the_broker_is_there(owing: FakeSession) -> None:
    answer = await settling(owing, Delete(paths.debt(3, "gone", 17)))
    assert (answer.exit, answer.lines) == (
        Exit.OK,
        ("2 partitions of 1 deleted topic, 64 bytes, since 1970-01-01T00:00:01.000Z: settled.",),
    )


async def test_debts_that_are_written_off_meanwhile_are_not_settled(owing: FakeSession) -> None:
    answer = await settling(owing, Delete(paths.broker_id(3)), Delete(paths.debt(3, "gone", 17)))
    assert answer.exit is Exit.UNREACHABLE
    assert answer.lines[0].endswith(
        ": not owed any more. Broker 3 is not registered any more, so whether it has deleted them is not known."
    )


async def test_a_debt_that_was_written_again_is_left_and_not_settled(owing: FakeSession) -> None:
    again = encode_debt(replace(DEBT, partitions=(0,)))
    answer = await settling(owing, SetData(paths.debt(3, "gone", 17), again, ANY_VERSION), timeout_ms=1)
    assert (answer.exit, len(answer.lines)) == (Exit.TIMED_OUT, 1)
    assert answer.lines[0].startswith("Left: ")
