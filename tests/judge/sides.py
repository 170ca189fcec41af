"""The clusters that are asked, and when one has come to rest between two steps."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Final

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.cluster.kafka_fetch import KafkaDistribution
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from tests.interop.conditions import answers
from tests.judge.step import Side

BROKERS: Final = 3
START_LIMIT_S: Final = 180.0
SLOW_FOLLOWER: Final = 3
"""This broker gets one batch of records at a time, so a throttle keeps a replica from catching up."""
_SMALL_FETCHES: Final = {"replica.fetch.max.bytes": "1000", "replica.fetch.response.max.bytes": "1000"}
_EVERYWHERE: Final = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    # As the brokers of tests have it; topics show it.
    "log.segment.delete.delay.ms": "1000",
    "num.partitions": "2",
    "default.replication.factor": "2",
}
"""For brokers, agents and controllers. Partitions lead where the steps put them."""


def cluster_of(side: Side, kafka: KafkaDistribution, directory: Path) -> LocalCluster:
    """Return the cluster of this side, to be entered with `async with`."""
    real = 0 if side is Side.AGENTS else BROKERS
    return LocalCluster(
        ClusterSettings(
            controllers=0 if side is Side.KAFKA else 1,
            brokers=BROKERS - real,
            kafka_brokers=real,
            kafka=kafka,
            log_dirs=1,
            listed=True,
            work_dir=directory,
            controller_properties=_EVERYWHERE,
            broker_properties=_EVERYWHERE,
            kafka_properties=_EVERYWHERE,
            own_properties={SLOW_FOLLOWER: _SMALL_FETCHES} if real else {},
            start_limit_s=START_LIMIT_S,
        )
    )


async def bootstrap(cluster: LocalCluster) -> str:
    """Return the addresses of the brokers that run."""
    listeners = [await broker.listener() for broker in cluster.all_brokers if broker.is_running]
    return ",".join(f"{host}:{port}" for host, port in listeners)


async def topic_id(session: ZooKeeperSession, topic: str) -> str:
    """Return the topic's id as clients write it; `none` if there is no such topic."""
    (found,) = await session.read([GetData(paths.topic(topic))])
    return str(json.loads(found.data or b"{}").get("topic_id", "none")) if isinstance(found, Data) else "none"


async def settle(session: ZooKeeperSession, limit_s: float) -> bool:
    """Wait until nothing is being deleted and every live broker shows the topics and partitions of ZooKeeper; False if
    that takes too long."""
    deadline = time.monotonic() + limit_s
    while not await _is_settled(session):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.1)
    return True


async def _is_settled(session: ZooKeeperSession) -> bool:
    listed = await topic_znodes.list_topics(session)
    if listed.marked:
        return False
    found = await session.read([GetData(paths.topic(name)) for name in listed.names])
    wanted = {
        name: tuple(sorted(map(int, json.loads(each.data or b"")["partitions"])))
        for name, each in zip(listed.names, found, strict=True)
        if isinstance(each, Data)
    }
    told = [each.cache for each in await answers(session)]
    return all(
        cache is not None and {name: topic.partitions for name, topic in cache.items()} == wanted for cache in told
    )
