"""Control changes hands while the process that had it lives on, asleep: when it wakes, it must not be in anybody's way.

Brokers keep to the controller that they know, so that one which answers for the wrong term keeps ISRs small for good.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.rescue_control import RescueController, TakeoverSettings, in_control
from lethe.cluster.kafka import KafkaBroker
from lethe.cluster.kafka_fetch import KafkaVersion
from lethe.cluster.local import LocalCluster
from lethe.controller.core.scope import EVERYTHING
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId
from tests.fakes.command_line import Lethe
from tests.interop.conditions import controller, create, is_known_to_all, is_whole, kafka_leads, plan, until
from tests.interop.conftest import MakeCluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

ROWS = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
NAMES = [f"orders-{number}" for number in range(10)]
WHOLE_WITHIN_S = 30.0


async def in_service(session: ZooKeeperSession, version: str) -> None:
    await create(session, *(plan(name, *ROWS, version=version) for name in NAMES))
    await until(is_known_to_all(session, 3, *NAMES), "all brokers know the topics")
    await are_whole(session, 90.0)


async def are_whole(session: ZooKeeperSession, limit_s: float) -> None:
    """Every ISR has all its replicas, within the time."""
    deadline = time.monotonic() + limit_s
    for name in NAMES:
        await until(is_whole(session, name, ROWS), f"{name} is whole", max(0.1, deadline - time.monotonic()))


async def bounce(cluster: LocalCluster, broker: KafkaBroker) -> None:
    """Killed and started again, so that every ISR that it is in has to shrink and to grow."""
    await broker.kill()
    await broker.start()


async def test_lethes_controller_lives_on_after_kafkas_has_taken_over(kafka_cluster: MakeCluster, version: str) -> None:
    """Awake all the time: `/controller` is removed under it, as `lethe controller-resign` does."""
    async with kafka_cluster(version, listed=True) as cluster, cluster.session() as session:
        old = await cluster.active_controller()
        await in_service(session, version)

        async def is_replaced() -> bool:
            # It stands again half a second later, and may be the first.
            await Lethe(cluster.zookeeper_connect)("controller-resign")
            found = await controller(session)
            return found is not None and found.admin is None

        await until(is_replaced, "one of Kafka's controllers has control")
        leader = await kafka_leads(session)
        follower = next(broker for broker in cluster.kafka_brokers if broker.id != leader)
        await bounce(cluster, follower)
        await are_whole(session, WHOLE_WITHIN_S)
        assert await kafka_leads(session) == leader
        assert old.is_running


async def test_lethes_controller_wakes_after_kafkas_has_taken_over(kafka_cluster: MakeCluster, version: str) -> None:
    async with kafka_cluster(version, listed=True) as cluster, cluster.session() as session:
        old = await cluster.active_controller()
        await in_service(session, version)
        old.pause()
        try:
            leader = await kafka_leads(session)
        finally:
            old.resume()
        follower = next(broker for broker in cluster.kafka_brokers if broker.id != leader)
        await bounce(cluster, follower)
        await are_whole(session, WHOLE_WITHIN_S)
        assert await kafka_leads(session) == leader
        assert old.is_running


async def test_kafkas_controller_wakes_after_control_went_to_lethe_and_back(
    kafka_cluster: MakeCluster, version: str
) -> None:
    async with kafka_cluster(version, controllers=0) as cluster, cluster.session() as session:
        await in_service(session, version)
        old = cluster.kafka_broker(await kafka_leads(session))
        ibp = InterBrokerProtocol.parse(KafkaVersion.parse(version).inter_broker_protocol)
        means = TakeoverSettings(cluster.zookeeper_connect, BrokerId(1000), ibp, BrokerReach("PLAINTEXT"))

        async def work(guest: RescueController) -> BrokerId | None:
            taken_from = await guest.elected()
            await asyncio.sleep(1.0)
            return taken_from

        old.pause()
        try:
            taken_from = await in_control(means, EVERYTHING, work)
            leader = await kafka_leads(session)
        finally:
            old.resume()
        assert taken_from is None or taken_from != leader, "who sleeps is not elected"
        follower = next(broker for broker in cluster.kafka_brokers if broker.id not in (leader, old.id))
        await bounce(cluster, follower)
        await are_whole(session, WHOLE_WITHIN_S)
        assert await kafka_leads(session) == leader
