"""`lethe topics delete --wait` claims only what brokers told: errors, refusals and absences are unseen, never clean."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.admin.refusal import Exit
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Exists, Present
from lethe.protocol.zookeeper.znodes import encode_broker
from tests.fakes.answering_broker import AnsweringBroker, served
from tests.fakes.command_line import Lethe, Ran
from tests.fakes.zookeeper_cluster import apply, complete_deletion, elect, prepare

pytestmark = pytest.mark.zookeeper

ORDERS: Final = Create(paths.topic("orders"), b'{"version":1,"partitions":{"0":[1]}}')
CLUSTER_AUTHORIZATION_FAILED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@asynccontextmanager
async def cluster(connect: str, broker: AnsweringBroker | None) -> AsyncIterator[ZooKeeperSession]:
    """A topic `orders` on broker 1, which is this one, or not registered; broker 9 is the controller."""
    config = ZooKeeperConfig(parse_connect_string(connect), session_timeout_ms=20_000)
    async with open_session(config, lambda _: None) as session:
        await prepare(session, {})
        await elect(session, 9)
        await apply(session, ORDERS)
        if broker is None:
            yield session
            return
        async with served(broker) as registered:
            data = encode_broker(registered, timestamp_ms=0)
            await apply(session, Create(paths.broker_id(1), data, ephemeral=True))
            yield session


async def deleted(session: ZooKeeperSession, lethe: Lethe, timeout_ms: int = 120_000) -> Ran:
    """`--wait`, while a controller completes the deletion."""

    async def complete() -> None:
        while not isinstance((await session.read([Exists(paths.delete_topic("orders"))]))[0], Present):
            await asyncio.sleep(0.05)
        await complete_deletion(session, "orders")

    async with asyncio.timeout(300), asyncio.TaskGroup() as tasks:
        tasks.create_task(complete(), name="controller")
        return await lethe("topics", "delete", "--topic", "orders", "--wait", "--timeout-ms", str(timeout_ms), "--json")


async def waited_in_vain(session: ZooKeeperSession, lethe: Lethe) -> Ran:
    """`--wait` to its end, with a look after the deletion: on a busy machine the first limits can be over before."""
    for timeout_ms in (8_000, 40_000):
        ran = await deleted(session, lethe, timeout_ms)
        if ran.code != Exit.TIMED_OUT:
            return ran
        await apply(session, ORDERS)
    return await deleted(session, lethe, 200_000)


async def test_a_broker_that_tells_all_makes_it_clean(zookeeper_chroot: str) -> None:
    async with cluster(zookeeper_chroot, AnsweringBroker()) as session:
        ran = await deleted(session, Lethe(zookeeper_chroot))
    assert ran.code == 0, ran
    assert ran.data[0]["logs_clean_after_ms"] is not None
    assert ran.data[0]["unseen"] == []


@pytest.mark.parametrize(
    "broker, place, why",
    [
        (
            AnsweringBroker(log_dirs_error=CLUSTER_AUTHORIZATION_FAILED),
            "log directories",
            "DescribeLogDirs: CLUSTER_AUTHORIZATION_FAILED",
        ),
        (AnsweringBroker(names_no_log_dir=True), "log directories", "DescribeLogDirs: it names no log directory"),
        (AnsweringBroker(failed_dirs=("/bad",)), "log directories", "/bad"),
        (AnsweringBroker(metadata_error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), "metadata cache", "Metadata: "),
    ],
    ids=["error-31", "no-log-dirs", "failed-log-dir", "hidden-topic"],
)
async def test_what_a_broker_refuses_to_tell_is_unseen(
    zookeeper_chroot: str, broker: AnsweringBroker, place: str, why: str
) -> None:
    async with cluster(zookeeper_chroot, broker) as session:
        ran = await deleted(session, Lethe(zookeeper_chroot))
    assert ran.code == 3, ran
    (topic,) = ran.data
    assert not topic["deleted"]
    assert topic["logs_clean_after_ms" if place == "log directories" else "caches_clean_after_ms"] is None
    (unseen,) = topic["unseen"]
    assert (unseen["broker"], unseen["place"]) == (1, place)
    assert why in unseen["why"]


async def test_a_broker_that_hangs_up_is_unseen(zookeeper_chroot: str) -> None:
    async with cluster(zookeeper_chroot, AnsweringBroker(hangs_up=True)) as session:
        ran = await waited_in_vain(session, Lethe(zookeeper_chroot))
    assert ran.code == 3, ran
    assert {each["broker"] for each in ran.data[0]["unseen"]} == {1}


async def test_no_registered_broker_is_unseen_too(zookeeper_chroot: str) -> None:
    async with cluster(zookeeper_chroot, None) as session:
        ran = await waited_in_vain(session, Lethe(zookeeper_chroot))
    assert ran.code == 3, ran
    (topic,) = ran.data
    assert (topic["deleted"], topic["caches_clean_after_ms"], topic["logs_clean_after_ms"]) == (False, None, None)
    assert {each["why"] for each in topic["unseen"]} == {"no broker is registered", "it is not registered"}
