"""Settling what a broker owes: when it is refused, and the script for its host, which removes nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from lethe.adapters.debts import OpenDebt
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.settling import own_debts, script, settle_plan
from lethe.protocol.kafka.disk_formats import PARTITION_METADATA, encode_partition_metadata
from lethe.protocol.vocabulary import BrokerId, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.znodes import Debt, encode_debt
from tests.fakes.zookeeper import FakeSession
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


async def test_an_absent_broker_settles_nothing(owing: FakeSession) -> None:
    await apply(owing, Delete(paths.broker_id(3)))
    with pytest.raises(Refusal, match="lethe brokers forget 3"):
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
    file.write_text("\n".join(script(3, owed)))
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
