"""Sizes of partitions, as their leaders report them."""

from __future__ import annotations

from collections.abc import Sequence

from lethe.admin.partition_views import PartitionViews
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import TopicPartition
from lethe.survey.brokers import AskBroker, ask_all


async def leader_sizes(
    views: PartitionViews, partitions: Sequence[TopicPartition], ask: AskBroker
) -> dict[TopicPartition, int]:
    """Return the bytes of each partition on its leader, without those whose leader is not live or does not answer."""
    led: dict[int, set[TopicPartition]] = {}
    for partition in partitions:
        leader = views.leader(partition)
        if leader is not None and leader in views.brokers:
            led.setdefault(leader, set()).add(partition)
    sizes: dict[TopicPartition, int] = {}
    for answers in await ask_all([views.brokers[leader] for leader in led], ask):
        for log_dir in answers.log_dirs or ():
            for directory in log_dir.directories:
                replica = directory.topic_partition
                if directory.kind is not DirectoryKind.REPLICA or replica is None:
                    continue
                if replica in led[answers.broker]:
                    sizes[replica] = directory.size_bytes
    return sizes
