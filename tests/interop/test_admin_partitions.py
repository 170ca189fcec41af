"""Kafka's tools move partitions and elect leaders: our advertised controller answers them as Kafka's own does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.local import LocalCluster
from lethe.protocol.vocabulary import ReplicaAssignment
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Children, Data, Exists, GetChildren, GetData, Present
from lethe.protocol.zookeeper.znodes import decode_config, decode_topic
from lethe.survey.znodes import read_data
from tests.interop.clients import bootstrap, produce
from tests.interop.conditions import complaints, create, is_whole, plan, states, until
from tests.interop.conftest import WHOSE, MakeCluster, fetched
from tests.interop.java_clients import run

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]
WITHOUT_REBALANCE = {"auto.leader.rebalance.enable": "false"}
SMALL_FETCHES = {"replica.fetch.max.bytes": "1000", "replica.fetch.response.max.bytes": "1000"}
"""A follower with these gets one batch of records at a time, so a throttle stops it after the first one."""
RECORDS = 3_000
"""Some batches for each partition."""
WITH_REASSIGNMENTS = "3.9.1"
"""ReassignPartitionsCommand sends requests from 2.6 on; this one is run for older brokers as well."""


class Tools:
    """Runs Kafka's tools against this cluster."""

    def __init__(self, cluster: LocalCluster, version: str, directory: Path) -> None:
        self._cluster = cluster
        self._version = version
        self._directory = directory

    async def move(self, action: str, partition: int, *replicas: int, throttle: int | None = None) -> str:
        """`action` is an option of ReassignPartitionsCommand; the partition is of `orders`. `throttle`: bytes/s."""
        moves = {"version": 1, "partitions": [{"topic": "orders", "partition": partition, "replicas": replicas}]}
        self._directory.mkdir(exist_ok=True)
        file = self._directory / "moves.json"
        file.write_text(json.dumps(moves))
        options = () if throttle is None else ("--throttle", str(throttle))
        return await self._run(
            WITH_REASSIGNMENTS, "ReassignPartitionsCommand", "--reassignment-json-file", str(file), action, *options
        )

    async def moving(self) -> list[str]:
        """What `--list` says of each partition in reassignment."""
        said = await self._run(WITH_REASSIGNMENTS, "ReassignPartitionsCommand", "--list")
        return [line.strip() for line in said.splitlines() if line.startswith("orders-")]

    async def elect(self, kind: str, *partitions: str) -> str:
        return await self._run(self._version, "LeaderElectionCommand", "--election-type", kind, *partitions)

    async def _run(self, version: str, tool: str, *arguments: str) -> str:
        servers = ",".join(bootstrap(self._cluster))
        return await run(fetched(version), tool, ("--bootstrap-server", servers, *arguments), self._directory)


@pytest.mark.parametrize("controllers", WHOSE)
async def test_partitions_are_moved_by_kafkas_tool(
    kafka_cluster: MakeCluster, version: str, controllers: int, tmp_path: Path
) -> None:
    async with (
        kafka_cluster(
            version, controllers=controllers, listed=bool(controllers), own_properties={3: SMALL_FETCHES}
        ) as cluster,
        cluster.session() as session,
    ):
        tools = Tools(cluster, version, tmp_path / "tools")
        await create(session, plan("orders", (1,), (1, 2), version=version))
        await until(is_whole(session, "orders", [(1,), (1, 2)]), "the topic is whole")
        assert len(await produce(bootstrap(cluster), "orders", range(RECORDS))) == RECORDS

        assert "Successfully started partition reassignment for orders-0" in await tools.move("--execute", 0, 2)
        await until(is_whole(session, "orders", [(2,), (1, 2)]), "partition 0 is moved")
        assert "Reassignment of partition orders-0 is completed." in await tools.move("--verify", 0, 2)

        said = await tools.move("--execute", 1, 3, 2, throttle=1)
        assert "Successfully started partition reassignment for orders-1" in said
        assert await tools.moving() == ["orders-1: replicas: 3,2,1. adding: 3. removing: 1."]
        assert {1, 3} <= set(await throttled(session))
        assert "Successfully cancelled partition reassignment for: orders-1" in await tools.move("--cancel", 1, 3, 2)
        assert await tools.moving() == []
        assert await throttled(session) == []
        assert "None of the specified partition reassignments are active." in await tools.move("--cancel", 1, 3, 2)
        await until(is_whole(session, "orders", [(2,), (2, 1)]), "partition 1 is where it was")
        # A move puts its target's replicas first, and its end does not put them back.
        (topic,) = await session.read([GetData(paths.topic("orders"))])
        assert isinstance(topic, Data)
        assert decode_topic("orders", topic.data).assignments[1] == ReplicaAssignment((2, 1))
        # The znode was never used.
        (found,) = await session.read([Exists(paths.reassign_partitions())])
        assert not isinstance(found, Present)
        assert complaints(cluster) == []


