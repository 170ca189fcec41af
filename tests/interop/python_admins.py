"""Python's admin clients create, grow and delete topics: the same steps wherever they bootstrap.

With `is_everywhere`, each change is shown by every broker once the client has its answer.
"""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AiokafkaPartitions
from aiokafka.admin import NewTopic as AiokafkaTopic
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions as LibrdkafkaPartitions
from confluent_kafka.cimpl import NewTopic as LibrdkafkaTopic
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions, NewTopic
from kafka.errors import KafkaError

LIMIT_S = 120.0


async def aiokafka_administers(servers: list[str], is_everywhere: bool) -> None:
    """Topic `aio` comes and goes."""
    client = AIOKafkaAdminClient(bootstrap_servers=servers)
    await client.start()
    try:
        async with asyncio.timeout(LIMIT_S):
            created = await client.create_topics([AiokafkaTopic("aio", 2, 2, topic_configs={"retention.ms": "1000"})])
            assert [row[:2] for row in created.topic_errors] == [("aio", 0)]
            created = await client.create_topics([AiokafkaTopic("aio", 2, 2)])
            assert [row[:3] for row in created.topic_errors] == [("aio", 36, "Topic 'aio' already exists.")]
            grown = await client.create_partitions({"aio": AiokafkaPartitions(3)})
            assert [row[:2] for row in grown.topic_errors] == [("aio", 0)]
            (described,) = await client.describe_topics(["aio"])
            assert len(described["partitions"]) == 3 or not is_everywhere
            deleted = await client.delete_topics(["aio"])
            assert [row[:2] for row in deleted.topic_error_codes] == [("aio", 0)]
            deleted = await client.delete_topics(["aio"])
            assert [row[:2] for row in deleted.topic_error_codes] == [("aio", 3)]
    finally:
        await client.close()


def kafka_python_administers(servers: list[str], is_everywhere: bool) -> None:
    """Topic `python` comes and goes."""
    client = KafkaAdminClient(bootstrap_servers=servers)
    try:
        client.create_topics([NewTopic("checked", 2, 2)], validate_only=True)
        client.create_topics([NewTopic("python", 2, 2)])
        with pytest.raises(KafkaError, match="TopicAlreadyExists"):
            client.create_topics([NewTopic("python", 2, 2)])
        client.create_partitions({"python": NewPartitions(3)})
        assert client.list_topics() == ["python"] or not is_everywhere
        client.delete_topics(["python"])
        assert client.list_topics() == [] or not is_everywhere
    finally:
        client.close()


def librdkafka_administers(servers: list[str], is_everywhere: bool) -> None:
    """Topic `rd` comes and goes."""
    client = AdminClient({"bootstrap.servers": ",".join(servers)})
    client.create_topics([LibrdkafkaTopic("rd", 2, 2)])["rd"].result(LIMIT_S)
    with pytest.raises(KafkaException, match="Topic 'rd' already exists."):
        client.create_topics([LibrdkafkaTopic("rd", 2, 2)])["rd"].result(LIMIT_S)
    client.create_partitions([LibrdkafkaPartitions("rd", 3)])["rd"].result(LIMIT_S)
    shown = client.list_topics("rd", timeout=LIMIT_S).topics["rd"]
    assert len(shown.partitions) == 3 or not is_everywhere
    client.delete_topics(["rd"])["rd"].result(LIMIT_S)
