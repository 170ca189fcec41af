"""Three Kafka clients that Lethe has no part in ask an agent: librdkafka, kafka-python, aiokafka.

An agent stores no records and coordinates no groups. A client learns the first from ApiVersions, which lists neither
Produce nor Fetch, and says so by itself; its connection stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import IncompatibleBrokerVersion
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import IncompatibleBrokerVersion as KafkaPythonIncompatible

from lethe.broker.runtime.app import AgentApp
from lethe.protocol.kafka.control import Addressed
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerEpoch, BrokerId
from tests.fakes.agents import agent_config, connected, running
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import become, metadata

LIMIT_S = 120
T = TypeVar("T")


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[AgentApp]:
    """An agent that leads both partitions of topic `t`."""
    zookeeper = FakeZooKeeper()
    async with running(agent_config(tmp_path), zookeeper.open_session) as app:
        me = Broker(BrokerId(1), BrokerEpoch(-1), app.endpoints)
        async with connected(app) as connection:
            await connection.ask(Addressed(become(partitions=(0, 1), is_new=True), NO_EPOCH))
            await connection.ask(Addressed(metadata(partitions=(0, 1), brokers=(me,)), NO_EPOCH))
        yield app


@pytest.fixture(autouse=True)
def no_connection_was_broken(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that a client sent was refused by closing its connection."""
    yield
    broken = [
        r.getMessage() for r in caplog.records if r.name == "lethe.adapters.kafka.server" and r.levelno > logging.INFO
    ]
    assert broken == []


def servers(agent: AgentApp) -> str:
    (endpoint,) = agent.endpoints
    return f"{endpoint.host}:{endpoint.port}"


async def apart(work: Callable[[], T]) -> T:
    """In a thread: these clients block, and the agent answers on this event loop."""
    return await asyncio.wait_for(asyncio.to_thread(work), LIMIT_S)


# --- librdkafka ---------------------------------------------------------------------------------------------------


async def test_librdkafka_lists_topics_with_its_first_request(agent: AgentApp) -> None:
    client = AdminClient({"bootstrap.servers": servers(agent)})
    found = await apart(lambda: client.list_topics(timeout=60))
    assert {name: sorted(topic.partitions) for name, topic in found.topics.items()} == {"t": [0, 1]}
    assert list(found.brokers) == [1]
    one = await apart(lambda: client.list_topics("t", timeout=60))
    assert {number: each.leader for number, each in one.topics["t"].partitions.items()} == {0: 1, 1: 1}


async def test_librdkafka_says_that_a_record_was_not_stored(agent: AgentApp) -> None:
    outcomes: list[KafkaError | None] = []

    def produce() -> None:
        producer = Producer({"bootstrap.servers": servers(agent), "message.timeout.ms": 1_000})
        producer.produce("t", b"x", on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(60)

    await apart(produce)
    (error,) = outcomes
    assert error is not None
    assert error.code() == KafkaError._MSG_TIMED_OUT


# --- kafka-python -------------------------------------------------------------------------------------------------


async def test_kafka_python_lists_topics_and_describes_the_cluster(agent: AgentApp) -> None:
    def ask() -> tuple[list[str], object]:
        admin = KafkaAdminClient(bootstrap_servers=servers(agent))
        try:
            return admin.list_topics(), [each["broker_id"] for each in admin.describe_cluster()["brokers"]]
        finally:
            admin.close()

    assert await apart(ask) == (["t"], [1])


async def test_kafka_python_says_that_an_agent_stores_and_gives_no_records(agent: AgentApp) -> None:
    def produce() -> None:
        producer = KafkaProducer(bootstrap_servers=servers(agent))
        try:
            producer.send("t", b"x").get(60)
        finally:
            producer.close(timeout=1)

    def consume() -> None:
        consumer = KafkaConsumer("t", bootstrap_servers=servers(agent), group_id=None, consumer_timeout_ms=60_000)
        try:
            next(consumer)
        finally:
            consumer.close(autocommit=False)

    for attempt in (produce, consume):
        with pytest.raises(KafkaPythonIncompatible):
            await apart(attempt)


# --- aiokafka -----------------------------------------------------------------------------------------------------


async def test_aiokafka_lists_topics_and_describes_the_cluster(agent: AgentApp) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers(agent))
    async with asyncio.timeout(LIMIT_S):
        await admin.start()
        try:
            assert await admin.list_topics() == ["t"]
            assert [each["node_id"] for each in (await admin.describe_cluster())["brokers"]] == [1]
        finally:
            await admin.close()


async def test_aiokafka_says_that_an_agent_stores_no_records(agent: AgentApp) -> None:
    async with asyncio.timeout(LIMIT_S), AIOKafkaProducer(bootstrap_servers=servers(agent)) as producer:
        with pytest.raises(IncompatibleBrokerVersion):
            await producer.send_and_wait("t", b"x")
