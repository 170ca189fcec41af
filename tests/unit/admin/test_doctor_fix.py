"""Repairs change what they say and nothing else, give way to what has changed, and can be taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.doctor_backup import BackupFile, BackupUnusable, read_backup
from lethe.admin.doctor_fix import NO_FENCE, Choice, RepairOutcome, RepairResult, fix, repair_znodes
from lethe.admin.doctor_ills import Ill, IllKind, RepairWay
from lethe.admin.doctor_look import examine
from lethe.admin.doctor_restore import plan_restore, restore
from lethe.admin.doctor_rules import diagnose, suspects
from lethe.admin.refusal import Exit, Refusal
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, MultiOutcome, Operation, SetData
from lethe.protocol.zookeeper.znodes import TrashPhase, encode_config, encode_reassignment
from tests.fakes.questions import agrees
from tests.fakes.sick_cluster import EPOCH, PLANTS, FakeBrokers, make_healthy, make_topic, tree_of
from tests.fakes.trash import ENTRY, in_trash
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply

WRITTEN = [kind for kind in IllKind if kind.value.way is RepairWay.ZNODES]
NOTIFICATIONS = (paths.CONFIG_CHANGES + "/", paths.ACL_CHANGES + "/")
RESTORED = [kind for kind in WRITTEN if kind is not IllKind.CONTROLLER_NOT_REGISTERED]


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


async def ills(session: ZooKeeperSession, brokers: FakeBrokers) -> tuple[Ill, ...]:
    return diagnose(await examine(session, brokers.questions, suspects, settle_s=0)).ills


async def planted(session: FakeSession, brokers: FakeBrokers, kind: IllKind) -> Ill:
    await PLANTS[kind](session, brokers)
    (ill,) = await ills(session, brokers)
    return ill


def quiet(tree: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """Without the notifications that a repair leaves for brokers and authorizers."""
    return {path: data for path, data in tree.items() if not path.startswith(NOTIFICATIONS)}


def changed(one: dict[str, bytes | None], other: dict[str, bytes | None]) -> set[str]:
    return {path for path in one.keys() | other.keys() if one.get(path, b"-") != other.get(path, b"-")}


@pytest.mark.parametrize("kind", WRITTEN)
async def test_each_is_repaired_and_nothing_else_changes(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile, kind: IllKind
) -> None:
    healthy = await tree_of(session)
    ill = await planted(session, brokers, kind)
    before = await tree_of(session)
    assert await repair_znodes(session, ill, backup) == RepairResult(ill, RepairOutcome.REPAIRED)
    after = await tree_of(session)
    (saved,) = read_backup(backup.path).repairs
    touched = {each.path for each in saved.before}
    created = {path for path in after.keys() - before.keys() if path.startswith(NOTIFICATIONS)}
    assert changed(before, after) == touched | created
    assert {path for path in changed(healthy, after) if not path.startswith(NOTIFICATIONS)} <= {
        paths.CONTROLLER,
        paths.parent_of(ill.what),
    }
    assert kind not in [each.kind for each in await ills(session, brokers)]
    assert (await repair_znodes(session, ill, backup)).outcome is RepairOutcome.GONE


@pytest.mark.parametrize("kind", RESTORED)
async def test_each_is_taken_back(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile, kind: IllKind
) -> None:
    ill = await planted(session, brokers, kind)
    before = await tree_of(session)
    await repair_znodes(session, ill, backup)
    outcomes = await restore(session, await plan_restore(session, read_backup(backup.path)))
    assert [outcome.problem for outcome in outcomes] == [None]
    assert changed(quiet(before), quiet(await tree_of(session))) <= set(ill.what.split()), "only notifications differ"
    assert (await tree_of(session))[ill.what] == before[ill.what]
    again = await plan_restore(session, read_backup(backup.path))
    assert (again.groups, again.changed) == ((), ()), "nothing is left to restore"


async def test_a_request_that_two_repairs_write_is_taken_back_whole(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    targets = {TopicPartition(name, 0): (1,) for name in ("gone", "lost")} | {TopicPartition("orders", 1): (2, 1)}
    await apply(session, Create(paths.REASSIGN_PARTITIONS, encode_reassignment(targets)))
    before = await tree_of(session)
    for ill in await ills(session, brokers):
        assert (await repair_znodes(session, ill, backup)).outcome is RepairOutcome.REPAIRED
    left = encode_reassignment({TopicPartition("orders", 1): (2, 1)})
    assert (await tree_of(session))[paths.REASSIGN_PARTITIONS] == left
    await restore(session, await plan_restore(session, read_backup(backup.path)))
    assert await tree_of(session) == before


# --- what has changed meanwhile -----------------------------------------------------------------------------------


class Meddling:
    """A session in which something else happens right before a write."""

    def __init__(self, session: FakeSession, act: Callable[[], Awaitable[None]], *, times: int = 1) -> None:
        self._session, self._act, self._left = session, act, times

    async def multi(self, operations: Sequence[Operation]) -> MultiOutcome:
        if self._left:
            self._left -= 1
            await self._act()
        return await self._session.multi(operations)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def meddled(session: FakeSession, act: Callable[[], Awaitable[None]], *, times: int = 1) -> ZooKeeperSession:
    return cast(ZooKeeperSession, Meddling(session, act, times=times))


async def next_epoch(session: FakeSession) -> None:
    await apply(session, SetData(paths.CONTROLLER_EPOCH, b"%d" % (EPOCH + 1), ANY_VERSION))


@pytest.mark.parametrize(
    "kind", [IllKind.CONFIG_WITHOUT_TOPIC, IllKind.ACL_WITHOUT_TOPIC, IllKind.MARKER_WITHOUT_TOPIC]
)
async def test_a_topic_that_is_created_in_the_last_moment_loses_nothing(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile, kind: IllKind
) -> None:
    ill = await planted(session, brokers, kind)

    async def create() -> None:
        await session.ensure_path(paths.topic("gone"))

    result = await repair_znodes(meddled(session, create), ill, backup)
    assert (result.outcome, result.why) == (RepairOutcome.REFUSED, f"{paths.topic('gone')} exists by now")
    assert ill.what in await tree_of(session)
    plan = await plan_restore(session, read_backup(backup.path))
    assert plan.groups == (), "nothing was written, so nothing is to be restored"


@pytest.mark.parametrize("there", ["/lethe", paths.TRASH])
async def test_a_topic_that_comes_into_the_trash_in_the_last_moment_keeps_its_settings(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile, there: str
) -> None:
    ill = await planted(session, brokers, IllKind.CONFIG_WITHOUT_TOPIC)
    await session.ensure_path(there)
    act = meddled(session, lambda: session.ensure_path(paths.trashed("gone")))
    assert (await repair_znodes(act, ill, backup)).outcome is RepairOutcome.REFUSED
    assert ill.what in await tree_of(session)


async def test_an_entry_that_keeps_nothing_is_in_the_way_of_a_repair_and_named(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    """A topic that was back from the trash, and that Kafka's controller has deleted."""
    await in_trash(session, gone=ENTRY.entering(TrashPhase.OFFSETS, 1))
    ill = await planted(session, brokers, IllKind.CONFIG_WITHOUT_TOPIC)
    result = await repair_znodes(session, ill, backup)
    assert result.outcome is RepairOutcome.REFUSED
    assert result.why == (
        "/lethe/trash/gone exists: unless the topic is in the trash, Lethe's next controller removes it"
    )
    assert ill.what in await tree_of(session)


