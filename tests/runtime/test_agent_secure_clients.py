"""Three Kafka clients that Lethe has no part in log in to an agent: librdkafka, kafka-python, aiokafka."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.security.channel import ChannelSecurity
from lethe.adapters.security.login import SaslLogin
from lethe.broker.runtime.app import AgentApp
from lethe.protocol.kafka.control import Addressed
from lethe.protocol.security.scram import ScramCredential, ScramMechanism
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerEpoch, BrokerId
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.paths import config_user
from lethe.protocol.zookeeper.znodes import encode_config
from tests.fakes.agents import agent_config, ignore_watch, running
from tests.fakes.certificates import Authority
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import become, metadata

LIMIT_S = 60
T = TypeVar("T")
JAAS = 'PlainLoginModule required username="admin" password="pw" user_admin="pw";'


class Secure:
    """An agent with SASL_SSL that leads both partitions of topic `t`, and the authority of its certificate."""

    def __init__(self, app: AgentApp, ca_file: Path) -> None:
        self.ca_file = ca_file
        (endpoint,) = app.endpoints
        self.server = f"localhost:{endpoint.port}"


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Secure]:
    zookeeper, ca = FakeZooKeeper(), Authority()
    ca_file = ca.pem_file(tmp_path / "ca.pem")
    more = {
        "listeners": "INTERNAL://127.0.0.1:0",
        "advertised_listeners": "INTERNAL://localhost:0",
        "listener_security_protocol_map": "INTERNAL:SASL_SSL",
        "inter_broker_listener_name": "INTERNAL",
        "sasl_mechanism_inter_broker_protocol": "PLAIN",
        "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener_name_internal_plain_sasl_jaas_config": JAAS,
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(ca.issue("agent").pem_file(tmp_path / "agent.pem")),
        "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
        "super_users": "User:admin",
    }
    async with running(agent_config(tmp_path / "logs", "127.0.0.1:1", 1, **more), zookeeper.open_session) as app:
        async with zookeeper.open_session(ignore_watch) as session:
            texts = {each.value: ScramCredential.of(each, "pw", b"salt").text() for each in ScramMechanism}
            await session.multi([Create(config_user("admin"), encode_config(texts))])
        (endpoint,) = app.endpoints
        context = ssl.create_default_context(cafile=str(ca_file))
        security = ChannelSecurity(lambda: context, login=SaslLogin.plain("admin", lambda: "pw"))
        me = Broker(BrokerId(1), BrokerEpoch(-1), (endpoint._replace(host="localhost"),))
        async with await KafkaConnection.open("localhost", endpoint.port, "test", security=security) as connection:
            await connection.ask(Addressed(become(partitions=(0, 1), is_new=True), NO_EPOCH))
            await connection.ask(Addressed(metadata(partitions=(0, 1), brokers=(me,)), NO_EPOCH))
        yield Secure(app, ca_file)


async def apart(work: Callable[[], T]) -> T:
    """In a thread: these clients block, and the agent answers on this event loop."""
    return await asyncio.wait_for(asyncio.to_thread(work), LIMIT_S)


MECHANISMS = pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])


@MECHANISMS
async def test_librdkafka_logs_in_and_lists_topics(agent: Secure, mechanism: str) -> None:
    config: dict[str, Any] = {
        "bootstrap.servers": agent.server,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(agent.ca_file),
        "sasl.mechanism": mechanism,
        "sasl.username": "admin",
        "sasl.password": "pw",
    }
    client = AdminClient(config)
    found = await apart(lambda: client.list_topics(timeout=30))
    assert {name: sorted(topic.partitions) for name, topic in found.topics.items()} == {"t": [0, 1]}


@MECHANISMS
async def test_kafka_python_logs_in_and_lists_topics(agent: Secure, mechanism: str) -> None:
    def topics() -> list[str]:
        client = KafkaAdminClient(
            bootstrap_servers=agent.server,
            security_protocol="SASL_SSL",
            ssl_cafile=str(agent.ca_file),
            sasl_mechanism=mechanism,
            sasl_plain_username="admin",
            sasl_plain_password="pw",
        )
        try:
            return sorted(client.list_topics())
        finally:
            client.close()

    assert await apart(topics) == ["t"]


@MECHANISMS
async def test_aiokafka_logs_in_and_lists_topics(agent: Secure, mechanism: str) -> None:
    client = AIOKafkaAdminClient(
        bootstrap_servers=agent.server,
        security_protocol="SASL_SSL",
        ssl_context=ssl.create_default_context(cafile=str(agent.ca_file)),
        sasl_mechanism=mechanism,
        sasl_plain_username="admin",
        sasl_plain_password="pw",
    )
    async with asyncio.timeout(LIMIT_S):
        await client.start()
        try:
            assert await client.list_topics() == ["t"]
        finally:
            await client.close()
