"""What the demo does: its numbers, and the topics that they make."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.kafka_fetch import KafkaVersion
from lethe.controller.core.placement import BrokerRack, place_replicas
from lethe.protocol.vocabulary import TopicId, is_usable_topic_id

FIRST_WITH_TOPIC_IDS: Final = KafkaVersion(2, 8, 0)
KAFKA_MB: Final = 400
AGENT_MB: Final = 70
"""What a process takes, about: a JVM with its heap and what it needs besides; a Python, also a controller's."""
MAX_CHAOS_TOPICS: Final = 1000
"""Controllers show so many deletions at most at `/waits`."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Raises ValueError where the numbers contradict each other."""

    topics: int = 30
    partitions: int = 4
    replication_factor: int = 1
    bytes_per_replica: int = 128 * 1024
    controllers: int = 2
    brokers: int = 3
    work_dir: Path | None = None
    zookeeper_connect: str | None = None
    """A ZooKeeper that runs already, with a chroot of our own; None starts one."""
    session_timeout_ms: int = 6_000
    delete_delay_ms: int = 1_000
    """How long brokers keep what is deleted before they free its bytes; Kafka's default is a minute."""
    limit_s: float = 120.0
    """How long each stage may take."""
    chaos: bool = False
    kafka: KafkaVersion | None = None
    """What the brokers are: real ones of that version, or agents."""

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


def demand_memory(options: DemoOptions, machine_mb: int) -> None:
    """Raises ValueError where so many processes would take the machine down, and everything else that runs on it."""
    each_mb = AGENT_MB if options.kafka is None else KAFKA_MB
    needed_mb = options.brokers * each_mb + options.controllers * AGENT_MB
    if needed_mb > machine_mb:
        raise ValueError(
            f"--brokers {options.brokers} and --controllers {options.controllers} need about {needed_mb / 1000:.0f} GB "
            f"of memory, and this machine has {machine_mb / 1000:.0f} GB: start fewer"
        )


def plan_topics(options: DemoOptions, brokers: list[int], random_bytes: Callable[[int], bytes]) -> list[TopicPlan]:
    """The topics to create on these brokers.

    Normally placed by Kafka's rule. With chaos and fewer replicas than brokers, each topic keeps to as many brokers as
    it has replicas, so that there are topics that the broker that will be killed has no part in.
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
    """An id as Kafka draws them."""
    while not is_usable_topic_id(candidate := uuid.UUID(bytes=random_bytes(16), version=4)):
        pass
    return TopicId(candidate)
