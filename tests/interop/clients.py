"""Producers and consumers as applications have them (aiokafka): what was acknowledged, and what can be read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from lethe.cluster.local import LocalCluster

AT_ONCE = 500
LIMIT_S = 120.0
ID_BYTES = 8
"""A record's value begins with its number."""


class Stored(NamedTuple):
    """A record where the cluster has it."""

    partition: int
    offset: int
    number: int


def bootstrap(cluster: LocalCluster) -> list[str]:
    """Where clients find the real brokers that run."""
    addresses = [broker.address for broker in cluster.kafka_brokers if broker.is_running]
    return [f"{host}:{port}" for host, port in filter(None, addresses)]


def value(number: int, size: int = 100) -> bytes:
    """A record with that number."""
    return number.to_bytes(ID_BYTES, "big").ljust(size, b".")


async def produce(
    servers: Sequence[str],
    topic: str,
    numbers: range,
    *,
    idempotent: bool = False,
    halfway: Callable[[], Awaitable[None]] | None = None,
    **security: Any,
) -> list[Stored]:
    """Sends a record for each number with acks=all, and returns those that were acknowledged. `halfway` is awaited when
    half of them have been sent, while some of these are still under way. `security`: arguments of aiokafka's."""
    acknowledged: list[Stored] = []

    async with (
        AIOKafkaProducer(
            bootstrap_servers=list(servers), acks="all", enable_idempotence=idempotent, linger_ms=5, **security
        ) as producer,
        asyncio.timeout(LIMIT_S),
    ):
        for chunk in _chunks(numbers):
            sent = [await producer.send(topic, value(number)) for number in chunk]
            if halfway is not None and chunk.stop > numbers.start + len(numbers) // 2:
                wait, halfway = halfway, None
                await wait()
            for number, outcome in zip(chunk, await asyncio.gather(*sent, return_exceptions=True), strict=True):
                if not isinstance(outcome, BaseException):
                    acknowledged.append(Stored(outcome.partition, outcome.offset, number))
                elif not isinstance(outcome, KafkaError):
                    raise outcome
    return acknowledged


async def produce_in_transactions(
    servers: Sequence[str], topic: str, numbers: range, transactional_id: str
) -> tuple[list[Stored], list[Stored]]:
    """The same in transactions of a few hundred records, of which every second one is aborted: the committed records,
    and the aborted ones."""
    committed: list[Stored] = []
    aborted: list[Stored] = []
    async with (
        AIOKafkaProducer(bootstrap_servers=list(servers), transactional_id=transactional_id, linger_ms=5) as producer,
        asyncio.timeout(LIMIT_S),
    ):
        for index, chunk in enumerate(_chunks(numbers)):
            await producer.begin_transaction()
            sent = [await producer.send(topic, value(number)) for number in chunk]
            stored = [
                Stored(row.partition, row.offset, n) for n, row in zip(chunk, await asyncio.gather(*sent), strict=True)
            ]
            if index % 2 == 0:
                await producer.commit_transaction()
                committed += stored
            else:
                await producer.abort_transaction()
                aborted += stored
    return committed, aborted


async def read_all(
    servers: Sequence[str], topic: str, partitions: int, *, committed: bool = False, **security: Any
) -> list[Stored]:
    """Every record from the first to the last of these partitions; with `committed` only those of transactions that
    were committed, or of none. `security`: arguments of aiokafka's."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=list(servers),
        auto_offset_reset="earliest",
        isolation_level="read_committed" if committed else "read_uncommitted",
        **security,
    )
    found: list[Stored] = []
    async with consumer, asyncio.timeout(LIMIT_S):
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(wanted)
        ends = await consumer.end_offsets(wanted)
        while any([await consumer.position(each) < end for each, end in ends.items()]):
            for rows in (await consumer.getmany(*wanted, timeout_ms=500)).values():
                found += [
                    Stored(row.partition, row.offset, int.from_bytes(row.value[:ID_BYTES], "big")) for row in rows
                ]
    return found


def _chunks(numbers: range) -> Iterator[range]:
    for start in range(numbers.start, numbers.stop, AT_ONCE):
        yield range(start, min(start + AT_ONCE, numbers.stop))
