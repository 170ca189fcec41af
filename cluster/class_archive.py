"""Archive of the classes of a Kafka release (class data sharing), from which small JVMs start in half the time.

Theory of operation. A broker that ends in order writes the classes that it has loaded to an archive. Later JVMs map
that file instead of reading and verifying these classes. A JVM ignores an archive that does not fit its jars. The name
contains Java's release, so another Java uses another archive: `3.9.1-java-17.0.15.jsa` beside the jars in `3.9.1`.

Without the archive everything works as well, only slower. Benchmarks start Kafka with its own flags, and without it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lethe.cluster.java import java_executable, java_release
from lethe.cluster.kafka_fetch import KafkaDistribution
from lethe.cluster.local import ClusterSettings, LocalCluster

START_LIMIT_S: Final = 180.0
_NEEDED_BY: Final = "an archive of Kafka's classes"


async def archive_classes(kafka: KafkaDistribution) -> Path | None:
    """Return the archive, writing it if it is missing, which takes a broker's start and stop; None if Java wrote none.

    Raises JavaUnusable, ZooKeeperStartFailed, DaemonFailed, and OSError if the cache cannot be written.
    """
    final = kafka.class_archive(java_release(java_executable(_NEEDED_BY)))
    if not final.is_file():
        partial = final.with_name(f"{final.name}.{os.getpid()}")
        try:
            await _run_broker(kafka, (f"-XX:ArchiveClassesAtExit={partial}",))
            if partial.is_file():
                os.replace(partial, final)
        finally:
            partial.unlink(missing_ok=True)
    return final if final.is_file() else None


async def _run_broker(kafka: KafkaDistribution, flags: Sequence[str]) -> None:
    settings = ClusterSettings(
        controllers=0, brokers=0, kafka=kafka, kafka_brokers=1, kafka_jvm_flags=(*flags,), start_limit_s=START_LIMIT_S
    )
    async with LocalCluster(settings) as cluster:
        for broker in cluster.kafka_brokers:
            await broker.stop()
