"""Python's admin clients, one call after the other: one line of JSON asks, one answers (`driver.py`).

Asked: `{"servers": TEXT, "words": [LIBRARY, CALL, ARGUMENT...]}`. Answered: `{"code": 0, "out": TEXT, "err": ""}`.
A topic is NAME:PARTITIONS:REPLICATION, a growth NAME:COUNT.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AiokafkaPartitions
from aiokafka.admin import NewTopic as AiokafkaTopic
from aiokafka.admin.config_resource import ConfigResource as AiokafkaResource
from aiokafka.admin.config_resource import ConfigResourceType as AiokafkaType
from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka import admin as librdkafka_admin
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions as LibrdkafkaPartitions
from confluent_kafka.cimpl import NewTopic as LibrdkafkaTopic
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions, NewTopic
from kafka.errors import KafkaError

RD: Final[Any] = librdkafka_admin
"""It exports most of its names for readers only, not for mypy."""
TIMEOUT_S: Final = 15.0
"""Less than what the judge waits, so that a client's own word for it is heard."""


# --- confluent-kafka ----------------------------------------------------------------------------------------------


def confluent(servers: str, call: str, words: list[str]) -> Iterator[str]:
    client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    match call:
        case "create":
            yield from _futures(client.create_topics([LibrdkafkaTopic(*_sizes(word)) for word in words]))
        case "check-create":
            topics = [LibrdkafkaTopic(*_sizes(word)) for word in words]
            yield from _futures(client.create_topics(topics, validate_only=True))
        case "grow":
            grown = [LibrdkafkaPartitions(*_growth(word)) for word in words]
            yield from _futures(client.create_partitions(grown))
        case "delete":
            yield from _futures(client.delete_topics(words))
        case "list":
            yield from sorted(client.list_topics(timeout=TIMEOUT_S).topics)
        case "describe":
            yield from _futures(client.describe_topics(TopicCollection(words)), _described)
        case "set-config":
            yield from _futures(client.incremental_alter_configs([_incremental(words)]))
        case "replace-configs":
            pairs = dict(word.split("=", 1) for word in words[2:])
            yield from _futures(client.alter_configs([RD.ConfigResource(_type(words[0]), words[1], set_config=pairs)]))
        case "configs":
            found = client.describe_configs([RD.ConfigResource(_type(words[0]), words[1])])
            yield from _futures(found, lambda entries: f"{len(entries)} entries")
        case "scram-users":
            yield from _futures(
                client.describe_user_scram_credentials(words), lambda user: len(user.scram_credential_infos)
            )
        case "delete-scram":
            gone = RD.UserScramCredentialDeletion(words[0], RD.ScramMechanism.SCRAM_SHA_256)
            yield from _futures(client.alter_user_scram_credentials([gone]))
        case "produce":
            yield _produced(servers, words[0], int(words[1]))
        case _:
            raise ValueError(f"no such call: {call}")


def _futures(futures: Any, shown: Callable[[Any], object] = lambda value: value) -> Iterator[str]:
    for key, future in sorted(futures.items(), key=lambda item: str(item[0])):
        try:
            value = future.result(TIMEOUT_S)
            yield f"{key}: {'done' if value is None else shown(value)}"
        except KafkaException as error:
            yield f"{key}: {error.args[0].name()}: {error.args[0].str()}"


def _described(topic: Any) -> str:
    rows = [f"{row.id} {row.leader.id} {[one.id for one in row.replicas]}" for row in topic.partitions]
    return f"internal {topic.is_internal}: {'; '.join(rows)}"


def _type(name: str) -> Any:
    return RD.ResourceType[name]


def _incremental(words: list[str]) -> Any:
    pairs = (word.split("=", 1) for word in words[2:])
    entries = [RD.ConfigEntry(name, value, incremental_operation=RD.AlterConfigOpType.SET) for name, value in pairs]
    return RD.ConfigResource(_type(words[0]), words[1], incremental_configs=entries)


def _produced(servers: str, topic: str, count: int) -> str:
    failures: list[str] = []
    settings = {"bootstrap.servers": servers, "message.timeout.ms": 10_000, "linger.ms": 0, "log_level": 0}
    # Small batches: a follower with small fetches then needs many of them.
    producer = Producer({**settings, "acks": "all", "batch.num.messages": 50})

    def on_delivery(error: Any, _: object) -> None:
        if error is not None:
            failures.append(error.name())

    for number in range(count):
        producer.produce(topic, str(number).encode().ljust(200, b"."), partition=0, on_delivery=on_delivery)
        producer.poll(0)
    left = producer.flush(TIMEOUT_S)
    return f"{count - len(failures) - left} records are written, {len(failures)} are refused: {sorted(set(failures))}"


