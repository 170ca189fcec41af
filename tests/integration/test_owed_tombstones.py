"""A broker that is stopped by SIGSTOP hosts nothing of a topic: its deletion ends, and what is said names it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from lethe.admin.refusal import Exit
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Exists, Present
from tests.fakes.command_line import Lethe

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]

LIMIT_MS = 1_500
SESSION_MS = 400_000
"""So long a stopped broker is registered."""


@pytest.fixture
def patient_zookeeper() -> Iterator[str]:
    """One that allows sessions as long as that."""
    with EmbeddedZooKeeper(ZooKeeperSettings(tick_time_ms=4_000)) as zookeeper:
        yield zookeeper.connect_string


@pytest.mark.slow
@pytest.mark.long
async def test_a_silent_broker_does_not_keep_deletions_from_ending_and_is_named_until_it_answers(
    patient_zookeeper: str,
) -> None:
    settings = ClusterSettings(
        controllers=1,
        brokers=2,
        zookeeper_connect=patient_zookeeper,
        controller_properties={"lethe.tombstone.timeout.ms": str(LIMIT_MS), "lethe.stop.grace.ms": "500"},
        own_properties={2: {"zookeeper.session.timeout.ms": str(SESSION_MS)}},
    )
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        lethe = Lethe(cluster.zookeeper_connect)
        assert (await lethe("topics", "create", "--topic", "orders", "--replica-assignment", "1")).code == 0
        async with asyncio.timeout(90):
            while (await lethe("topics", "describe", "--unavailable-partitions")).out:
                pass
        cluster.broker(2).pause()
        try:
            assert (await lethe("topics", "delete", "--topic", "orders")).code == 0
            async with asyncio.timeout(90):
                while isinstance((await session.read([Exists(paths.topic("orders"))]))[0], Present):
                    await asyncio.sleep(0.1)
            explained = await lethe("explain", "orders", "--timeout-ms", "1000")
            assert explained.code == 3, explained
            assert "gone as far as could be seen" in explained.out
            assert "broker 2 has not confirmed that its metadata cache has dropped it" in explained.out
            everything = await lethe("explain", "--all", "--timeout-ms", "1000")
            assert "Broker 2 has not confirmed that its metadata cache has dropped 1 topic" in everything.out
            surveyed = await lethe("survey")
            assert surveyed.code == Exit.UNREACHABLE, surveyed
            assert "Nothing is left over, as far as could be seen." in surveyed.out
            assert "broker 2" in surveyed.out, surveyed

            resigned = await lethe("controller-resign", "--grace-ms", "300", "--json")
            assert resigned.code == 1, resigned
            assert resigned.data["unconfirmed"]["gone"] == [{"broker": 2, "topics": ["orders"]}]
        finally:
            cluster.broker(2).resume()
        # The controller that was elected again compares the broker's cache with ZooKeeper.
        async with asyncio.timeout(90):
            while "broker 2" in (await lethe("explain", "orders", "--timeout-ms", "1000")).out:
                pass


async def test_a_controller_that_is_stopped_says_what_a_broker_has_not_confirmed(patient_zookeeper: str) -> None:
    settings = ClusterSettings(
        controllers=1,
        brokers=2,
        zookeeper_connect=patient_zookeeper,
        controller_properties={"lethe.tombstone.timeout.ms": "0", "lethe.stop.grace.ms": "300"},
        own_properties={2: {"zookeeper.session.timeout.ms": str(SESSION_MS)}},
    )
    async with LocalCluster(settings) as cluster:
        lethe = Lethe(cluster.zookeeper_connect)
        assert (await lethe("topics", "create", "--topic", "orders", "--replica-assignment", "1")).code == 0
        async with asyncio.timeout(90):
            while (await lethe("topics", "describe", "--unavailable-partitions")).out:
                pass
        cluster.broker(2).pause()
        try:
            assert (await lethe("topics", "delete", "--topic", "orders")).code == 0
            async with asyncio.timeout(90):
                while "waits for broker 2" not in (await lethe("explain", "orders", "--timeout-ms", "1000")).out:
                    pass
            (controller,) = cluster.controllers
            pid = controller.pid
            assert pid is not None
            os.kill(pid, signal.SIGTERM)
            async with asyncio.timeout(60):
                while controller.process.is_running:
                    await asyncio.sleep(0.05)
        finally:
            cluster.broker(2).resume()
        assert controller.process.exit_code == 4
        said = controller.process.output()
        assert "waiting up to 0.3 s for broker 2" in said
        assert "broker 2 has not confirmed that its metadata cache has dropped topic orders" in said
