"""Tiered storage for real brokers in tests: Kafka's `LocalTieredStorage`, which keeps remote segments in a directory.

It is in the `test` jar of `kafka-storage`, fetched by `cluster.ivy` and compared with a checksum below. Brokers load it
from a separate class path, so that their own stays as released. The metadata of remote segments is in the topic
`__remote_log_metadata`.

    <storage>/kafka-tiered-storage/orders-0-LWgrMmVrT0a__7a4SasuPA/00000000000000000011-bCqX9U--S-6U8XUM9II25Q.log
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lethe.cluster.ivy import CACHE_VARIABLE, Artifact, NotFetched, OnProgress, cache_directory, fetch
from lethe.cluster.java import JavaUnusable
from lethe.cluster.kafka_fetch import KafkaUnavailable, KafkaVersion

METADATA_TOPIC: Final = "__remote_log_metadata"
METADATA_PARTITIONS: Final = 1
FIRST_VERSION: Final = KafkaVersion(3, 6, 0)
"""The first release whose brokers delete remote segments with their topic."""
SHA256: Final = {KafkaVersion(3, 9, 1): "058353f420aaf533727a2e3d3c905cf1401651d6a52eea64b3b4ba5b46c3d683"}
"""Checksums of the test jars in use."""
_STORAGE: Final = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
_METADATA: Final = "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"


def why_not(version: KafkaVersion) -> str | None:
    """Return why brokers of this version cannot use this storage; None if they can."""
    if version < FIRST_VERSION:
        return f"Kafka {version} has no tiered storage; {FIRST_VERSION} is the first version with it"
    if version not in SHA256:
        return f"no checksum of the test jar of kafka-storage {version} is recorded in tests/fakes/tiered_storage.py"
    return None


def fetch_local_tiered_storage(
    version: KafkaVersion, tell: OnProgress, environment: Mapping[str, str] = os.environ
) -> Path:
    """Return the jar with `LocalTieredStorage`, fetching it if it is not cached. Raises KafkaUnavailable."""
    if problem := why_not(version):
        raise KafkaUnavailable(problem)
    jar = f"kafka-storage-{version}-test.jar"
    name = f"the test jar of kafka-storage {version}"
    wanted = Artifact(name, f"kafka-storage-test-{version}", ivy_module(version), jar, "less than 1 MB")
    try:
        path = fetch(wanted, tell, environment) / jar
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except NotFetched as error:
        tail = "\n".join(str(error).splitlines()[-15:])
        raise KafkaUnavailable(f"{name} could not be fetched. Ivy said:\n{tail}") from error
    except JavaUnusable as error:
        raise KafkaUnavailable(str(error)) from error
    except OSError as error:
        cache = cache_directory(environment)
        raise KafkaUnavailable(f"{name} cannot be kept in {cache} ({CACHE_VARIABLE}): {error}") from error
    if found != SHA256[version]:
        raise KafkaUnavailable(f"{path} has the SHA-256 {found}, not {SHA256[version]}: remove its directory")
    return path


def ivy_module(version: KafkaVersion) -> str:
    """Return Ivy's module file for this jar alone: its dependencies are in the broker's class path."""
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">\n'
        f'  <info organisation="lethe" module="kafka-storage-test-{version}" revision="1"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        "  <dependencies>\n"
        f'    <dependency org="org.apache.kafka" name="kafka-storage" rev="{version}" transitive="false"'
        ' conf="default->default">\n'
        '      <artifact name="kafka-storage" type="jar" ext="jar" m:classifier="test"/>\n'
        "    </dependency>\n"
        "  </dependencies>\n"
        "</ivy-module>\n"
    )


def broker_properties(jar: Path, storage: Path) -> dict[str, str]:
    """Return the properties with which a broker copies closed segments to `storage` without delay."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": _STORAGE,
        "remote.log.storage.manager.class.path": str(jar),
        "remote.log.storage.manager.impl.prefix": "storage.",
        "storage.dir": str(storage),
        "remote.log.metadata.manager.class.name": _METADATA,
        "remote.log.metadata.manager.impl.prefix": "metadata.",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "metadata.remote.log.metadata.topic.num.partitions": str(METADATA_PARTITIONS),
        "metadata.remote.log.metadata.topic.replication.factor": "1",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
    }


def remote_files(storage: Path, topic: str) -> list[str]:
    """Return the files that the storage holds for this topic, with their directories."""
    root = storage / "kafka-tiered-storage"
    return sorted(str(found.relative_to(root)) for found in root.glob(f"{topic}-[0-9]*-*/*"))
