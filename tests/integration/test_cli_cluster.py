"""The commands against a whole cluster of real processes: from creation to the last renamed directory."""

from __future__ import annotations

import asyncio

import pytest

from lethe.cluster.local import ClusterSettings, LocalCluster
from tests.fakes.command_line import Lethe

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]


async def test_a_deletion_waits_for_a_broker_that_is_down_and_says_so(zookeeper_chroot: str) -> None:
    settings = ClusterSettings(
        controllers=1,
        brokers=2,
        zookeeper_connect=zookeeper_chroot,
        session_timeout_ms=2_000,
        broker_properties={"log.segment.delete.delay.ms": "0"},
    )
    async with LocalCluster(settings) as cluster:
        lethe = Lethe(cluster.zookeeper_connect)
        first, second = (broker.id for broker in cluster.brokers)
        for name, replicas in (("both", f"{first}:{second},{second}:{first}"), ("one", f"{first}")):
            assert (await lethe("topics", "create", "--topic", name, "--replica-assignment", replicas)).code == 0
        async with asyncio.timeout(90):
            while (await lethe("topics", "describe", "--unavailable-partitions")).out:
                pass

        await cluster.broker(second).kill()
        waiting = await lethe("topics", "delete", "--topic", "both", "--topic", "one", "--wait", "--timeout-ms", "8000")
        assert waiting.code == 4
        assert "1 of 2 topics deleted" in waiting.out
        assert f"waits for broker {second}, which is not registered in ZooKeeper" in " ".join(waiting.out.split())
        unclean = await lethe("survey", "--json")
        assert unclean.code == 1
        assert {finding["topic"] for finding in unclean.data["findings"]} == {"both"}

        await cluster.broker(second).start()
        done = await lethe("topics", "delete", "--topic", "both", "--if-exists", "--wait", "--json")
        assert done.code == 0
        assert all(topic["deleted"] for topic in done.data)
        directories = [f"--log-dir={broker}={path}" for broker, paths in cluster.log_dirs.items() for path in paths]
        async with asyncio.timeout(90):
            while not (clean := await lethe("survey", "--json", *directories)).data["clean"]:
                assert {finding["standing"] for finding in clean.data["findings"]} <= {"pending"}
                assert all(finding["within_delay"] for finding in clean.data["findings"])
                assert clean.code == 0
        assert clean.code == 0


async def test_a_deletion_names_the_log_directory_that_has_failed(zookeeper_chroot: str) -> None:
    async with LocalCluster(ClusterSettings(controllers=1, brokers=1, zookeeper_connect=zookeeper_chroot)) as cluster:
        lethe = Lethe(cluster.zookeeper_connect)
        broker = cluster.brokers[0].id
        replicas = ",".join([str(broker)] * 4)
        assert (await lethe("topics", "create", "--topic", "orders", "--replica-assignment", replicas)).code == 0
        async with asyncio.timeout(90):
            while (await lethe("topics", "describe", "--unavailable-partitions")).out:
                pass
        lost = next(path for path in cluster.log_dirs[broker] if list(path.glob("orders-*")))
        lost.rename(lost.with_name("elsewhere"))
        waiting = await lethe("topics", "delete", "--topic", "orders", "--wait", "--json", "--timeout-ms", "8000")
        assert waiting.code == 4
        (topic,) = waiting.data
        assert topic["failed_log_dirs"] == [{"broker": broker, "path": str(lost)}]
        assert topic["waits_for"].startswith(f"waits for broker {broker}, whose log directory {lost} has failed")


async def test_a_controller_that_may_not_delete_is_noticed(zookeeper_chroot: str) -> None:
    settings = ClusterSettings(
        controllers=1,
        brokers=1,
        zookeeper_connect=zookeeper_chroot,
        controller_properties={"delete.topic.enable": "false"},
    )
    async with LocalCluster(settings) as cluster:
        lethe = Lethe(cluster.zookeeper_connect)
        assert (await lethe("topics", "create", "--topic", "kept", "--replica-assignment", "1")).code == 0
        refused = await lethe("topics", "delete", "--topic", "kept", "--wait", "--timeout-ms", "20000")
        assert refused.code == 1
        assert "delete.topic.enable" in refused.out
        assert (await lethe("topics", "list")).out == "kept\n"
        resigned = await lethe("controller-resign", "--json")
        assert resigned.code == 0
        assert resigned.data["successor"] == resigned.data["resigned"]["controller"]
