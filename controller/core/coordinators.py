"""Which brokers coordinate which consumer groups: the leaders of the partitions of `__consumer_offsets`."""

from __future__ import annotations

from lethe.controller.core.context import Context
from lethe.controller.core.effects import Coordinator
from lethe.protocol.kafka.group_offsets import coordinator_partition
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, Broker, BrokerId


def all_of(context: Context) -> tuple[Coordinator, ...] | str:
    """Return all coordinators, or why some are unknown. Without that topic there are no groups, and no coordinators."""
    cluster = context.cluster
    topic = cluster.topics.get(GROUP_METADATA_TOPIC)
    if topic is None:
        aside = cluster.quarantined_topics.get(GROUP_METADATA_TOPIC)
        return () if aside is None else f"{GROUP_METADATA_TOPIC}: {aside.reason}"
    led: dict[BrokerId, list[tuple[int, int]]] = {}
    for number, partition in topic.partitions.items():
        state = partition.leader_and_isr
        if state is None or state.leader not in cluster.brokers:
            return f"partition {number} of {GROUP_METADATA_TOPIC} has no live leader"
        led.setdefault(BrokerId(state.leader), []).append((number, state.leader_epoch))
    return tuple(
        Coordinator(broker, context.control_endpoint(cluster.brokers[broker]), tuple(numbers))
        for broker, numbers in sorted(led.items())
    )


def of_group(context: Context, group: str) -> Broker | str:
    """Return the group's coordinator, or why there is none."""
    cluster = context.cluster
    topic = cluster.topics.get(GROUP_METADATA_TOPIC)
    if topic is None or not topic.partitions:
        return f"there is no topic {GROUP_METADATA_TOPIC}"
    number = coordinator_partition(group, len(topic.partitions))
    partition = topic.partitions.get(number)
    state = None if partition is None else partition.leader_and_isr
    if state is None or state.leader not in cluster.brokers:
        return f"partition {number} of {GROUP_METADATA_TOPIC} has no live leader"
    return cluster.brokers[BrokerId(state.leader)]
