"""The jar of Kafka's LocalTieredStorage: for which versions, what Ivy is told, and that its checksum decides.

Ivy is stood in for by a script under the name of `java`; that it fetches the real jar is shown by the interop tests.
"""

from __future__ import annotations

import hashlib
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lethe.cluster.kafka_fetch import KafkaUnavailable, KafkaVersion
from tests.fakes import tiered_storage
from tests.fakes.tiered_storage import fetch_local_tiered_storage, ivy_module, remote_files, why_not

V391 = KafkaVersion(3, 9, 1)
JAR = "kafka-storage-3.9.1-test.jar"


def test_versions_without_tiered_storage_or_without_a_checksum_are_refused_with_the_reason() -> None:
    assert why_not(V391) is None
    assert why_not(KafkaVersion(2, 5, 1)) == ("Kafka 2.5.1 has no tiered storage; 3.6.0 is the first version with it")
    with pytest.raises(KafkaUnavailable, match=r"no checksum of the test jar of kafka-storage 3\.8\.0"):
        fetch_local_tiered_storage(KafkaVersion(3, 8, 0), lambda _: None, {})


def test_ivy_is_told_to_fetch_the_test_jar_alone() -> None:
    (dependency,) = ElementTree.fromstring(ivy_module(V391)).iter("dependency")
    assert (dependency.get("name"), dependency.get("rev"), dependency.get("transitive")) == (
        "kafka-storage",
        "3.9.1",
        "false",
    )
    (artifact,) = dependency.iter("artifact")
    assert artifact.get("{http://ant.apache.org/ivy/maven}classifier") == "test"


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the cache; Ivy leaves a jar with `bytes` in it."""
    script = tmp_path / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        'case "$*" in *-version*) echo \'openjdk version "17.0.1"\' >&2; exit 0;; esac\n'
        'for last; do true; done; jars=$(dirname "$last"); mkdir -p "$jars"\n'
        f'printf bytes > "$jars/{JAR}"\n'
    )
    script.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LETHE_KAFKA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_jar_with_another_checksum_is_refused(ivy: Path) -> None:
    with pytest.raises(KafkaUnavailable, match=rf"{JAR} has the SHA-256 [0-9a-f]{{64}}, not 058353f4"):
        fetch_local_tiered_storage(V391, lambda _: None)


def test_a_jar_with_the_recorded_checksum_is_taken(ivy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiered_storage, "SHA256", {V391: hashlib.sha256(b"bytes").hexdigest()})
    assert fetch_local_tiered_storage(V391, lambda _: None) == ivy / "kafka-storage-test-3.9.1" / JAR


def test_remote_files_are_those_of_the_topic(tmp_path: Path) -> None:
    for name in ("orders-0-id", "orders-new-0-id"):
        directory = tmp_path / "kafka-tiered-storage" / name
        directory.mkdir(parents=True)
        (directory / "1-id.log").touch()
    assert remote_files(tmp_path, "orders") == ["orders-0-id/1-id.log"]
    assert remote_files(tmp_path / "missing", "orders") == []
