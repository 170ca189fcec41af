"""A cluster of agents and our controller, with nothing of Kafka's: its tools and other clients administer it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.client_cluster import open_cluster
from lethe.admin.client_topics import shown_topics
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.admin.topic_znodes import live_brokers
from lethe.cli.topics_create import creation
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import decode_config
from tests.interop.conditions import gone_everywhere, name_a_controller, until
from tests.interop.conftest import MakeCluster, fetched
from tests.interop.java_clients import attempt, run
from tests.interop.python_admins import (
    LIMIT_S,
    aiokafka_administers,
    kafka_python_administers,
    librdkafka_administers,
)

pytestmark = [
    *(pytest.mark.interop, pytest.mark.slow, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)),
]
KAFKA = "3.9.1"
PROPERTIES = {"auto.create.topics.enable": "true", "log.retention.ms": "77000"}


async def bootstrap(session: ZooKeeperSession) -> list[str]:
    """Where the agents are, after an address where nobody is."""
    brokers, _ = await live_brokers(session)
    agents = [broker.endpoints[0] for broker in brokers if broker.id <= 3]
    return ["127.0.0.1:1", *(f"{endpoint.host}:{endpoint.port}" for endpoint in agents)]


async def test_kafkas_tools_administer_a_cluster_of_agents(kafka_cluster: MakeCluster, tmp_path: Path) -> None:
    async with (
        kafka_cluster(KAFKA, 0, agents=3, listed=True, agent_properties=PROPERTIES) as cluster,
        cluster.session() as session,
    ):
        await until(name_a_controller(session, 3), "every agent names a controller")
        servers = ",".join(await bootstrap(session))

        async def tool(name: str, *arguments: str) -> str:
            return await run(fetched(KAFKA), name, ("--bootstrap-server", servers, *arguments), tmp_path / "tools")

        sizes = ("--partitions", "3", "--replication-factor", "2")
        said = await tool("TopicCommand", "--create", "--topic", "orders", *sizes, "--config", "segment.bytes=9000")
        assert "Created topic orders." in said
        assert (await tool("TopicCommand", "--list")).split() == ["orders"]
        said = await tool("TopicCommand", "--describe")
        assert re.search(r"PartitionCount: 3\tReplicationFactor: 2\tConfigs: .*segment.bytes=9000", said), said
        topic = ("--entity-type", "topics", "--entity-name", "orders")
        said = await tool("ConfigCommand", "--describe", "--all", *topic)
        assert "segment.bytes=9000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=9000" in said
        assert "retention.ms=77000 sensitive=false synonyms={STATIC_BROKER_CONFIG:log.retention.ms=77000" in said
        said = await tool("ConfigCommand", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
        assert "broker.id=1 sensitive=false" in said
        assert not (await tool("ConsumerGroupCommand", "--list", "--timeout", "120000")).strip()
        await tool("TopicCommand", "--delete", "--topic", "orders")
        assert not (await tool("TopicCommand", "--list")).strip()
        await gone_everywhere(cluster, session, "orders")


async def test_kafkas_tools_alter_configurations_at_an_agent(kafka_cluster: MakeCluster, tmp_path: Path) -> None:
    """The controller is a guest, so that clients see the agent only."""
    async with kafka_cluster(KAFKA, 0, agents=1) as cluster, cluster.session() as session:
        await creation(session, TopicCreationRequest("orders", 1, 1))
        (agent,) = [broker.endpoints[0] for broker in (await live_brokers(session))[0]]
        servers = f"{agent.host}:{agent.port}"
        async with open_cluster(PLAINTEXT_REACH, [servers], timeout_ms=120_000) as seen:

            async def is_shown() -> bool:
                return "orders" in (await shown_topics(seen)).names

            await until(is_shown, "the agent shows the topic")

        async def alter(*arguments: str) -> tuple[int, str]:
            everything = ("--bootstrap-server", servers, "--alter", *arguments)
            return await attempt(fetched(KAFKA), "ConfigCommand", everything, tmp_path / "tools")

        async def stored(path: str) -> dict[str, str]:
            (found,) = await session.read([GetData(path)])
            assert isinstance(found, Data), found
            return decode_config(path, found.data)

        topic = ("--entity-type", "topics", "--entity-name", "orders")
        agents = ("--entity-type", "brokers", "--entity-name", "1")
        code, said = await alter(*topic, "--add-config", "retention.ms=88000,cleanup.policy=[compact,delete]")
        assert (code, "Completed updating config for topic orders." in said) == (0, True), said
        assert await stored("/config/topics/orders") == {"retention.ms": "88000", "cleanup.policy": "compact,delete"}
        code, said = await alter(*topic, "--delete-config", "retention.ms")
        assert (code, await stored("/config/topics/orders")) == (0, {"cleanup.policy": "compact,delete"}), said
        code, said = await alter(*topic, "--add-config", "segment.ms=0")
        assert code == 1
        assert "Invalid value 0 for configuration segment.ms: Value must be at least 1" in said
        rate = "leader.replication.throttled.rate"
        code, said = await alter(*agents, "--add-config", f"{rate}=1000,lethe.delete.files.per.second=40")
        assert (code, await stored("/config/brokers/1")) == (0, {rate: "1000", "lethe.delete.files.per.second": "40"})
        everyone = ("--entity-type", "brokers", "--entity-default")
        code, said = await alter(*everyone, "--add-config", "lethe.protected.topics=[orders]")
        assert (code, await stored("/config/brokers/<default>")) == (0, {"lethe.protected.topics": "orders"}), said


async def test_clients_in_python_and_c_administer_a_cluster_of_agents(kafka_cluster: MakeCluster) -> None:
    async with (
        kafka_cluster(KAFKA, 0, agents=3, listed=True, agent_properties=PROPERTIES) as cluster,
        cluster.session() as session,
    ):
        await until(name_a_controller(session, 3), "every agent names a controller")
        servers = await bootstrap(session)
        await aiokafka_administers(servers, True)
        for administers in (kafka_python_administers, librdkafka_administers):
            await asyncio.wait_for(asyncio.to_thread(administers, servers, True), LIMIT_S)
        await gone_everywhere(cluster, session, "aio", "python", "rd")
        await asyncio.wait_for(asyncio.to_thread(_as_kcat_does, servers), LIMIT_S)


def _as_kcat_does(servers: list[str]) -> None:
    """librdkafka lists all, creates a topic by naming it, and describes it."""
    client = AdminClient({"bootstrap.servers": ",".join(servers), "allow.auto.create.topics": True})
    assert len(client.list_topics(timeout=LIMIT_S).brokers) == 4
    while (topic := client.list_topics("named", timeout=LIMIT_S).topics["named"]).error is not None:
        assert topic.error.retriable() or topic.error.name() == "LEADER_NOT_AVAILABLE", topic.error
    assert len(topic.partitions) == 1
    resource = ConfigResource(ConfigResource.Type.TOPIC, "named")
    configs = client.describe_configs([resource])[resource].result(LIMIT_S)
    assert configs["retention.ms"].value == "77000"
    described = client.describe_cluster(include_authorized_operations=True).result(LIMIT_S)
    assert len(described.nodes) == 4
    assert described.authorized_operations
    client.delete_topics(["named"])["named"].result(LIMIT_S)
