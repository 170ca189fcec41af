"""A whole controller, and a broker of real sockets that takes the tombstone and does not answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from lethe.controller.core.context import Role
from lethe.controller.runtime.app import ControllerApp, ExitCode
from lethe.protocol.kafka.control import UpdateMetadataRequest
from lethe.protocol.vocabulary import LEADER_DURING_DELETE
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from tests.fakes.broken_broker import Act, FakeBroker
from tests.fakes.runtime import controller_config, reach
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.runtime.test_controller_app import Running, connect, create_topic, observer, register, until_absent

FOR_EVER_MS = 3_600_000


@asynccontextmanager
async def controller(zookeeper: FakeZooKeeper, *, limit_ms: int, grace_ms: int) -> AsyncIterator[Running]:
    config = replace(controller_config(), tombstone_timeout_ms=limit_ms, stop_grace_ms=grace_ms)
    app = ControllerApp(config, zookeeper.open_session, connect)
    task = asyncio.create_task(app.run())
    try:
        async with asyncio.timeout(30):
            await app.started.wait()
        yield Running(app, task)
    finally:
        app.stop("the test is over")
        app.stop("at once")
        await asyncio.wait([task], timeout=30)
        assert task.done()


def is_tombstone(request: object) -> bool:
    return isinstance(request, UpdateMetadataRequest) and any(
        row.leader == LEADER_DURING_DELETE for topic in request.topics for row in topic.partitions
    )


async def orders_deleted_in_front_of(one: Running, session: FakeSession, host: FakeBroker, silent: FakeBroker) -> None:
    """orders has its replica on broker 1; broker 2 hosts nothing, and takes the tombstone without an answer."""
    await register(session, 1, host.endpoint)
    await register(session, 2, silent.endpoint)
    await one.becomes(Role.ACTIVE)
    await create_topic(session, "orders", (1,))
    await reach(lambda: one.context.cluster.partitions_with_leader_and_isr == 1 and not one.context.cluster.outstanding)
    silent.acts.extend([Act.HOLD] * 20)
    await session.multi([Create(paths.delete_topic("orders"), None)])
    await reach(lambda: any(is_tombstone(each.request) for each in silent.seen))


async def acknowledged(one: Running) -> None:
    """Returns when only the answer of broker 2 is missing."""

    def is_so() -> bool:
        deletion = one.context.cluster.deletions.get("orders")
        return deletion is not None and deletion.acknowledged_at_ms is not None and set(deletion.owing_tombstone) == {2}

    await reach(is_so)


async def test_after_the_limit_the_znodes_go_and_the_documents_name_the_broker_that_owes() -> None:
    zookeeper = FakeZooKeeper()
    async with (
        FakeBroker() as host,
        FakeBroker() as silent,
        observer(zookeeper) as session,
        controller(zookeeper, limit_ms=50, grace_ms=0) as one,
    ):
        await orders_deleted_in_front_of(one, session, host, silent)
        await until_absent(session, paths.topic("orders"))
        await until_absent(session, paths.delete_topic("orders"))
        await reach(lambda: set(one.context.cluster.owed) == {2})
        status, text = await one.get("/explain/orders")
        (owing,) = json.loads(text)["owed"]
        assert (status, owing["broker"], owing["topics"], owing["topic_count"]) == (404, 2, ["orders"], 1)
        assert "has not answered for" in owing["last_error"]
        _, text = await one.get("/explain")
        assert [(row["broker"], row["topic_count"]) for row in json.loads(text)["owed"]] == [(2, 1)]
        _, text = await one.get("/metrics")
        assert 'lethe_controller_owed_tombstones{broker_id="2"} 1.0' in text
        silent.acts.clear()
        silent.released.set()
        await reach(lambda: not one.context.cluster.owed)
        _, text = await one.get("/metrics")
        assert "lethe_controller_owed_tombstones{" not in text


async def test_sigterm_waits_for_the_answer_and_ends_well() -> None:
    zookeeper = FakeZooKeeper()
    async with (
        FakeBroker() as host,
        FakeBroker() as silent,
        observer(zookeeper) as session,
        controller(zookeeper, limit_ms=0, grace_ms=FOR_EVER_MS) as one,
    ):
        await orders_deleted_in_front_of(one, session, host, silent)
        await acknowledged(one)
        os.kill(os.getpid(), signal.SIGTERM)
        await reach(lambda: one.context.cluster.leaving is not None)
        assert not one.task.done()
        silent.acts.clear()
        silent.released.set()
        assert await asyncio.wait_for(one.task, 30) == ExitCode.STOPPED
        await until_absent(session, paths.topic("orders"))


@pytest.mark.parametrize("limit_ms", [0, 50], ids=["marked", "znodes gone"])
async def test_when_the_time_is_over_it_says_what_it_leaves(limit_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    zookeeper = FakeZooKeeper()
    async with (
        FakeBroker() as host,
        FakeBroker() as silent,
        observer(zookeeper) as session,
        controller(zookeeper, limit_ms=limit_ms, grace_ms=50) as one,
    ):
        await orders_deleted_in_front_of(one, session, host, silent)
        if limit_ms:
            await reach(lambda: set(one.context.cluster.owed) == {2})
        else:
            await acknowledged(one)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(one.task, 30) == ExitCode.UNCONFIRMED_DELETIONS
    said = "broker 2 has not confirmed that its metadata cache has dropped topic orders"
    (line,) = [record.getMessage() for record in caplog.records if said in record.getMessage()]
    assert ("lethe rescue" in line) is bool(limit_ms)
    assert ("still marked for deletion" in line) is not bool(limit_ms)
    assert "waiting up to 0.05 s for broker 2" in caplog.text


async def test_a_second_sigterm_ends_at_once_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    zookeeper = FakeZooKeeper()
    async with (
        FakeBroker() as host,
        FakeBroker() as silent,
        observer(zookeeper) as session,
        controller(zookeeper, limit_ms=0, grace_ms=FOR_EVER_MS) as one,
    ):
        await orders_deleted_in_front_of(one, session, host, silent)
        await acknowledged(one)
        os.kill(os.getpid(), signal.SIGTERM)
        await reach(lambda: one.context.cluster.leaving is not None)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(one.task, 30) == ExitCode.UNCONFIRMED_DELETIONS
        await until_absent(session, paths.CONTROLLER)
    assert "received SIGTERM once more: stopping at once" in caplog.text
    assert "broker 2 has not confirmed" in caplog.text
