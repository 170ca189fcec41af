"""Topics that are deleted into the trash and brought back, on real brokers: records, offsets, clients that go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from lethe.cluster.local import LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, Exists, GetData, Present
from lethe.protocol.zookeeper.znodes import decode_topic
from tests.fakes.command_line import Lethe
from tests.interop.clients import bootstrap, produce, read_all
from tests.interop.conditions import (
    create,
    directories,
    has_no_directories,
    is_known_to_all,
    is_whole,
    plan,
    until,
)
from tests.interop.conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]

ROWS = ((1, 2), (2, 1))
NAMES = tuple(f"t{number}" for number in range(8))
RECORDS = 60
PROPERTIES = {
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
}


async def committed(cluster: LocalCluster, topic: str, group: str = "readers") -> list[int | None]:
    """What the group has committed, by partition."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap(cluster), group_id=group, enable_auto_commit=False)
    async with consumer, asyncio.timeout(60):
        return [await consumer.committed(TopicPartition(topic, number)) for number in range(len(ROWS))]


async def commit(cluster: LocalCluster, topic: str, offset: int) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap(cluster), group_id="readers", enable_auto_commit=False)
    async with consumer, asyncio.timeout(60):
        consumer.assign([TopicPartition(topic, number) for number in range(len(ROWS))])
        await consumer.commit({TopicPartition(topic, number): offset for number in range(len(ROWS))})


async def identity(cluster: LocalCluster, topic: str) -> object:
    async with cluster.session() as session:
        (found,) = await session.read([GetData(paths.topic(topic))])
        return decode_topic(topic, found.data) if isinstance(found, Data) else None


@asynccontextmanager
async def producing(cluster: LocalCluster, topic: str, sent: list[int]) -> AsyncIterator[None]:
    """A producer that never stops: the numbers that were acknowledged."""
    stopping = asyncio.Event()

    async def run() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap(cluster), acks="all", request_timeout_ms=5_000, retry_backoff_ms=200
        ) as producer:
            number = 1_000_000
            while not stopping.is_set():
                try:
                    await producer.send_and_wait(topic, number.to_bytes(8, "big"), partition=0)
                    sent.append(number)
                except Exception:  # noqa: BLE001 -- what is not acknowledged is not counted
                    pass
                number += 1

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run())
        try:
            yield
        finally:
            stopping.set()


async def test_many_topics_come_back_with_records_and_offsets(kafka_cluster: MakeCluster, version: str) -> None:
    if version == "2.5.1":
        pytest.skip("the trash needs topic ids, which brokers have from 2.8 on")
    async with kafka_cluster(version, brokers=2, properties=PROPERTIES) as cluster, cluster.session() as session:
        lethe = Lethe(cluster.zookeeper_connect)
        await create(session, *(plan(name, *ROWS, version=version, **{"retention.ms": "3600000"}) for name in NAMES))
        await until(is_known_to_all(session, 2, *NAMES), "all brokers know the topics")
        for name in NAMES:
            await until(is_whole(session, name, ROWS), f"{name} is whole")
        for name in NAMES:
            await produce(bootstrap(cluster), name, range(RECORDS))
            await commit(cluster, name, 7)
        records = {name: sorted(await read_all(bootstrap(cluster), name, len(ROWS))) for name in NAMES}
        before = {name: await identity(cluster, name) for name in NAMES}
        sent: list[int] = []
        async with producing(cluster, NAMES[0], sent):
            await until(lambda: _is_long(sent, 5), "the producer is at work")
            gone = await lethe("topics", "delete", "--grace", "1h", "--wait", "--yes", *NAMES)
            assert gone.code == 0, gone
            assert [await identity(cluster, name) for name in NAMES] == [None] * len(NAMES)
            assert all(directories(cluster, name) for name in NAMES)
            listed = await lethe("topics", "trash", "list", "--json")
            assert [each["topic"] for each in listed.data] == list(NAMES)
            # One broker restarts meanwhile, with its logs loaded and nobody to host them.
            await cluster.kafka_brokers[1].stop()
            await cluster.kafka_brokers[1].start()
            await until(is_known_to_all(session, 2, "__consumer_offsets"), "both brokers are back")
            stopped_at = len(sent)
            back = await lethe("topics", "undelete", *NAMES, "--timeout-ms", "90000")
            assert back.code == 0, back
            await until(lambda: _is_long(sent, stopped_at + 5), "the producer that never stopped goes on")
        for name in NAMES:
            await until(is_whole(session, name, ROWS), f"{name} is whole again", limit_s=120.0)
        assert {name: await identity(cluster, name) for name in NAMES} == before
        for name in NAMES[1:]:
            assert sorted(await read_all(bootstrap(cluster), name, len(ROWS))) == records[name]
            assert await committed(cluster, name) == [7, 7]
        first = {row.number for row in await read_all(bootstrap(cluster), NAMES[0], len(ROWS))}
        assert first.issuperset({row.number for row in records[NAMES[0]]}), "nothing from before is lost"
        assert first.issuperset(sent), "and nothing that was acknowledged"


async def test_time_is_over(kafka_cluster: MakeCluster, version: str) -> None:
    if version == "2.5.1":
        pytest.skip("the trash needs topic ids, which brokers have from 2.8 on")
    async with kafka_cluster(version, brokers=2, properties=PROPERTIES) as cluster, cluster.session() as session:
        lethe = Lethe(cluster.zookeeper_connect)
        await create(session, *(plan(name, *ROWS, version=version) for name in ("short", "purged")))
        for name in ("short", "purged"):
            await until(is_whole(session, name, ROWS), f"{name} is whole")
            await produce(bootstrap(cluster), name, range(RECORDS))
        assert (await lethe("topics", "delete", "--grace", "1h", "--wait", "purged")).code == 0
        assert (await lethe("topics", "delete", "--grace", "5s", "--wait", "short")).code == 0
        purged = await lethe("topics", "trash", "purge", "purged", "--yes")
        assert purged.code == 0, purged
        await until(has_no_directories(cluster, "short", "purged"), "their bytes are gone", limit_s=120.0)

        async def are_gone() -> bool:
            names = [path for name in ("short", "purged") for path in (paths.topic(name), paths.trashed(name))]
            return not any(isinstance(each, Present) for each in await session.read([Exists(path) for path in names]))

        await until(are_gone, "their znodes are gone")
        assert (await lethe("topics", "trash", "list")).out == "The trash is empty.\n"


async def _is_long(sent: list[int], at_least: int) -> bool:
    return len(sent) >= at_least