async def test_a_write_is_tied_to_the_controller_epoch(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    """Control that changes hands makes the repair read again; if it never stops, the repair is refused."""
    ill = await planted(session, brokers, IllKind.CONFIG_WITHOUT_TOPIC)
    always = meddled(session, lambda: next_epoch(session), times=1_000)
    refused = await repair_znodes(always, ill, backup)
    assert (refused.outcome, ill.what in await tree_of(session)) == (RepairOutcome.REFUSED, True)
    once = meddled(session, lambda: next_epoch(session))
    assert (await repair_znodes(once, ill, backup)).outcome is RepairOutcome.REPAIRED


async def test_settings_that_change_in_the_last_moment_are_read_again(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    ill = await planted(session, brokers, IllKind.CONFIG_WITHOUT_TOPIC)
    newer = encode_config({"retention.ms": "2"})
    act = meddled(session, lambda: apply(session, SetData(ill.what, newer, ANY_VERSION)))
    assert (await repair_znodes(act, ill, backup)).outcome is RepairOutcome.REPAIRED
    await restore(session, await plan_restore(session, read_backup(backup.path)))
    assert (await tree_of(session))[ill.what] == newer


async def test_a_throttle_stays_where_a_reassignment_begins_in_the_last_moment(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    ill = await planted(session, brokers, IllKind.THROTTLE_WITHOUT_REASSIGNMENT)
    moves = PLANTS[IllKind.REASSIGNMENT_STUCK]
    result = await repair_znodes(meddled(session, lambda: moves(session, brokers)), ill, backup)
    assert (result.outcome, result.why) == (RepairOutcome.REFUSED, "a reassignment of the topic has begun")


async def test_a_lost_answer_is_neither_done_nor_failed(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    ill = await planted(session, brokers, IllKind.CONFIG_WITHOUT_TOPIC)
    before = await tree_of(session)
    session.lose_next_reply(applied=True)
    assert (await repair_znodes(session, ill, backup)).outcome is RepairOutcome.UNKNOWN
    assert read_backup(backup.path).repairs[0].after is None
    await restore(session, await plan_restore(session, read_backup(backup.path)))
    assert quiet(await tree_of(session)) == quiet(before), "what was applied is taken back all the same"


async def test_without_an_epoch_nothing_is_written(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    ill = await planted(session, brokers, IllKind.CONFIG_WITHOUT_TOPIC)
    await apply(session, Delete(paths.CONTROLLER_EPOCH))
    assert await repair_znodes(session, ill, backup) == RepairResult(ill, RepairOutcome.REFUSED, NO_FENCE)
    assert not backup.path.exists()


# --- restoring ----------------------------------------------------------------------------------------------------


async def repaired(session: FakeSession, brokers: FakeBrokers, backup: BackupFile, kind: IllKind) -> Ill:
    ill = await planted(session, brokers, kind)
    await repair_znodes(session, ill, backup)
    return ill


async def test_nothing_is_restored_where_the_tree_has_changed(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    ill = await repaired(session, brokers, backup, IllKind.CONFIG_WITHOUT_TOPIC)
    await apply(session, Create(ill.what, b"new"))
    before = await tree_of(session)
    plan = await plan_restore(session, read_backup(backup.path))
    assert plan.changed == (f"{ill.what} was created",)
    with pytest.raises(Refusal, match=r"/config/topics/gone was created") as refused:
        await restore(session, plan)
    assert (refused.value.exit, await tree_of(session)) == (Exit.NO, before)


async def test_settings_are_not_restored_to_a_new_topic_of_that_name(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    await repaired(session, brokers, backup, IllKind.ACL_WITHOUT_TOPIC)
    await make_topic(session, "gone")
    plan = await plan_restore(session, read_backup(backup.path))
    assert plan.changed == (f"{paths.topic('gone')} exists by now",)


async def test_settings_are_not_restored_to_a_topic_in_the_trash(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    await repaired(session, brokers, backup, IllKind.CONFIG_WITHOUT_TOPIC)
    await session.ensure_path(paths.trashed("gone"))
    plan = await plan_restore(session, read_backup(backup.path))
    assert plan.changed == (f"{paths.trashed('gone')} exists by now",)


async def test_a_topic_that_is_created_while_its_settings_are_restored(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    await repaired(session, brokers, backup, IllKind.ACL_WITHOUT_TOPIC)
    plan = await plan_restore(session, read_backup(backup.path))
    await make_topic(session, "gone")
    (outcome,) = await restore(session, plan)
    assert outcome.problem == f"ZooKeeper refused to write {paths.topic('gone')}: NODE_EXISTS"


async def test_the_backup_of_another_cluster_is_refused(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    await repaired(session, brokers, backup, IllKind.ACL_WITHOUT_TOPIC)
    await session.ensure_path("/cluster")
    await apply(session, Create(paths.CLUSTER_ID, b'{"version":"1","id":"other"}'))
    with pytest.raises(Refusal, match="this is cluster other"):
        await plan_restore(session, read_backup(backup.path))


async def test_an_election_is_not_taken_back(session: FakeSession, brokers: FakeBrokers, backup: BackupFile) -> None:
    await repaired(session, brokers, backup, IllKind.CONTROLLER_NOT_REGISTERED)
    plan = await plan_restore(session, read_backup(backup.path))
    assert (plan.groups, plan.changed, plan.ephemeral) == ((), (), (paths.CONTROLLER,))


# --- the order, and the user --------------------------------------------------------------------------------------


async def no_control(ills: Sequence[Ill], _: BackupFile) -> list[RepairResult]:
    raise Refusal(f"no control for {len(ills)}")


async def test_an_election_comes_last_and_is_left_out_where_control_was_taken(
    session: FakeSession, brokers: FakeBrokers, backup: BackupFile
) -> None:
    for kind in (IllKind.CONTROLLER_NOT_REGISTERED, IllKind.CACHED_WITHOUT_TOPIC, IllKind.MARKER_WITHOUT_TOPIC):
        await PLANTS[kind](session, brokers)
    chosen = Choice().of(await ills(session, brokers))
    order = [IllKind.MARKER_WITHOUT_TOPIC, IllKind.CACHED_WITHOUT_TOPIC, IllKind.CONTROLLER_NOT_REGISTERED]
    assert [ill.kind for ill in chosen] == order
    epoch = (await tree_of(session))[paths.CONTROLLER]

    async def control(ills: Sequence[Ill], _: BackupFile) -> list[RepairResult]:
        return [RepairResult(ill, RepairOutcome.REPAIRED) for ill in ills]

    done = await fix(session, chosen, backup, agrees, control)
    assert [each.outcome for each in done] == [RepairOutcome.REPAIRED] * 3
    assert (await tree_of(session))[paths.CONTROLLER] == epoch, "taking control is an election already"
    done = await fix(session, chosen, backup, agrees, no_control)
    assert [(each.outcome, each.why) for each in done] == [
        (RepairOutcome.GONE, ""),
        (RepairOutcome.REFUSED, "no control for 1"),
        (RepairOutcome.REPAIRED, ""),
    ]


async def test_each_repair_is_asked_for(session: FakeSession, brokers: FakeBrokers, backup: BackupFile) -> None:
    await PLANTS[IllKind.MARKER_WITHOUT_TOPIC](session, brokers)
    await PLANTS[IllKind.CACHED_WITHOUT_TOPIC](session, brokers)
    before, asked = await tree_of(session), list[str]()

    async def declines(question: str) -> bool:
        asked.append(question)
        return False

    done = await fix(session, Choice().of(await ills(session, brokers)), backup, declines, no_control)
    assert [each.outcome for each in done] == [RepairOutcome.DECLINED] * 2
    assert asked[0].endswith(f"Repair it: delete {paths.delete_topic('gone')}?")
    assert "Take control" in asked[1]
    assert (await tree_of(session), backup.path.exists()) == (before, False)


async def test_what_may_be_wanted_has_to_be_named(session: FakeSession, brokers: FakeBrokers) -> None:
    await PLANTS[IllKind.CONFIG_WITHOUT_TOPIC](session, brokers)
    await PLANTS[IllKind.MARKER_WITHOUT_TOPIC](session, brokers)
    found = await ills(session, brokers)
    kinds = [ill.kind for ill in found]
    assert kinds == [IllKind.MARKER_WITHOUT_TOPIC, IllKind.CONFIG_WITHOUT_TOPIC]
    assert [ill.kind for ill in Choice(asks=True).of(found)] == kinds
    assert [ill.kind for ill in Choice(asks=False).of(found)] == kinds[:1]
    assert [ill.kind for ill in Choice(kinds[1:], asks=False).of(found)] == kinds[1:]


async def test_nothing_is_written_without_a_backup(session: FakeSession, brokers: FakeBrokers, tmp_path: Path) -> None:
    ill = await planted(session, brokers, IllKind.MARKER_WITHOUT_TOPIC)
    before = await tree_of(session)
    with pytest.raises(BackupUnusable):
        await repair_znodes(session, ill, BackupFile(tmp_path / "missing" / "backup", None, 0))
    assert await tree_of(session) == before
