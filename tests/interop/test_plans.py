"""Protected topics and planned deletions on real brokers, with Kafka's own tools beside ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.local import LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Exists, MultiDone, Present
from tests.fakes.command_line import Lethe
from tests.interop.clients import bootstrap, produce
from tests.interop.conditions import (
    create,
    gone_everywhere,
    has_no_directories,
    is_known_to_all,
    is_whole,
    plan,
    until,
)
from tests.interop.conftest import MakeCluster, fetched
from tests.interop.java_clients import run

pytestmark = [
    pytest.mark.interop,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

EVERYWHERE = [(1, 2), (2, 1)]
WITH_ZOOKEEPER = "2.5.1"
"""The tools of this version still write to ZooKeeper themselves."""


async def made(cluster: LocalCluster, zookeeper: ZooKeeperSession, version: str, *names: str) -> None:
    await create(zookeeper, *(plan(name, *EVERYWHERE, version=version) for name in names))
    await until(is_known_to_all(zookeeper, 2, *names), "all brokers know the topics")
    for name in names:
        await until(is_whole(zookeeper, name, EVERYWHERE), f"{name} is whole")


async def is_marked(zookeeper: ZooKeeperSession, name: str) -> bool:
    (found,) = await zookeeper.read([Exists(paths.delete_topic(name))])
    return isinstance(found, Present)


async def test_a_protected_topic_stays_whoever_marks_it(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path
) -> None:
    async with kafka_cluster(version, 2, log_dirs=1) as cluster, cluster.session() as zookeeper:
        await cluster.active_controller()
        await made(cluster, zookeeper, version, "orders", "payments", "bills")
        lethe = Lethe(cluster.zookeeper_connect)
        setting = "lethe.protected.topics=[orders,pay*]"
        alter = ("--entity-type", "brokers", "--entity-default", "--alter", "--add-config", setting)
        servers = ",".join(bootstrap(cluster))
        await run(fetched(version), "ConfigCommand", ("--bootstrap-server", servers, *alter), tmp_path / "configs")

        async def is_protected() -> bool:
            return "is protected" in (await lethe("explain", "orders")).out

        await until(is_protected, "the controller has read the patterns")
        for name in ("orders", "bills"):
            marking = ("--zookeeper", cluster.zookeeper_connect, "--delete", "--topic", name)
            await run(fetched(WITH_ZOOKEEPER), "TopicCommand", marking, tmp_path / "topics")
        assert isinstance(await zookeeper.multi([Create(paths.delete_topic("payments"), None)]), MultiDone)
        await gone_everywhere(cluster, zookeeper, "bills")

        async def is_unmarked() -> bool:
            return not await is_marked(zookeeper, "orders") and not await is_marked(zookeeper, "payments")

        await until(is_unmarked, "their markers are refused")
        for name in ("orders", "payments"):
            assert await is_whole(zookeeper, name, EVERYWHERE)()
        told = (await lethe("explain", "orders")).out
        assert (
            "(in /config/brokers/<default>) (by the pattern orders): Lethe's controller drops its marker, since" in told
        )
        refused = await lethe("topics", "delete", "payments")
        assert refused.code == 1
        assert "by the pattern pay*" in refused.err


async def test_a_plan_is_carried_out_unless_something_has_changed(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path
) -> None:
    async with kafka_cluster(version, 2, log_dirs=1, listed=True) as cluster, cluster.session() as zookeeper:
        await cluster.active_controller()
        await made(cluster, zookeeper, version, "orders", "bills", "other")
        await produce(bootstrap(cluster), "orders", range(50))
        await commit(cluster, "other", "somebody")
        lethe, file = Lethe(cluster.zookeeper_connect), tmp_path / "plan.json"

        async def planned() -> dict[str, object]:
            ran = await lethe("topics", "plan-delete", "orders", "bills", "--out", str(file), "--json")
            assert ran.code == 0, ran
            return {each["topic"]: each for each in ran.data["topics"]}

        async def refused(*options: str) -> list[str]:
            ran = await lethe("topics", "delete", "--plan", str(file), "--yes", "--json", *options)
            assert ran.code == 1, ran
            assert not await is_marked(zookeeper, "orders")
            assert not await is_marked(zookeeper, "bills")
            changed: list[str] = ran.data["changed"]
            return changed

        topics = await planned()
        orders, bills = topics["orders"], topics["bills"]
        assert isinstance(orders, dict)
        assert isinstance(bills, dict)
        assert (orders["unseen"], orders["groups"], orders["blockers"]) == ([], [], [])
        assert sum(each["end"] for each in orders["partitions"]) == 50
        assert orders["size_bytes"] > 0
        assert orders["last_write_ms"] is not None
        assert (bills["size_bytes"], bills["last_write_ms"]) == (0, None)
        # Written to, and used by a group.
        await produce(bootstrap(cluster), "orders", range(1))
        (written,) = await refused()
        assert written.startswith("orders was written to: partition")
        await commit(cluster, "orders", "newcomer")
        assert await refused("--allow-writes") == ["orders is used by the consumer group newcomer, which it was not"]
        # Agreed to anew, and carried out.
        await planned()
        done = await lethe("topics", "delete", "--plan", str(file), "--yes", "--wait")
        assert done.code == 0, done
        await until(has_no_directories(cluster, "orders", "bills"), "their bytes are gone", limit_s=150.0)
        # A topic of the same name is another one.
        await made(cluster, zookeeper, version, "orders", "bills")
        other = await refused("--allow-writes")
        assert [each.partition(" ")[2] for each in other] == ["is another topic of that name, created since"] * 2
        assert await is_whole(zookeeper, "other", EVERYWHERE)()


async def commit(cluster: LocalCluster, topic: str, group: str) -> None:
    """A group with offsets of the topic, and without members."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap(cluster), group_id=group)
    async with consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.commit({TopicPartition(topic, 0): 0})
