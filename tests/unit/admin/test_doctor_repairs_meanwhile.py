"""A repair gives way where its ill has become something else between the look and the write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lethe.admin.doctor_backup import BackupFile
from lethe.admin.doctor_fix import RepairOutcome, repair_znodes
from lethe.admin.doctor_ills import IllKind
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, Operation, SetData
from lethe.protocol.zookeeper.znodes import (
    decode_reassignment,
    encode_preferred_replica_election,
    encode_reassignment,
)
from tests.fakes.sick_cluster import ABSENT, FakeBrokers, make_healthy, tree_of
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, elect
from tests.unit.admin.test_doctor_fix import ills, meddled, planted

ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


@pytest.fixture
async def session() -> AsyncIterator[FakeSession]:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        await make_healthy(session)
        yield session


@pytest.fixture
def brokers(session: FakeSession) -> FakeBrokers:
    return FakeBrokers(session)


@pytest.fixture
def backup(tmp_path: Path) -> BackupFile:
    return BackupFile(tmp_path / "backup", None, 5)


@pytest.mark.parametrize("in_last_moment", [False, True])
async def test_a_reassignment_stays_where_its_broker_has_come(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile, in_last_moment: bool
) -> None:
    ill = await planted(session, brokers, IllKind.REASSIGNMENT_TO_ABSENT_BROKER)

    async def register() -> None:
        await session.ensure_path(paths.broker_id(ABSENT))

    if not in_last_moment:
        await register()
    result = await repair_znodes(meddled(session, register, times=int(in_last_moment)), ill, backup)
    assert result.outcome is (RepairOutcome.REFUSED if in_last_moment else RepairOutcome.GONE)
    assert paths.REASSIGN_PARTITIONS in await tree_of(session)


async def test_a_partition_that_is_to_move_elsewhere_by_now_stays_in_the_request(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    asked = encode_reassignment({ORDERS[0]: (1, ABSENT), ORDERS[1]: (1, ABSENT)})
    await apply(session, Create(paths.REASSIGN_PARTITIONS, asked))
    (ill,) = await ills(session, brokers)
    newer = {ORDERS[0]: (2, 1), ORDERS[1]: (1, ABSENT)}
    await apply(session, SetData(paths.REASSIGN_PARTITIONS, encode_reassignment(newer), ANY_VERSION))
    assert (await repair_znodes(session, ill, backup)).outcome is RepairOutcome.REPAIRED
    left = (await tree_of(session))[paths.REASSIGN_PARTITIONS]
    assert decode_reassignment(left) == {ORDERS[0]: (2, 1)}


@pytest.mark.parametrize(
    "kind, path, data",
    [
        (
            IllKind.PREFERRED_ELECTION_LEFT,
            paths.PREFERRED_REPLICA_ELECTION,
            encode_preferred_replica_election(ORDERS),
        ),
        (IllKind.REQUEST_FOR_LETHE, paths.forget(ABSENT), b"{}"),
    ],
)
async def test_a_request_that_was_made_anew_is_another_one(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile, kind: IllKind, path: str, data: bytes
) -> None:
    ill = await planted(session, brokers, kind)
    anew: tuple[Operation, ...] = (Delete(path), Create(path, data))
    await apply(session, *anew)
    result = await repair_znodes(session, ill, backup)
    assert (result.outcome, result.why) == (RepairOutcome.REFUSED, "it was written anew since it was found")
    assert (await tree_of(session))[path] == data


async def test_a_request_is_left_to_a_controller_of_lethes_that_is_active_by_now(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    ill = await planted(session, brokers, IllKind.REQUEST_FOR_LETHE)
    await apply(session, Delete(paths.CONTROLLER))
    await elect(session, 1001, admin="http://localhost:1")
    assert (await repair_znodes(session, ill, backup)).outcome is RepairOutcome.GONE
    assert ill.what in await tree_of(session)
