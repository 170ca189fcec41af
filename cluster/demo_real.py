"""Differences of the demo with real Kafka brokers instead of agents.

Kafka writes no journal: acknowledgements are in the controllers' journals, and freed bytes are seen on the disks. Kafka
does not fill replicas either: a producer sends records with `acks=all`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from lethe.cluster.demo_plan import DemoOptions
from lethe.cluster.demo_totals import JournalTotals
from lethe.cluster.kafka import KafkaBroker
from lethe.cluster.kafka_fetch import KafkaDistribution
from lethe.cluster.local import ClusterSettings
from lethe.survey.views import Survey

RECORD_BYTES: Final = 4096
BATCH_BYTES: Final = 32_768
"""Limit of a producer's batch, which must fit into one segment."""
WITHOUT_CLIENT: Final = (
    "real brokers are filled by a producer, and aiokafka is not installed: pip install aiokafka, or give --bytes 0"
)


class FillFailed(Exception):
    """The brokers did not take the records; the message says why."""


def real_cluster_settings(options: DemoOptions, kafka: KafkaDistribution) -> ClusterSettings:
    """Return a cluster of real brokers under Lethe's controllers, which they discover like Kafka's own."""
    return ClusterSettings(
        controllers=options.controllers,
        brokers=0,
        work_dir=options.work_dir,
        zookeeper_connect=options.zookeeper_connect,
        session_timeout_ms=options.session_timeout_ms,
        # After the kill of one controller, a real broker may take control before the other controller does.
        controller_properties={"controller.takeover": "always"},
        kafka_properties={
            "auto.create.topics.enable": "false",
            # An index file is preallocated at its maximum size.
            "log.index.size.max.bytes": "4096",
            "log.segment.bytes": str(max(options.bytes_per_replica // 4, 2 * BATCH_BYTES)),
            "log.segment.delete.delay.ms": str(options.delete_delay_ms),
        },
        start_limit_s=180.0,
        kafka=kafka,
        kafka_brokers=options.brokers,
        listed=True,
    )


async def fill(brokers: Sequence[KafkaBroker], topics: Sequence[str], options: DemoOptions) -> None:
    """Send records to every partition and wait until all replicas have them. Raises FillFailed."""
    try:
        from aiokafka import AIOKafkaProducer
        from aiokafka.errors import KafkaError
    except ImportError as error:
        raise FillFailed(WITHOUT_CLIENT) from error
    servers = [f"{host}:{port}" for host, port in [await broker.listener() for broker in brokers]]
    count, rest = divmod(options.bytes_per_replica, RECORD_BYTES)
    sizes = [RECORD_BYTES] * count + [rest] * (rest > 0)
    outcomes: list[object] = []
    try:
        async with asyncio.timeout(options.limit_s):
            async with AIOKafkaProducer(
                bootstrap_servers=servers, acks="all", linger_ms=20, max_batch_size=BATCH_BYTES
            ) as producer:

                async def fill_topic(topic: str) -> None:
                    sent = [
                        await producer.send(topic, bytes(size), partition=partition)
                        for partition in range(options.partitions)
                        for size in sizes
                    ]
                    outcomes.extend(await asyncio.gather(*sent, return_exceptions=True))

                # The producer requests metadata for each topic separately: in parallel this is faster.
                await asyncio.gather(*map(fill_topic, topics))
                for outcome in outcomes:
                    if isinstance(outcome, BaseException):
                        raise outcome
    except TimeoutError as error:
        raise FillFailed(f"the brokers did not take the records within {options.limit_s:g} s") from error
    except KafkaError as error:
        raise FillFailed(f"the brokers did not take the records: {error}") from error


def note_freed(totals: JournalTotals, before: Survey, now: Survey) -> None:
    """Add to the totals what is no longer on the real brokers' disks."""
    for broker, (size_bytes, files, directories) in _contents(before).items():
        left = _contents(now).get(broker, (0, 0, 0))
        freed = size_bytes - left[0]
        if freed > totals.freed_bytes[broker]:
            totals.freed_bytes[broker] = freed
            totals.freed_files[broker] = files - left[1]
            totals.freed_directories[broker] = directories - left[2]
            totals.last_freed_ms[broker] = time.time_ns() // 1_000_000


def _contents(survey: Survey) -> Mapping[int, tuple[int, int, int]]:
    """Return bytes, files and directories by broker."""
    size_bytes, files, directories = Counter[int](), Counter[int](), Counter[int]()
    for view in survey.log_dirs:
        for directory in view.directories:
            size_bytes[view.broker] += directory.size_bytes
            files[view.broker] += directory.files or 0
            directories[view.broker] += 1
    return {broker: (size_bytes[broker], files[broker], directories[broker]) for broker in directories}
