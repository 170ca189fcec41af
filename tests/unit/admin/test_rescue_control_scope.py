"""What the controller of a command may do: only what its user was asked about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lethe.adapters.debts import OpenDebt
from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.admin import rescue_run, settling
from lethe.admin.doctor_backup import BackupFile
from lethe.admin.doctor_control import ControlRepairs
from lethe.admin.doctor_fix import RepairOutcome, RepairResult
from lethe.admin.doctor_ills import Ill, IllKind
from lethe.admin.rescue_control import TakeoverSettings
from lethe.admin.rescue_run import RescueOptions, carry_out, scope_of
from lethe.admin.rescue_snapshot import ElectionRate, RescueSnapshot, look
from lethe.controller.core.scope import Scope
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerId, Endpoint
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Data, Delete, GetData
from lethe.protocol.zookeeper.znodes import (
    Debt,
    ForgetRequest,
    RequestedAction,
    TopicRequest,
    encode_broker,
    encode_debt,
    encode_forget_request,
    encode_topic_request,
)
from lethe.survey.evidence import Evidence
from lethe.survey.views import Survey, ZooKeeperTree
from tests.fakes.sick_cluster import ABSENT, PLANTS, FakeBrokers, make_healthy
from tests.fakes.whole_controller import made_by_commands
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply

RATE = ElectionRate(0, 1)
NOBODY: frozenset[BrokerId] = frozenset()
OPTIONS = RescueOptions("127.0.0.1:1", PLAINTEXT_REACH, broker_timeout_ms=1, timeout_ms=10_000)
FORGET = encode_forget_request(ForgetRequest())
LEFT_ALONE = (paths.debt(ABSENT, "gone", 5), paths.forget(ABSENT), paths.request("orders"))


@pytest.fixture
async def session(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeSession]:
    """A cluster without controller and live brokers; the command's controller is on the same ZooKeeper.

    A broker that is away owes a topic, and killed commands have left a request to forget it, and one for a topic."""
    zookeeper = FakeZooKeeper()
    made_by_commands(monkeypatch, zookeeper)
    async with zookeeper.open_session(lambda _: None) as session:
        await make_healthy(session)
        await apply(session, Delete(paths.broker_id(1)), Delete(paths.broker_id(2)), Delete(paths.CONTROLLER))
        for path in LEFT_ALONE:
            await session.ensure_path(paths.parent_of(path))
        owed = encode_debt(Debt(None, (0,), 3, 1_000))
        asked = encode_topic_request(TopicRequest(RequestedAction.UNDELETE))
        for path, data in zip(LEFT_ALONE, (owed, FORGET, asked), strict=True):
            await apply(session, Create(path, data))
        yield session


async def there(session: FakeSession, wanted: Sequence[str]) -> list[bool]:
    return [isinstance(each, Data) for each in await session.read([GetData(path) for path in wanted])]


async def test_doctor_in_control_changes_nothing_below_lethe(session: FakeSession, tmp_path: Path) -> None:
    """It wrote debts off, and answered requests, of which neither the question nor the backup says anything."""
    await PLANTS[IllKind.NOTIFICATIONS_UNREAD](session, FakeBrokers(session))
    assert await there(session, LEFT_ALONE) == [True, True, True]
    before = await session.read([GetData(path) for path in LEFT_ALONE])
    ill = Ill(IllKind.NOTIFICATIONS_UNREAD, paths.ISR_CHANGE_NOTIFICATION, names=("isr_change_0000000003",))
    repairs = ControlRepairs(session, FakeBrokers(session).questions, OPTIONS, (ill,), lambda _: None)
    done = await repairs.repair((ill,), BackupFile(tmp_path / "backup", None, 0))
    assert done == [RepairResult(ill, RepairOutcome.REPAIRED)]
    assert await session.read([GetData(path) for path in LEFT_ALONE]) == before


async def test_rescue_forgets_no_broker_but_the_named_one(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescue_run, "WATCH_MS", 1)
    other = ABSENT + 1
    await apply(session, Create(paths.forget(other), FORGET))
    options = replace(OPTIONS, patience_ms=500, broker_timeout_ms=2_000)
    seen = await look(session, PLAINTEXT_REACH, None, 1)
    await carry_out(session, options, seen, lambda _: None)
    left = [paths.debt(ABSENT, "gone", 5), paths.forget(ABSENT), paths.forget(other)]
    assert await there(session, left) == [True, True, True]
    await carry_out(session, replace(options, forget=ABSENT), seen, lambda _: None)
    assert await there(session, left) == [False, False, True]


@pytest.mark.parametrize(
    "topics, forget, expected",
    [
        (None, None, Scope(forgettable=NOBODY)),
        (frozenset({"a"}), None, Scope(frozenset({"a"}), NOBODY, NOBODY)),
        (None, 3, Scope(None, frozenset({BrokerId(3)}), frozenset({BrokerId(3)}))),
    ],
)
def test_rescue_has_debts_paid_unless_topics_or_a_broker_are_named(
    topics: frozenset[str] | None, forget: int | None, expected: Scope
) -> None:
    assert scope_of(replace(OPTIONS, forget=forget), topics) == expected


async def test_settling_asks_no_other_broker(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Scope] = []

    async def in_control(_means: TakeoverSettings, scope: Scope, _work: object) -> tuple[OpenDebt, ...]:
        taken.append(scope)
        return ()

    async def unseen(*_: object) -> RescueSnapshot:
        return RescueSnapshot(Evidence(Survey(1, 1, ZooKeeperTree(brokers=(broker,))), ()), (), None, (), (), RATE)

    monkeypatch.setattr(settling, "in_control", in_control)
    monkeypatch.setattr(settling, "look", unseen)
    broker = Broker(BrokerId(ABSENT), NO_EPOCH, (Endpoint("PLAINTEXT", "127.0.0.1", 1),))
    await apply(session, Create(paths.broker_id(ABSENT), encode_broker(broker, timestamp_ms=0), ephemeral=True))
    plan = await settling.settle_plan(session, ABSENT)
    assert await settling.settle(session, plan, OPTIONS, lambda _: None) == ()
    assert taken == [Scope(frozenset(), frozenset({BrokerId(ABSENT)}), NOBODY, answers_requests=False)]
