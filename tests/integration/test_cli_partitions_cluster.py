"""The commands about partitions against a whole cluster of real processes: asked for, carried out, seen to be done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from cluster.local import ClusterSettings, LocalCluster
from tests.fakes.command_line import Lethe

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]


@pytest.fixture
async def cluster(zookeeper_chroot: str) -> AsyncIterator[LocalCluster]:
    settings = ClusterSettings(
        controllers=1,
        brokers=3,
        zookeeper_connect=zookeeper_chroot,
        broker_properties={"replica.catch.up.delay.ms": "100"},
    )
    async with LocalCluster(settings) as cluster:
        yield cluster


async def test_a_topic_grows(cluster: LocalCluster) -> None:
    lethe = Lethe(cluster.zookeeper_connect)
    assert (await lethe("topics", "create", "--topic", "orders", "--replica-assignment", "1:2")).code == 0
    async with asyncio.timeout(30):
        while (await lethe("topics", "describe", "--unavailable-partitions")).out:
            pass
    grown = await lethe("topics", "alter", "orders", "--partitions", "3", "--json", "--timeout-ms", "30000")
    assert (grown.code, grown.data[0]["without_leader"]) == (0, [])
    assert sorted(grown.data[0]["added"]) == ["1", "2"]
    described = (await lethe("topics", "describe", "--topic", "orders", "--json")).data[0]["partitions"]
    assert [partition["partition"] for partition in described] == [0, 1, 2]
    assert not any(partition["unavailable"] for partition in described)


async def test_brokers_are_listed_with_what_they_store(cluster: LocalCluster) -> None:
    lethe = Lethe(cluster.zookeeper_connect)
    assert (await lethe("topics", "create", "--topic", "orders", "--replica-assignment", "1:2")).code == 0
    async with asyncio.timeout(30):
        while (await lethe("topics", "describe", "--unavailable-partitions")).out:
            pass
    listed = await lethe("brokers", "list", "--json")
    assert listed.code == 0
    assert listed.data["controller"] == cluster.controllers[0].id
    assert [broker["leads"] for broker in listed.data["brokers"]] == [1, 0, 0]
    assert listed.data["brokers"][0]["log_dirs"][0]["path"] in {str(path) for path in cluster.log_dirs[1]}
    await cluster.broker(2).kill()
    async with asyncio.timeout(30):
        while not (missing := (await lethe("brokers", "list", "--offline", "--json")).data["missing"]):
            pass
    assert [(one["id"], one["replicas"]) for one in missing] == [(2, 1)]
