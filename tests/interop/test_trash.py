"""Topics that are deleted into the trash and brought back, on real brokers: records, offsets, clients that go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from lethe.cluster.local import LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, Exists, GetData, Present
from lethe.protocol.zookeeper.znodes import decode_topic
from tests.fakes.command_line import Lethe
from tests.interop.clients import ID_BYTES, Stored, bootstrap, produce, value
from tests.interop.conditions import (
    create,
    directories,
    has_no_directories,
    is_known_to_all,
    is_whole,
    plan,
    states,
    until,
)
from tests.interop.conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]

ROWS = ((1, 2), (2, 1))
RECORDS = 60
PROPERTIES = {
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
}


@dataclass(frozen=True)
class Size:
    """How much goes into the trash. Every topic has one partition led by each broker in turn, or (short) two."""

    topics: int
    partitions: int
    records: int
    producers: int
    limit_s: float

    def rows(self, number: int) -> tuple[tuple[int, ...], ...]:
        return ROWS if self.partitions == len(ROWS) else (ROWS[number % len(ROWS)],)


SHORT = Size(topics=8, partitions=2, records=60, producers=1, limit_s=180)
LONG = Size(topics=1_000, partitions=1, records=20, producers=5, limit_s=900)


@dataclass(frozen=True)
class Kept:
    """What a topic must have again: its znode, its records by place, and the offsets of the group."""

    identity: object
    records: list[Stored]
    committed: list[int | None]


def noted(what: str, began_s: float) -> None:
    """A line for the report of the test (`-s` shows it at once)."""
    print(f"{time.monotonic() - began_s:7.1f} s  {what}")  # noqa: T201


def partitions_of(names: Sequence[str], size: Size) -> list[TopicPartition]:
    return [TopicPartition(name, number) for name in names for number in range(size.partitions)]


async def produce_to_all(cluster: LocalCluster, names: Sequence[str], size: Size) -> None:
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap(cluster), acks="all", linger_ms=5) as producer,
        asyncio.timeout(size.limit_s),
    ):
        for name in names:
            sent = [await producer.send(name, value(number)) for number in range(size.records)]
            await asyncio.gather(*sent)


async def commit_to_all(cluster: LocalCluster, names: Sequence[str], size: Size, offset: int) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap(cluster), group_id="readers", enable_auto_commit=False)
    async with consumer, asyncio.timeout(size.limit_s):
        partitions = partitions_of(names, size)
        consumer.assign(partitions)
        await consumer.commit(dict.fromkeys(partitions, offset))


async def kept_of(cluster: LocalCluster, names: Sequence[str], size: Size) -> dict[str, Kept]:
    """What is there of the topics now: every record is read."""
    records: dict[str, list[Stored]] = {name: [] for name in names}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap(cluster), group_id="readers", enable_auto_commit=False, auto_offset_reset="earliest"
    )
    partitions = partitions_of(names, size)
    async with consumer, asyncio.timeout(size.limit_s):
        committed = {each: await consumer.committed(each) for each in partitions}
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(each) < end for each, end in ends.items()]):
            for partition, rows in (await consumer.getmany(timeout_ms=500)).items():
                records[partition.topic] += [
                    Stored(row.partition, row.offset, int.from_bytes(row.value[:ID_BYTES], "big")) for row in rows
                ]
    by_topic = {name: [committed[TopicPartition(name, number)] for number in range(size.partitions)] for name in names}
    found = await identities(cluster, names)
    return {name: Kept(found[name], sorted(records[name]), by_topic[name]) for name in names}


async def identities(cluster: LocalCluster, names: Sequence[str]) -> dict[str, object]:
    async with cluster.session() as session:
        found = await session.read([GetData(paths.topic(name)) for name in names])
    return {
        name: decode_topic(name, each.data) if isinstance(each, Data) else None
        for name, each in zip(names, found, strict=True)
    }


@asynccontextmanager
async def producing(cluster: LocalCluster, sent: Mapping[str, list[int]]) -> AsyncIterator[None]:
    """A producer for each topic that never stops: the numbers that were acknowledged."""
    stopping = asyncio.Event()

    async def run(topic: str, numbers: list[int]) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap(cluster), acks="all", request_timeout_ms=5_000, retry_backoff_ms=200
        ) as producer:
            number = 1_000_000
            while not stopping.is_set():
                try:
                    await producer.send_and_wait(topic, number.to_bytes(8, "big"), partition=0)
                    numbers.append(number)
                    await asyncio.sleep(0.05)
                except Exception:  # noqa: BLE001 -- what is not acknowledged is not counted
                    pass
                number += 1

    async with asyncio.TaskGroup() as tasks:
        for topic, numbers in sent.items():
            tasks.create_task(run(topic, numbers))
        try:
            yield
        finally:
            stopping.set()


async def go_on(sent: Mapping[str, list[int]], limit_s: float) -> None:
    """Wait until each of these producers has had more acknowledged."""
    before = {topic: len(numbers) for topic, numbers in sent.items()}

    async def all_do() -> bool:
        return all(len(numbers) >= before[topic] + 5 for topic, numbers in sent.items())

    await until(all_do, "producers go on", limit_s)


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(3_600)]),
    ],
)
async def test_many_topics_come_back_with_records_and_offsets(
    kafka_cluster: MakeCluster, version: str, size: Size
) -> None:
    if version == "2.5.1":
        pytest.skip("the trash needs topic ids, which brokers have from 2.8 on")
    properties = {**PROPERTIES, "log.index.size.max.bytes": "65536"}
    async with kafka_cluster(version, brokers=2, properties=properties) as cluster, cluster.session() as session:
        began_s = time.monotonic()
        lethe = Lethe(cluster.zookeeper_connect, limit_s=size.limit_s)
        timeout = ("--timeout-ms", str(int(size.limit_s * 1_000)))
        names = [f"t{number:04}" for number in range(size.topics)]
        rows = {name: size.rows(number) for number, name in enumerate(names)}
        await create(session, *(plan(name, *rows[name], version=version, retention_ms="3600000") for name in names))
        await until(is_known_to_all(session, 2, *names), "all brokers know the topics", size.limit_s)
        for name in names:
            await until(is_whole(session, name, rows[name]), f"{name} is whole", size.limit_s)
        noted(f"{size.topics} topics are there", began_s)
        await produce_to_all(cluster, names, size)
        await commit_to_all(cluster, names, size, 7)
        before = await kept_of(cluster, names, size)
        assert all(each.committed == [7] * size.partitions for each in before.values())
        assert sum(len(each.records) for each in before.values()) == size.topics * size.records
        noted("with records and committed offsets", began_s)
        busy, quiet = names[: size.producers], names[size.producers :]
        sent: dict[str, list[int]] = {name: [] for name in busy}
        async with producing(cluster, sent):
            await go_on(sent, size.limit_s)
            gone = await lethe("topics", "delete", "--grace", "1h", "--wait", "--yes", *timeout, *names)
            assert gone.code == 0, gone
            noted("all are in the trash", began_s)
            assert set((await identities(cluster, names)).values()) == {None}
            assert all(directories(cluster, name) for name in names)
            listed = await lethe("topics", "trash", "list", "--json")
            assert [each["topic"] for each in listed.data["topics"]] == names
            # One broker restarts meanwhile, with its logs loaded and nobody to host them.
            await cluster.kafka_brokers[1].stop()
            await cluster.kafka_brokers[1].start()
            await until(is_known_to_all(session, 2, "__consumer_offsets"), "both brokers are back", size.limit_s)
            noted("a broker was restarted", began_s)
            back = await lethe("topics", "undelete", *names, *timeout)
            assert back.code == 0, back
            noted("all are asked back", began_s)
            await go_on(sent, size.limit_s)
        noted("producers that never stopped go on", began_s)
        for name in names:
            await until(is_whole(session, name, rows[name]), f"{name} is whole again", size.limit_s)
        noted("all are whole again", began_s)
        after = await kept_of(cluster, names, size)
        assert {name: after[name] for name in quiet} == {name: before[name] for name in quiet}
        for name in busy:
            assert after[name].identity == before[name].identity
            found = {row.number for row in after[name].records}
            assert found.issuperset({row.number for row in before[name].records}), "nothing from before is lost"
            assert found.issuperset(sent[name]), "and nothing that was acknowledged"
        noted("identities, records and offsets are the same", began_s)


async def test_brokers_that_stayed_up_serve_a_topic_whose_states_were_written_often(
    kafka_cluster: MakeCluster, version: str
) -> None:
    """Since 3.2 they take a LeaderAndIsr with a partition epoch below the one that they know for old news, silently."""
    if version == "2.5.1":
        pytest.skip("the trash needs topic ids, which brokers have from 2.8 on")
    # Under a guest no broker gets back into an ISR.
    async with (
        kafka_cluster(version, brokers=2, listed=True, properties=PROPERTIES) as cluster,
        cluster.session() as session,
    ):
        lethe = Lethe(cluster.zookeeper_connect, limit_s=SHORT.limit_s)
        await create(session, plan("orders", *ROWS, version=version))
        await until(is_whole(session, "orders", ROWS), "orders is whole")
        # Each restart shrinks and expands both ISRs, and moves the lead.
        for broker in cluster.kafka_brokers:
            await broker.stop()
            await broker.start()
            await until(is_whole(session, "orders", ROWS), "orders is whole after the restart", SHORT.limit_s)
        await produce_to_all(cluster, ["orders"], SHORT)
        before = await states(session, "orders", len(ROWS))
        assert all(state is not None and state.partition_epoch >= 2 for state in before), before
        gone = await lethe("topics", "delete", "--grace", "1h", "--wait", "--yes", "orders")
        assert gone.code == 0, gone
        back = await lethe("topics", "undelete", "orders")
        assert back.code == 0, back
        await until(is_whole(session, "orders", ROWS), "orders is whole again", SHORT.limit_s)
        # With acks=all a record is acknowledged only when the leader leads and the follower follows.
        await produce_to_all(cluster, ["orders"], SHORT)
        found = await kept_of(cluster, ["orders"], replace(SHORT, partitions=len(ROWS)))
        assert len(found["orders"].records) == 2 * SHORT.records
        after = await states(session, "orders", len(ROWS))
        assert all(state is not None and len(state.isr) == 2 for state in after), after


@pytest.mark.slow
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
