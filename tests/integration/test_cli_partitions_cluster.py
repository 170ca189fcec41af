"""The commands about partitions against a whole cluster of real processes: asked for, carried out, seen to be done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lethe.cluster.local import ClusterSettings, LocalCluster
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
    async with asyncio.timeout(90):
        while (await lethe("topics", "describe", "--unavailable-partitions")).out:
            pass
    grown = await lethe("topics", "alter", "orders", "--partitions", "3", "--json", "--timeout-ms", "90000")
    assert (grown.code, grown.data[0]["without_leader"]) == (0, [])
    assert sorted(grown.data[0]["added"]) == ["1", "2"]
    described = (await lethe("topics", "describe", "--topic", "orders", "--json")).data[0]["partitions"]
    assert [partition["partition"] for partition in described] == [0, 1, 2]
    assert not any(partition["unavailable"] for partition in described)


async def test_replicas_move_and_the_preferred_leader_leads(cluster: LocalCluster) -> None:
    lethe = Lethe(cluster.zookeeper_connect)
    assert (await lethe("topics", "create", "--topic", "orders", "--replica-assignment", "1:2")).code == 0
    async with asyncio.timeout(90):
        while (await lethe("topics", "describe", "--under-replicated-partitions")).out:
            pass
    moved = await lethe("partitions", "reassign", "orders:0=3,1", "--yes", "--wait", "--json", "--timeout-ms", "90000")
    assert moved.code == 0, moved
    assert moved.data["moves"][0]["size_bytes"] > 0
    assert [one["state"] for one in moved.data["result"]] == ["done"]
    described = (await lethe("topics", "describe", "--topic", "orders", "--json")).data[0]["partitions"][0]
    assert described["replicas"] == [3, 1]
    assert sorted(described["isr"]) == [1, 3]
    assert (await lethe("partitions", "reassign", "--list", "--json")).data == []

    elected = await lethe("partitions", "elect", "--preferred", "--all", "--json", "--timeout-ms", "90000")
    assert elected.code == 0, elected
    # A session of broker 1 that ends on a busy machine makes broker 3 lead before it is asked to.
    assert [(one["leader_before"] in (1, 3), one["leader"]) for one in elected.data] == [(True, 3)]


async def test_an_unclean_election_gives_a_leader_and_the_setting_back(cluster: LocalCluster) -> None:
    lethe = Lethe(cluster.zookeeper_connect)
    assert (await lethe("topics", "create", "--topic", "orders", "--replica-assignment", "1:2")).code == 0
    async with asyncio.timeout(90):
        while (await lethe("topics", "describe", "--under-replicated-partitions")).out:
            pass
    for broker, isr in ((2, [1]), (1, [1])):
        await cluster.broker(broker).kill()
        async with asyncio.timeout(90):
            while (await _partition(lethe))["isr"] != isr or (
                broker == 1 and not (await _partition(lethe))["unavailable"]
            ):
                pass
    await cluster.broker(2).start()
    elected = await lethe("partitions", "elect", "--unclean", "orders:0", "--yes", "--json", "--timeout-ms", "90000")
    assert elected.code == 0, elected
    said = {"isr_before": [1], "leader": 2, "unseen": None, "replicas": [1, 2]}
    assert elected.data == [{"topic": "orders", "partition": 0, **said}]
    assert (await lethe("topics", "describe", "--topic", "orders", "--json")).data[0]["config"] == {}


async def _partition(lethe: Lethe) -> Any:
    return (await lethe("topics", "describe", "--topic", "orders", "--json")).data[0]["partitions"][0]


async def test_brokers_are_listed_with_what_they_store(cluster: LocalCluster) -> None:
    lethe = Lethe(cluster.zookeeper_connect)
    assert (await lethe("topics", "create", "--topic", "orders", "--replica-assignment", "1:2")).code == 0
    async with asyncio.timeout(90):
        while (await lethe("topics", "describe", "--unavailable-partitions")).out:
            pass
    listed = await lethe("brokers", "list", "--json")
    assert listed.code == 0
    assert listed.data["controller"] == cluster.controllers[0].id
    assert [broker["leads"] for broker in listed.data["brokers"]] == [1, 0, 0]
    assert listed.data["brokers"][0]["log_dirs"][0]["path"] in {str(path) for path in cluster.log_dirs[1]}
    await cluster.broker(2).kill()
    async with asyncio.timeout(90):
        while not (missing := (await lethe("brokers", "list", "--offline", "--json")).data["missing"]):
            pass
    assert [(one["id"], one["replicas"]) for one in missing] == [(2, 1)]
