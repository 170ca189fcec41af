"""A rescue that is interrupted before it is in control: what it says of the controllers and the metadata caches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.admin import rescue_run
from lethe.admin.rescue_control import ControlStage
from lethe.admin.rescue_ghosts import NOT_COMPARED, CacheDifference, CacheReport
from lethe.admin.rescue_run import RescueOptions, RescueResult, carry_out
from lethe.admin.rescue_snapshot import look
from lethe.controller.core.context import Role
from lethe.controller.runtime.app import ControllerApp
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from tests.fakes.runtime import reach
from tests.fakes.sick_cluster import make_healthy
from tests.fakes.whole_controller import made_by_commands
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, elect

KAFKAS = 2
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
FIRST = CacheReport((CacheDifference(TWO, "gone", "it is not in ZooKeeper"),), ((THREE, "silent"),))
OPTIONS = RescueOptions("127.0.0.1:1", PLAINTEXT_REACH, broker_timeout_ms=1, timeout_ms=10_000)


@pytest.fixture
def zookeeper() -> FakeZooKeeper:
    return FakeZooKeeper()


@pytest.fixture
def apps(monkeypatch: pytest.MonkeyPatch, zookeeper: FakeZooKeeper) -> list[ControllerApp]:
    """The controller of the rescue, once it is made."""
    return made_by_commands(monkeypatch, zookeeper)


@pytest.fixture
async def session(monkeypatch: pytest.MonkeyPatch, zookeeper: FakeZooKeeper) -> AsyncIterator[FakeSession]:
    """Controller 2 of Kafka holds `/controller`; no broker is registered, so that none has to be asked."""
    monkeypatch.setattr(rescue_run, "WATCH_MS", 1)
    async with zookeeper.open_session(lambda _: None) as session:
        await make_healthy(session)
        await apply(session, Delete(paths.broker_id(1)), Delete(paths.broker_id(2)), Delete(paths.CONTROLLER))
        await elect(session, KAFKAS)
        await apply(session, Create(paths.delete_topic("orders"), None))
        yield session


async def interrupted(session: FakeSession, apps: list[ControllerApp], role: Role) -> RescueResult:
    """Carry the rescue out and stop it as Ctrl-C does once its controller has this role."""
    seen = replace(await look(session, PLAINTEXT_REACH, None, 1), caches=FIRST)
    rescue = asyncio.create_task(carry_out(session, OPTIONS, seen, lambda _: None))
    await reach(lambda: apps and apps[0].started.is_set() and apps[0].loop.context.role is role)
    apps[0].stop("Ctrl-C")
    return await rescue


async def test_in_the_grace_period_the_former_controller_is_named(
    session: FakeSession, apps: list[ControllerApp]
) -> None:
    result = await interrupted(session, apps, Role.TAKING)
    assert result.interrupted
    assert (result.control.stage, result.control.before) == (ControlStage.TAKEN, KAFKAS)


async def test_in_the_grace_period_no_broker_is_said_to_have_left(
    session: FakeSession, apps: list[ControllerApp]
) -> None:
    caches = (await interrupted(session, apps, Role.TAKING)).caches
    assert caches.ghosts == (CacheDifference(TWO, "gone", NOT_COMPARED),)
    assert caches.unseen == ((THREE, "silent"),)
    assert caches.unfinished


async def test_what_was_not_seen_is_not_said_to_be_free(session: FakeSession, apps: list[ControllerApp]) -> None:
    result = await interrupted(session, apps, Role.NO_SESSION)
    assert (result.control.stage, result.control.before) == (ControlStage.NOT_SEEN, None)