async def throttled(session: ZooKeeperSession) -> list[int]:
    """Brokers, the controller among them, with a throttle in their configuration."""
    (found,) = await session.read([GetChildren(paths.CONFIG_BROKERS)])
    assert isinstance(found, Children)
    numbers = sorted(int(name) for name in found.names if name.isdigit())
    read = [await read_data(session, paths.config_broker(number)) for number in numbers]
    configs = [{} if data is None else decode_config("", data.data) for data in read]
    return [
        number for number, config in zip(numbers, configs, strict=True) if any("throttled" in name for name in config)
    ]


@pytest.mark.parametrize("controllers", WHOSE)
async def test_leaders_are_elected_by_kafkas_tool(
    kafka_cluster: MakeCluster, version: str, controllers: int, tmp_path: Path
) -> None:
    async with (
        kafka_cluster(
            version,
            controllers=controllers,
            listed=bool(controllers),
            properties=WITHOUT_REBALANCE,
            controller_properties=WITHOUT_REBALANCE,
        ) as cluster,
        cluster.session() as session,
    ):
        tools = Tools(cluster, version, tmp_path / "tools")
        one, two, _ = cluster.kafka_brokers
        await create(session, plan("orders", (1, 2), (2, 1), version=version))
        await until(is_whole(session, "orders", [(1, 2), (2, 1)]), "the topic is whole")
        assert await leaders(session) == [1, 2]
        await one.stop(120)
        await until(lambda: are_led_by(session, 2, 2), "the other replica leads")
        await one.start(120)
        await until(is_whole(session, "orders", [(1, 2), (2, 1)]), "broker 1 is back in sync")
        assert await leaders(session) == [2, 2]
        said = await tools.elect("preferred", "--all-topic-partitions")
        assert "Successfully completed leader election (PREFERRED) for partitions orders-0" in said
        assert await leaders(session) == [1, 2]
        said = await tools.elect("preferred", "--topic", "orders", "--partition", "0")
        assert "Valid replica already elected for partitions" in said

        await two.stop(120)
        await until(lambda: are_led_by(session, 1, 1), "broker 1 leads alone")
        await one.process.kill()
        await until(lambda: are_led_by(session, -1, -1), "no replica leads")
        await two.start(120)
        assert await leaders(session) == [-1, -1]
        said = await tools.elect("unclean", "--topic", "orders", "--partition", "1")
        assert "Successfully completed leader election (UNCLEAN) for partitions orders-1" in said
        assert await leaders(session) == [-1, 2]
        if controllers:
            # Kafka's controller logs a partition without an eligible leader as an error.
            assert complaints(cluster) == []


async def leaders(session: ZooKeeperSession) -> list[int]:
    """Of both partitions of `orders`."""
    return [-1 if state is None else state.leader for state in await states(session, "orders", 2)]


async def are_led_by(session: ZooKeeperSession, *wanted: int) -> bool:
    return await leaders(session) == list(wanted)
