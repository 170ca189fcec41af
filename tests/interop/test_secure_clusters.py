"""Kafka alone behind TLS, SASL and rights: the scene of the other tests about security, seen to work and to refuse."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import AuthenticationFailedError, KafkaError

from lethe.admin import topic_znodes
from lethe.cluster.local import LocalCluster
from tests.interop.clients import bootstrap, produce, read_all
from tests.interop.conditions import has_no_directories, is_whole, kafka_leads, until
from tests.interop.conftest import MakeSecureCluster
from tests.interop.java_clients import run
from tests.interop.secure_listeners import BROKERS, GUEST, KINDS, LETHE, SecureListeners, Trouble

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
async def test_kafka_serves_its_users_and_refuses_others(
    secure_cluster: MakeSecureCluster, kind: type[SecureListeners], version: str, tmp_path: Path
) -> None:
    async with secure_cluster(kind, version, 2) as (cluster, listeners), cluster.session() as session:
        await kafka_leads(session)
        kafka = cluster.kafka_brokers[0].kafka
        servers = bootstrap(cluster)
        brokers = listeners.aiokafka(BROKERS)

        async def tool(name: str, *arguments: str) -> str:
            access = ("--bootstrap-server", ",".join(servers), "--command-config", str(listeners.client_file(BROKERS)))
            return await run(kafka, name, (*access, *arguments), tmp_path / "tools")

        await tool("TopicCommand", "--create", "--topic", "orders", "--replica-assignment", "1:2,2:1")
        await until(is_whole(session, "orders", [(1, 2), (2, 1)]), "orders is whole")
        stored = await produce(servers, "orders", range(100), **brokers)
        assert sorted(await read_all(servers, "orders", 2, **brokers)) == sorted(stored)
        assert len(stored) == 100

        listed = await tool("AclCommand", "--list")
        assert f"principal=User:{listeners.principal_name(LETHE)}, host=*, operation=CLUSTER_ACTION" in listed
        assert await topics_seen(cluster, listeners, LETHE) == ["orders"]
        assert await topics_seen(cluster, listeners, GUEST) == []
        for trouble in listeners.troubles:
            if trouble is not Trouble.EXPIRED_BROKERS:
                with pytest.raises((AuthenticationFailedError, ssl.SSLError, KafkaError)):
                    await topics_seen(cluster, listeners, LETHE, trouble)

        await tool("TopicCommand", "--delete", "--topic", "orders")
        await until(has_no_directories(cluster, "orders"), "the directories are gone")
        left = await topic_znodes.list_topics(session)
        assert "orders" not in {*left.names, *left.marked}


async def topics_seen(
    cluster: LocalCluster, listeners: SecureListeners, user: str, trouble: Trouble | None = None
) -> list[str]:
    """Return the topics that this user is told of."""
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap(cluster), **listeners.aiokafka(user, trouble))
    try:
        await client.start()
        return sorted(topic for topic in await client.list_topics() if not topic.startswith("__"))
    finally:
        await client.close()
