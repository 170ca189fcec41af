"""`python -m tools.fetch_kafka 3.9.1 2.5.1`: fetches these versions of Kafka, so that nothing is fetched later, and
archives their classes, so that test brokers start in half the time."""

from __future__ import annotations

import asyncio
import sys

from lethe.cluster.class_archive import archive_classes
from lethe.cluster.daemons import DaemonFailed
from lethe.cluster.java import JavaUnusable
from lethe.cluster.kafka_fetch import KafkaDistribution, KafkaUnavailable, KafkaVersion, fetch_kafka
from lethe.cluster.zookeeper import ZooKeeperStartFailed


def main(versions: list[str]) -> int:
    """Exit code 1 where one of them cannot be had."""
    try:
        # All are understood before the first one is fetched, which takes a minute.
        for version in [KafkaVersion.parse(text) for text in versions]:
            kafka = fetch_kafka(version, lambda told: print(told, flush=True))
            print(f"Kafka {kafka.version} is in {kafka.jars}", flush=True)
            _archive(kafka)
    except (KafkaUnavailable, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _archive(kafka: KafkaDistribution) -> None:
    """Archive its classes, and say where. Only speed depends on the archive, so a failure is told and no more."""
    try:
        archive = asyncio.run(archive_classes(kafka))
    except (DaemonFailed, JavaUnusable, ZooKeeperStartFailed, OSError) as error:
        print(f"Brokers of Kafka {kafka.version} start slowly: its classes could not be archived: {error}")
        return
    print(f"Its classes are in {archive}" if archive else "Java has written no archive of its classes", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
