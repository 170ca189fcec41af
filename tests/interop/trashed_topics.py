"""What topics must have again when they come back from the trash: identity, records, committed offsets, settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.local import LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData, is_absent
from lethe.protocol.zookeeper.znodes import decode_config, decode_topic
from tests.interop.clients import ID_BYTES, Stored, bootstrap, value
from tests.interop.conditions import records_in, replicas, until

ROWS = ((1, 2), (2, 1))
PROPERTIES = {
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
}
GROUPS = ("readers", "auditors")
Bytes = dict[tuple[int, str, int], bytes]
"""Bytes of records by broker, topic and partition."""


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
    """What a topic must have again: its znodes, its records by place, and the offsets of each group by partition."""

    identity: object
    settings: Mapping[str, str] | None
    records: list[Stored]
    committed: dict[str, list[int | None]]


def needs_topic_ids(version: str) -> None:
    """Skip the test with a version whose topics do not fit into the trash."""
    if version == "2.5.1":
        pytest.skip("the trash needs topic ids, which brokers have from 2.8 on")


def noted(what: str, began_s: float) -> None:
    """A line for the report of the test (`-s` shows it at once)."""
    print(f"{time.monotonic() - began_s:7.1f} s  {what}")  # noqa: T201


def partitions_of(names: Sequence[str], size: Size) -> list[TopicPartition]:
    return [TopicPartition(name, number) for name in names for number in range(size.partitions)]


async def produce_to_all(cluster: LocalCluster, names: Sequence[str], size: Size, *, idempotent: bool = False) -> None:
    """Each record once, with acks=all. Where the lead may move meanwhile it takes an idempotent producer, since what
    the former leader had stored is sent again. Under a guest there is none: brokers find nobody to ask for its id."""
    servers = bootstrap(cluster)
    async with (
        asyncio.timeout(size.limit_s),
        AIOKafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=idempotent, linger_ms=5) as producer,
    ):
        for name in names:
            sent = [await producer.send(name, value(number)) for number in range(size.records)]
            await asyncio.gather(*sent)


def expected_offsets(names: Sequence[str], size: Size) -> dict[str, dict[str, list[int]]]:
    """Offsets by topic, group and partition; no two are the same, so one in the wrong place is seen."""
    counted = iter(range(1, len(names) * len(GROUPS) * size.partitions + 1))
    return {name: {group: [next(counted) for _ in range(size.partitions)] for group in GROUPS} for name in names}


async def commit_to_all(cluster: LocalCluster, names: Sequence[str], size: Size) -> None:
    """Commit the expected offsets of both groups."""
    expected = expected_offsets(names, size)
    for group in GROUPS:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap(cluster), group_id=group, enable_auto_commit=False)
        async with consumer, asyncio.timeout(size.limit_s):
            partitions = partitions_of(names, size)
            consumer.assign(partitions)
            await consumer.commit({each: expected[each.topic][group][each.partition] for each in partitions})


async def committed_by(
    cluster: LocalCluster, group: str, names: Sequence[str], size: Size
) -> dict[str, list[int | None]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap(cluster), group_id=group, enable_auto_commit=False)
    async with consumer, asyncio.timeout(size.limit_s):
        found = {each: await consumer.committed(each) for each in partitions_of(names, size)}
    return {name: [found[TopicPartition(name, number)] for number in range(size.partitions)] for name in names}


async def records_of(cluster: LocalCluster, names: Sequence[str], size: Size) -> dict[str, list[Stored]]:
    """Every record of the topics, by place."""
    records: dict[str, list[Stored]] = {name: [] for name in names}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap(cluster), enable_auto_commit=False, auto_offset_reset="earliest"
    )
    partitions = partitions_of(names, size)
    async with consumer, asyncio.timeout(size.limit_s):
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(each) < end for each, end in ends.items()]):
            for partition, rows in (await consumer.getmany(timeout_ms=500)).items():
                records[partition.topic] += [
                    Stored(row.partition, row.offset, int.from_bytes(row.value[:ID_BYTES], "big")) for row in rows
                ]
    return {name: sorted(found) for name, found in records.items()}


async def kept_of(cluster: LocalCluster, names: Sequence[str], size: Size) -> dict[str, Kept]:
    """What is there of the topics now: every record is read."""
    committed = {group: await committed_by(cluster, group, names, size) for group in GROUPS}
    records = await records_of(cluster, names, size)
    async with cluster.session() as session:
        found, settings = await identities(session, names), await settings_of(session, names)
    return {
        name: Kept(found[name], settings[name], records[name], {group: committed[group][name] for group in GROUPS})
        for name in names
    }


async def identities(session: ZooKeeperSession, names: Sequence[str]) -> dict[str, object]:
    found = await session.read([GetData(paths.topic(name)) for name in names])
    return {
        name: decode_topic(name, each.data) if isinstance(each, Data) else None
        for name, each in zip(names, found, strict=True)
    }


async def settings_of(session: ZooKeeperSession, names: Sequence[str]) -> dict[str, dict[str, str] | None]:
    """What `/config/topics/<topic>` has."""
    found = await session.read([GetData(paths.config_topic(name)) for name in names])
    return {
        name: decode_config(paths.config_topic(name), each.data) if isinstance(each, Data) else None
        for name, each in zip(names, found, strict=True)
    }


async def are_out_of_the_trash(session: ZooKeeperSession, names: Sequence[str], limit_s: float) -> None:
    """Wait until no topic has an entry: all of them have their offsets and settings."""

    async def condition() -> bool:
        found = await session.read([GetData(paths.trashed(name)) for name in names])
        return all(is_absent(each) for each in found)

    await until(condition, "offsets and settings are restored", limit_s)


def bytes_on_disk(cluster: LocalCluster, names: Collection[str]) -> Bytes:
    """What every broker has of these topics, running or not."""
    return {
        (broker, name, partition): records_in(directory)
        for name in names
        for broker, log_dirs in cluster.log_dirs.items()
        for partition, directory in replicas(name, log_dirs).items()
    }
