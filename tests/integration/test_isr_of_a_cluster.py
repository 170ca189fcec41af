"""Leaders, followers and the controller as real processes: ISRs grow back, leaderships move before a broker goes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.vocabulary import LeaderAndIsr, TopicId
from lethe.protocol.zookeeper.operations import Children, Data, GetChildren, GetData
from lethe.protocol.zookeeper.paths import isr_change_notifications, partition_state
from lethe.protocol.zookeeper.znodes import decode_state

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]


async def until(condition: Callable[[], Awaitable[bool]], what: str, limit_s: float = 90.0) -> None:
    """Waits for the condition; names it where it does not come."""
    deadline = time.monotonic() + limit_s
    while not await condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        await asyncio.sleep(0.1)


async def states(session: ZooKeeperSession) -> list[LeaderAndIsr]:
    found = await session.read([GetData(partition_state("t", partition)) for partition in (0, 1)])
    decoded = [decode_state("t", 0, each.data, each.stat.version) for each in found if isinstance(each, Data)]
    return [state for state in decoded if state is not None]


def whole(session: ZooKeeperSession) -> Callable[[], Awaitable[bool]]:
    async def condition() -> bool:
        return [sorted(state.isr) for state in await states(session)] == [[1, 2]] * 2

    return condition


@pytest.mark.parametrize("ibp", ["3.9", "2.6"])
async def test_a_broker_leaves_and_comes_back_into_the_isr(zookeeper_chroot: str, ibp: str) -> None:
    """Under 3.9 leaders ask the controller, under 2.6 they write to ZooKeeper and notify it."""
    protocol = {"inter.broker.protocol.version": ibp}
    settings = ClusterSettings(
        controllers=1,
        brokers=2,
        zookeeper_connect=zookeeper_chroot,
        session_timeout_ms=20_000,
        controller_properties=protocol,
        broker_properties={"replica.catch.up.delay.ms": "200", **protocol},
    )
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        plan = TopicPlan("t", TopicId(UUID(int=7)), ((1, 2), (2, 1)))
        assert [outcome.problem for outcome in await topic_znodes.create_topics(session, [plan])] == [None]
        await until(whole(session), "the topic is there")

        assert await cluster.broker(2).stop() == 0
        assert "the controller has let this broker go" in cluster.broker(2).log_file.read_text()

        async def moved() -> bool:
            return [(state.leader, state.isr) for state in await states(session)] == [(1, (1,))] * 2

        await until(moved, "broker 1 leads alone")
        epochs = [state.leader_epoch for state in await states(session)]
        await cluster.broker(2).start()
        await until(whole(session), "broker 2 is back in the ISR")
        assert [state.leader_epoch for state in await states(session)] == epochs

        async def told() -> bool:
            return "proposed ISR members" in cluster.broker(1).log_file.read_text()

        await until(told, "broker 1 has heard that its proposal was accepted, and says so")

        async def noticed() -> bool:
            children = await session.read([GetChildren(isr_change_notifications())])
            return children == [Children(())]

        await until(noticed, "the controller has taken in what it was notified of")
