"""How large partitions are, by the word of their leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from adapters.partition_views import PartitionViews
from protocol.vocabulary import TopicPartition
from survey.brokers import AskBroker
from survey.views import DirectoryKind

MAX_AT_ONCE = 16
"""Brokers that are asked at the same time."""


async def leader_sizes(
    views: PartitionViews, partitions: Sequence[TopicPartition], ask: AskBroker
) -> dict[TopicPartition, int]:
    """Bytes of each partition on its leader; those whose leader is not there, or does not say, are left out."""
    led: dict[int, set[TopicPartition]] = {}
    for partition in partitions:
        leader = views.leader(partition)
        if leader is not None and leader in views.brokers:
            led.setdefault(leader, set()).add(partition)
    limit = asyncio.Semaphore(MAX_AT_ONCE)
    sizes: dict[TopicPartition, int] = {}

    async def look(leader: int) -> None:
        async with limit:
            answers = await ask(views.brokers[leader])
        for log_dir in answers.log_dirs or ():
            for directory in log_dir.directories:
                partition = directory.topic_partition
                if directory.kind is DirectoryKind.REPLICA and partition is not None and partition in led[leader]:
                    sizes[partition] = directory.size_bytes

    async with asyncio.TaskGroup() as tasks:
        for leader in led:
            tasks.create_task(look(leader), name=f"sizes-of-broker-{leader}")
    return sizes
