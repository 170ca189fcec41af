"""The demo's options, and the topics that result from them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.kafka_fetch import KafkaVersion
from lethe.controller.core.replica_assignment import BrokerRack, place_replicas
from lethe.protocol.vocabulary import TopicId, is_usable_topic_id

FIRST_WITH_TOPIC_IDS: Final = KafkaVersion(2, 8, 0)
KAFKA_MB: Final = 400
AGENT_MB: Final = 70
"""Approximate memory of a process: a JVM with heap and overhead; a Python agent or controller."""
MAX_CHAOS_TOPICS: Final = 1000
"""Controllers list at most this number of deletions at `/waits`."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of a demo. Raises ValueError if they contradict each other."""

    topics: int = 30
    partitions: int = 4
    replication_factor: int = 1
    bytes_per_replica: int = 128 * 1024
    controllers: int = 2
    brokers: int = 3
    work_dir: Path | None = None
    zookeeper_connect: str | None = None
    """A running ZooKeeper, with an own chroot; None starts one."""
    session_timeout_ms: int = 6_000
    delete_delay_ms: int = 1_000
    """How long brokers keep deleted directories before they free the bytes; Kafka's default is a minute."""
    limit_s: float = 120.0
    """Deadline of each stage."""
    chaos: bool = False
    kafka: KafkaVersion | None = None
    """Version of real brokers; None for agents."""

    def __post_init__(self) -> None:
        for name in ("topics", "partitions", "replication_factor", "controllers", "brokers"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1")
        if self.bytes_per_replica < 0:
            raise ValueError("--bytes must not be negative")
        if self.replication_factor > self.brokers:
            raise ValueError(
                f"--replication-factor {self.replication_factor} needs as many brokers, and --brokers is {self.brokers}"
            )
        if self.chaos and self.topics > MAX_CHAOS_TOPICS:
            raise ValueError(
                f"--chaos follows what each topic waits for, of {MAX_CHAOS_TOPICS} at most: lower --topics"
            )
        if self.chaos and (self.controllers < 2 or self.brokers < 2):
            raise ValueError("--chaos kills a broker and the active controller: it needs two of each at least")

    @property
    def replicas(self) -> int:
        return self.topics * self.partitions * self.replication_factor


def require_memory(options: DemoOptions, machine_mb: int) -> None:
    """Raise ValueError if the processes need more memory than the machine has."""
    each_mb = AGENT_MB if options.kafka is None else KAFKA_MB
    needed_mb = options.brokers * each_mb + options.controllers * AGENT_MB
    if needed_mb > machine_mb:
        raise ValueError(
            f"--brokers {options.brokers} and --controllers {options.controllers} need about {needed_mb / 1000:.0f} GB "
            f"of memory, and this machine has {machine_mb / 1000:.0f} GB: start fewer"
        )


def plan_topics(options: DemoOptions, brokers: list[int], random_bytes: Callable[[int], bytes]) -> list[TopicPlan]:
    """Return the topics to create on these brokers.

    Kafka's rule places the replicas. With chaos, each topic uses only as many brokers as it has replicas, so that some
    topics have no replica on the broker to be killed, provided there are more brokers than replicas.
    """
    place = _gather if options.chaos else _spread
    has_ids = options.kafka is None or options.kafka >= FIRST_WITH_TOPIC_IDS
    return [
        TopicPlan(
            f"demo-{number:04d}", new_topic_id(random_bytes) if has_ids else None, place(options, brokers, number)
        )
        for number in range(options.topics)
    ]


def _spread(options: DemoOptions, brokers: list[int], number: int) -> tuple[tuple[int, ...], ...]:
    racks = [BrokerRack(broker) for broker in brokers]
    return place_replicas(racks, options.partitions, options.replication_factor, start_index=number, shift=number)


def _gather(options: DemoOptions, brokers: list[int], number: int) -> tuple[tuple[int, ...], ...]:
    count = options.replication_factor
    chosen = [brokers[(number + step) % len(brokers)] for step in range(count)]
    return tuple(
        tuple(chosen[(partition + step) % count] for step in range(count)) for partition in range(options.partitions)
    )


def new_topic_id(random_bytes: Callable[[int], bytes]) -> TopicId:
    """Return a random id as Kafka generates it."""
    while not is_usable_topic_id(candidate := uuid.UUID(bytes=random_bytes(16), version=4)):
        pass
    return TopicId(candidate)
