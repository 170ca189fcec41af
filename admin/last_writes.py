"""When topics were last written to: the time of the newest record of each partition, by its leader.

ListOffsets tells the first record at or after a time, and that record's time. So the newest time is found by halving:
some 40 requests to each leader, whatever the number of partitions. They work with every version of brokers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lethe.admin.topic_usage import LIMIT_MS, REQUEST_MS
from lethe.protocol.vocabulary import Broker, TopicPartition

_NO_REPLICA: Final = -1
_UNCOMMITTED: Final = 0
EXACT_MS: Final = 1_000
"""The time found is at most this much older than the newest record."""


async def ask_last_writes(
    brokers: Sequence[Broker], leaders: Mapping[TopicPartition, int], now_ms: int
) -> dict[TopicPartition, int | None]:
    """Return the time of the newest record by partition, None for a partition without records. Partitions that could
    not be asked are left out. Failures never raise."""
    from aiokafka.client import AIOKafkaClient

    ends = [end for end in (broker.plaintext_endpoint for broker in brokers) if end is not None]
    if not ends or not leaders:
        return {}
    servers = [f"{end.host}:{end.port}" for end in ends]
    client = AIOKafkaClient(bootstrap_servers=servers, client_id="lethe-plan", request_timeout_ms=REQUEST_MS)
    found: dict[TopicPartition, int | None] = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        by_leader.setdefault(leader, []).append(partition)
    try:
        async with asyncio.timeout(LIMIT_MS / 1000):
            await client.bootstrap()
            for leader, led in by_leader.items():
                found |= await _newest(client, leader, led, now_ms)
    except Exception:  # noqa: BLE001 -- a library's errors of every kind: what was not answered is not known
        return found
    finally:
        with contextlib.suppress(Exception):
            await client.close()
    return found


async def _newest(
    client: Any, leader: int, led: Sequence[TopicPartition], now_ms: int
) -> dict[TopicPartition, int | None]:
    """Halve the time between the newest record that is known and the earliest time without a later one."""
    newest: dict[TopicPartition, int | None] = {}
    low, high = dict.fromkeys(led, 0), dict.fromkeys(led, now_ms + 1)
    failed: dict[TopicPartition, None] = {}
    asking = dict.fromkeys(led, 0)
    while asking:
        answers = await _first_since(client, leader, asking)
        for each, since_ms in asking.items():
            match answers.get(each, "no answer"):
                case str():
                    failed[each] = None
                case None:
                    high[each] = since_ms
                    newest.setdefault(each, None)
                case at_ms:
                    newest[each] = low[each] = max(at_ms, since_ms)
        asking = {
            each: (low[each] + high[each]) // 2
            for each in asking
            if each not in failed and newest[each] is not None and high[each] - low[each] > EXACT_MS
        }
    return {each: at_ms for each, at_ms in newest.items() if each not in failed}


async def _first_since(
    client: Any, leader: int, times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | str | None]:
    """Return the time of the first record at or after each time, None where there is none, or the error."""
    from aiokafka.protocol.offset import OffsetRequest

    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic, number), time in times.items():
        topics.setdefault(topic, []).append((number, time))
    answer = await client.send(leader, OffsetRequest(_NO_REPLICA, _UNCOMMITTED, list(topics.items())))
    found: dict[TopicPartition, int | str | None] = {}
    for topic, numbers in answer.topics:
        for number, error, time, offset in numbers:
            found[TopicPartition(topic, number)] = str(error) if error else (int(time) if offset >= 0 else None)
    return found