# --- aiokafka -----------------------------------------------------------------------------------------------------


async def aiokafka(servers: str, call: str, words: list[str]) -> list[str]:
    client = AIOKafkaAdminClient(bootstrap_servers=servers)
    await client.start()
    try:
        return [line async for line in _aiokafka(client, call, words)]
    finally:
        await client.close()


async def _aiokafka(client: AIOKafkaAdminClient, call: str, words: list[str]) -> Any:
    match call:
        case "create":
            answer = await client.create_topics([AiokafkaTopic(*_sizes(word)) for word in words])
            for row in answer.topic_errors:
                yield _row(row)
        case "grow":
            grown = {name: AiokafkaPartitions(count) for name, count in map(_growth, words)}
            for row in (await client.create_partitions(grown)).topic_errors:
                yield _row(row)
        case "delete":
            for row in (await client.delete_topics(words)).topic_error_codes:
                yield _row(row)
        case "list":
            yield str(sorted(await client.list_topics()))
        case "describe":
            for topic in await client.describe_topics(words):
                yield f"{topic['topic']}: error {topic['error_code']}, {len(topic['partitions'])} partitions"
        case "set-config":
            pairs = dict(word.split("=", 1) for word in words[2:])
            resource = AiokafkaResource(AiokafkaType[words[0]], words[1], configs=pairs)
            for answer in await client.alter_configs([resource]):
                for row in answer.resources:
                    yield _row(row)
        case "configs":
            for answer in await client.describe_configs([AiokafkaResource(AiokafkaType[words[0]], words[1])]):
                for row in answer.resources:
                    yield f"{_row(row[:4])} {len(row[4])} entries"
        case "cluster":
            nodes = (await client.describe_cluster())["brokers"]
            yield str(sorted(node["node_id"] for node in nodes))
        case _:
            raise ValueError(f"no such call: {call}")


def _row(row: Iterable[Any]) -> str:
    return ", ".join(str(each) for each in row)


# --- kafka-python -------------------------------------------------------------------------------------------------


def kafka_python(servers: str, call: str, words: list[str]) -> Iterator[str]:
    client = KafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=int(TIMEOUT_S * 1000))
    try:
        match call:
            case "create":
                yield _said(lambda: client.create_topics([NewTopic(*_sizes(word)) for word in words]))
            case "check-create":
                topics = [NewTopic(*_sizes(word)) for word in words]
                yield _said(lambda: client.create_topics(topics, validate_only=True))
            case "grow":
                grown = {name: NewPartitions(count) for name, count in map(_growth, words)}
                yield _said(lambda: client.create_partitions(grown))
            case "delete":
                yield _said(lambda: client.delete_topics(words))
            case "list":
                yield str(sorted(client.list_topics()))
            case "cluster":
                yield str(sorted(node["broker_id"] for node in client.describe_cluster()["brokers"]))
            case _:
                raise ValueError(f"no such call: {call}")
    finally:
        client.close()


def _said(call: Callable[[], object]) -> str:
    try:
        # Kafka lists a topic's settings in the order of a hash map.
        return f"done: {json.dumps(call(), sort_keys=True, default=str)}"
    except KafkaError as error:
        return f"{type(error).__name__}: {error}"


# --- all ----------------------------------------------------------------------------------------------------------


def _sizes(word: str) -> tuple[str, int, int]:
    name, partitions, replication = word.split(":")
    return name, int(partitions), int(replication)


def _growth(word: str) -> tuple[str, int]:
    name, count = word.split(":")
    return name, int(count)


def answer(servers: str, words: list[str]) -> list[str]:
    """Return the lines of one call. Errors are lines too."""
    library, call, *rest = words
    try:
        if library == "aiokafka":
            awaited: Awaitable[list[str]] = asyncio.wait_for(aiokafka(servers, call, rest), TIMEOUT_S)
            return asyncio.run(_awaited(awaited))
        return list({"confluent": confluent, "kafka-python": kafka_python}[library](servers, call, rest))
    except Exception as error:  # noqa: BLE001 - whatever a client raises is its answer
        return [f"{type(error).__name__}: {error}"]


async def _awaited(answer: Awaitable[list[str]]) -> list[str]:
    return await answer


def main() -> None:
    logging.disable(logging.CRITICAL)
    sys.stdout.write("{}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        question = json.loads(line)
        lines = answer(question["servers"], question["words"])
        sys.stdout.write(json.dumps({"code": 0, "out": "\n".join(lines), "err": ""}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
