"""When topics were last written to: the time of the newest record of each partition, by its leader.

ListOffsets tells the first record at or after a time, and that record's time. So the newest time is found by halving:
some 40 requests to each leader, whatever the number of partitions. They work with every version of brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from lethe.adapters.kafka.client import ClientError, KafkaConnection, ProtocolError
from lethe.admin.partition_offsets import list_offsets
from lethe.admin.topic_usage import LIMIT_MS, Connect
from lethe.protocol.vocabulary import Broker, TopicPartition
from lethe.survey.brokers import ask_all

EXACT_MS: Final = 1_000
"""The time found is at most this much older than the newest record."""


async def ask_last_writes(
    brokers: Sequence[Broker], leaders: Mapping[TopicPartition, int], now_ms: int, connect: Connect
) -> dict[TopicPartition, int | None]:
    """Return the time of the newest record by partition, None for a partition without records. Partitions that could
    not be asked are left out. Failures never raise."""
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        by_leader.setdefault(leader, []).append(partition)

    async def one(broker: Broker) -> dict[TopicPartition, int | None]:
        try:
            async with asyncio.timeout(LIMIT_MS / 1000), await connect(broker) as connection:
                return await newest_times(connection, by_leader[int(broker.id)], now_ms)
        except (ClientError, ProtocolError, TimeoutError):
            return {}  # what was not answered is not known

    found = await ask_all([broker for broker in brokers if int(broker.id) in by_leader], one)
    return {partition: at_ms for each in found for partition, at_ms in each.items()}


async def newest_times(
    connection: KafkaConnection, led: Sequence[TopicPartition], now_ms: int
) -> dict[TopicPartition, int | None]:
    """Halve the time between the newest record that is known and the earliest time without a later one."""
    newest: dict[TopicPartition, int | None] = {}
    low, high = dict.fromkeys(led, 0), dict.fromkeys(led, now_ms + 1)
    failed: dict[TopicPartition, None] = {}
    asking = dict.fromkeys(led, 0)
    while asking:
        answers = await list_offsets(connection, asking)
        for each, since_ms in asking.items():
            match answers.get(each, "no answer"):
                case str():
                    failed[each] = None
                case None:
                    high[each] = since_ms
                    newest.setdefault(each, None)
                case record:
                    newest[each] = low[each] = max(record.timestamp_ms, since_ms)
        asking = {
            each: (low[each] + high[each]) // 2
            for each in asking
            if each not in failed and newest[each] is not None and high[each] - low[each] > EXACT_MS
        }
    return {each: at_ms for each, at_ms in newest.items() if each not in failed}
