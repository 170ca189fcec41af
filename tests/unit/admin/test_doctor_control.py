"""When `lethe doctor --fix` does not take control, and which topics it may delete then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.admin.doctor_backup import BackupFile
from lethe.admin.doctor_control import ControlRepairs, topics_of
from lethe.admin.doctor_ills import Ill, IllKind
from lethe.admin.refusal import Refusal
from lethe.admin.rescue_run import RescueOptions
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete
from tests.fakes.sick_cluster import PLANTS, FakeBrokers, make_healthy
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, elect

GHOST = Ill(IllKind.CACHED_WITHOUT_TOPIC, "ghost", "ghost")
HALF = Ill(IllKind.HALF_DELETED_TOPIC, paths.topic("half"), "half")
INCOMPLETE = Ill(IllKind.INCOMPLETE_TOPIC, paths.topic("orders"), "orders")


@pytest.fixture
async def session() -> AsyncIterator[FakeSession]:
    """A cluster whose brokers are all down."""
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        await make_healthy(session)
        await apply(session, Delete(paths.broker_id(1)), Delete(paths.broker_id(2)))
        yield session


async def refusal(session: FakeSession, tmp_path: Path, ills: tuple[Ill, ...], *others: Ill) -> str:
    backup = BackupFile(tmp_path / "backup", None, 0)
    options = RescueOptions("127.0.0.1:1", PLAINTEXT_REACH, broker_timeout_ms=1)
    repairs = ControlRepairs(session, FakeBrokers(session).questions, options, (*ills, *others), lambda _: None)
    with pytest.raises(Refusal) as refused:
        await repairs.repair(ills, backup)
    assert not backup.path.exists()
    return str(refused.value)


async def test_not_while_a_new_controller_would_make_missing_states_anew(session: FakeSession, tmp_path: Path) -> None:
    said = await refusal(session, tmp_path, (GHOST,), INCOMPLETE)
    assert said.startswith("a controller that takes over would make states anew below /brokers/topics/orders")


async def test_not_from_one_of_lethe_s_controllers(session: FakeSession, tmp_path: Path) -> None:
    await apply(session, Delete(paths.CONTROLLER))
    await elect(session, 1001, admin="http://h:1")
    assert "lethe controller-resign" in await refusal(session, tmp_path, (GHOST,))


async def test_a_deletion_is_not_finished_during_a_pause(session: FakeSession, tmp_path: Path) -> None:
    brokers = FakeBrokers(session)
    await PLANTS[IllKind.HALF_DELETED_TOPIC](session, brokers)
    await PLANTS[IllKind.DELETIONS_PAUSED](session, brokers)
    assert "Deletions are paused" in await refusal(session, tmp_path, (HALF, GHOST))


def test_only_half_deleted_topics_may_be_deleted() -> None:
    assert topics_of([GHOST, HALF, INCOMPLETE]) == ("half",)
