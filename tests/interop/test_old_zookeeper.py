"""Lethe in front of ZooKeeper 3.5.8, as Kafka 2.5.1 brings it: it answers creates in a multi without a Stat."""

from __future__ import annotations

from typing import Final

import pytest

from lethe.cluster.kafka_fetch import KafkaVersion, fetch_kafka
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from lethe.protocol.zookeeper.operations import Check, Create, Delete, MultiDone, SetData
from tests.interop.conditions import create, delete, gone_everywhere, is_whole, plan, until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]
ROWS: Final = [(1, 2), (2, 1)]


async def test_a_topic_lives_and_is_deleted() -> None:
    kafka = fetch_kafka(KafkaVersion.parse("2.5.1"), print)
    with EmbeddedZooKeeper(ZooKeeperSettings(jars=kafka.jars)) as zookeeper:
        settings = ClusterSettings(controllers=1, brokers=2, zookeeper_connect=f"{zookeeper.connect_string}/kafka")
        async with LocalCluster(settings) as cluster, cluster.session() as session:
            done = await session.multi([Create("/a", b"1"), SetData("/a", b"2", 0), Check("/a", 1), Delete("/a")])
            assert isinstance(done, MultiDone)
            assert [stat and stat.version for stat in done.stats] == [None, 1, None, None]
            await create(session, plan("orders", *ROWS))
            await until(is_whole(session, "orders", ROWS), "orders is whole")
            await delete(session, "orders")
            await gone_everywhere(cluster, session, "orders")
