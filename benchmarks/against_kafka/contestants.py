"""The two controllers. Each is a process that is started for its turn and stopped after it.

Kafka's is a released Kafka broker without replicas, with the JVM settings of Kafka's start scripts, as operators of
ZooKeeper mode run it. It is a live broker too, so it sends its requests also to itself. Lethe's is `lethe controller`
as a guest, with default settings and its journal.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lethe.cluster.daemons import ControllerDaemon, Member
from lethe.cluster.java import java_executable
from lethe.cluster.kafka import AS_RELEASED, KafkaBroker, OpenSession, internal_topics
from lethe.cluster.kafka_fetch import KafkaDistribution

KAFKA: Final = "kafka"
LETHE: Final = "lethe"
CONTESTANTS: Final = (KAFKA, LETHE)
KAFKA_ID: Final = 1000
LETHE_ID: Final = 1001
KAFKA_HEAP_MB: Final = 1024
"""`KAFKA_HEAP_OPTS` of Kafka's start script."""


def make(
    name: str, directory: Path, common: Mapping[str, str], kafka: KafkaDistribution | None, open_session: OpenSession
) -> Member:
    """Return a controller that is not started: Kafka's by its name, Lethe's by any other. `common` are properties of
    both."""
    if name != KAFKA:
        return ControllerDaemon(LETHE_ID, directory, common)
    assert kafka is not None
    properties = {**common, **internal_topics(3), "auto.create.topics.enable": "false"}
    return KafkaBroker(
        kafka, KAFKA_ID, directory, 1, properties, open_session, heap_mb=KAFKA_HEAP_MB, jvm_flags=AS_RELEASED
    )


def broker_id(name: str) -> int:
    """Return the id in `/controller` while that controller is active."""
    return KAFKA_ID if name == KAFKA else LETHE_ID


def complaints(member: Member) -> list[str]:
    """Return the lines of its log with level ERROR or worse."""
    if isinstance(member, KafkaBroker):
        return member.errors()
    lines = member.log_file.read_text(errors="replace").splitlines() if member.log_file.exists() else []
    return [line for line in lines if re.search(r"\b(ERROR|CRITICAL)\b", line)]


def versions(kafka: str) -> dict[str, str]:
    """Return the versions of what takes part besides Lethe, with this Kafka."""
    java = subprocess.run([java_executable("the benchmark"), "-version"], capture_output=True, text=True, check=False)
    said = re.search(r'version "([^"]+)"', java.stderr)
    return {"Kafka": kafka, "Java": said[1] if said else "unknown", "ZooKeeper": "3.9, as PySpark brings it"}
