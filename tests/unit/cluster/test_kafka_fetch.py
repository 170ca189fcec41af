"""Fetching Kafka: which versions, what Ivy is told, where it goes, and that only whole directories count.

Ivy is stood in for by a script under the name of `java`; that it fetches real Kafka is shown by the interop tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

import pytest

from lethe.cluster.kafka_fetch import (
    KafkaDistribution,
    KafkaUnavailable,
    KafkaVersion,
    failure,
    fetch_kafka,
    ivy_module,
)

V391 = KafkaVersion(3, 9, 1)
V251 = KafkaVersion(2, 5, 1)
ROOT = Path(__file__).parents[3]

# --- versions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, ibp", [("3.9.1", "3.9"), ("2.5.0", "2.5"), (" 3.10.2", None), ("3.3.2", "3.3")])
def test_versions_with_zookeeper_are_taken(text: str, ibp: str | None) -> None:
    version = KafkaVersion.parse(text)
    assert str(version) == text.strip()
    assert ibp is None or version.inter_broker_protocol == ibp


@pytest.mark.parametrize(
    "text, why",
    [
        ("4.0.0", "has no ZooKeeper mode"),
        ("2.4.1", "too old"),
        ("0.11.0", "too old"),
        ("3.9", "give all three numbers"),
        ("latest", "'latest' is no version"),
        ("3.9.1/../..", "is no version"),
        ("", "is no version"),
    ],
)
def test_others_are_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        KafkaVersion.parse(text)


# --- Ivy ----------------------------------------------------------------------------------------------------------


def dependencies(version: KafkaVersion) -> list[tuple[str | None, str | None]]:
    return [
        (each.get("name"), each.get("rev")) for each in ElementTree.fromstring(ivy_module(version)).iter("dependency")
    ]


def test_tools_are_fetched_where_they_are_not_in_the_brokers_jar() -> None:
    logging = ("slf4j-reload4j", "1.7.36")
    assert dependencies(V391) == [("kafka_2.13", "3.9.1"), ("kafka-tools", "3.9.1"), logging]
    assert dependencies(V251) == [("kafka_2.13", "2.5.1"), logging]


def test_failures_are_told_apart() -> None:
    unknown = "\t:: org.apache.kafka#kafka_2.13;3.9.1: not found\n"
    assert failure(V391, unknown) == (
        "there is no Kafka 3.9.1 in the Maven repository: choose a version that was released, such as 3.9.1"
    )
    offline = "HttpClientHandler: Connect to 127.0.0.1:1 failed: Connection refused\n" + unknown
    assert "cannot be reached" in failure(V391, offline)
    assert "LETHE_KAFKA_CACHE" in failure(V391, offline)
    assert failure(V391, "a\nb") == "Kafka 3.9.1 could not be fetched. Ivy said:\na\nb"


# --- cache --------------------------------------------------------------------------------------------------------


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that does as Java and Ivy do; what is written to it decides how it ends."""
    script = tmp_path / "bin" / "java"
    script.parent.mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LETHE_KAFKA_CACHE", str(tmp_path / "cache"))
    behave(script, "exit 0")
    return script


def behave(script: Path, then: str) -> None:
    script.write_text(
        "#!/bin/sh\n"
        'case "$*" in *-version*) echo \'openjdk version "17.0.1"\' >&2; exit 0;; esac\n'
        'for last; do true; done; jars=$(dirname "$last"); mkdir -p "$jars"\n'
        f"echo run >> {script.parent}/runs\n"
        'echo "[SUCCESSFUL ] org.apache.kafka#kafka_2.13;3.9.1!kafka_2.13.jar (9ms)"\n'
        f'echo bytes > "$jars/kafka_2.13-3.9.1.jar"\n{then}\n'
    )
    script.chmod(0o755)


def runs(script: Path) -> int:
    log = script.parent / "runs"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_version_is_fetched_once(ivy: Path, tmp_path: Path) -> None:
    told: list[str] = []
    kafka = fetch_kafka(V391, told.append)
    assert kafka == KafkaDistribution(V391, tmp_path / "cache" / "3.9.1")
    assert [jar.name for jar in kafka.jars.iterdir()] == ["kafka_2.13-3.9.1.jar"]
    assert "fetching Kafka 3.9.1" in told[0]
    assert told[1] == "  kafka_2.13"
    assert told[2].startswith("fetched 1 jar")
    assert fetch_kafka(V391, told.append) == kafka
    assert (len(told), runs(ivy)) == (3, 1)


@pytest.mark.parametrize("end", ["exit 1", "rm $jars/*; exit 0"])
def test_what_is_not_whole_is_not_kept(ivy: Path, tmp_path: Path, end: str) -> None:
    behave(ivy, end)
    with pytest.raises(KafkaUnavailable, match="could not be fetched"):
        fetch_kafka(V391, lambda _: None)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["3.9.1.lock"]
    behave(ivy, "exit 0")
    assert fetch_kafka(V391, lambda _: None).jars.is_dir()


def test_the_remains_of_an_interrupted_fetch_are_removed(ivy: Path, tmp_path: Path) -> None:
    remains = tmp_path / "cache" / "3.9.1.partial" / "jars"
    remains.mkdir(parents=True)
    (remains / "half.jar").write_text("half")
    kafka = fetch_kafka(V391, lambda _: None)
    assert [jar.name for jar in kafka.jars.iterdir()] == ["kafka_2.13-3.9.1.jar"]
    assert not remains.parent.exists()


def test_two_at_once_fetch_it_once(ivy: Path, tmp_path: Path) -> None:
    """The first is held until the second says that it waits."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    behave(ivy, f"read line < {gate}; exit 0")
    program = (
        "from lethe.cluster.kafka_fetch import KafkaVersion, fetch_kafka\n"
        "fetch_kafka(KafkaVersion(3, 9, 1), lambda told: print(told, flush=True))\n"
    )

    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)

    first = begin()
    assert first.stdout is not None
    assert [first.stdout.readline()[:8], first.stdout.readline()] == ["fetching", "  kafka_2.13\n"]
    second = begin()
    assert second.stdout is not None
    assert second.stdout.readline() == "another process is fetching Kafka 3.9.1\n"
    gate.write_text("go\n")
    assert first.wait(60) == second.wait(60) == 0
    assert runs(ivy) == 1
    first.communicate()
    second.communicate()


def test_a_missing_java_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(KafkaUnavailable, match=r"fetching Kafka 3\.9\.1 needs Java 17"):
        fetch_kafka(V391, lambda _: None, {"LETHE_KAFKA_CACHE": str(tmp_path / "cache")})


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(KafkaUnavailable, match=r"cannot be kept in .*/file/cache \(LETHE_KAFKA_CACHE\)"):
        fetch_kafka(V391, lambda _: None, {"LETHE_KAFKA_CACHE": str(tmp_path / "file" / "cache")})


# --- tools --------------------------------------------------------------------------------------------------------


def test_a_tool_is_found_in_whatever_package_it_is(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "kafka_2.13-2.5.1.jar", "w") as archive:
        archive.writestr("kafka/admin/TopicCommand.class", b"")
        archive.writestr("kafka/tools/ConsoleProducer.class", b"")
        archive.writestr("org/apache/zookeeper/ZooKeeperMain.class", b"")
    kafka = KafkaDistribution(V251, tmp_path)
    assert kafka.tool("TopicCommand") == "kafka.admin.TopicCommand"
    assert kafka.tool("ConsoleProducer") == "kafka.tools.ConsoleProducer"
    assert kafka.tool("ZooKeeperMain") == "org.apache.zookeeper.ZooKeeperMain"
    with zipfile.ZipFile(tmp_path / "kafka-tools-3.9.1.jar", "w") as archive:
        archive.writestr("org/apache/kafka/tools/TopicCommand.class", b"")
        archive.writestr("org/apache/kafka/tools/reassign/ReassignPartitionsCommand.class", b"")
    assert kafka.tool("TopicCommand") == "org.apache.kafka.tools.TopicCommand"
    assert kafka.tool("ReassignPartitionsCommand") == "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    with pytest.raises(KafkaUnavailable, match=r"Kafka 2\.5\.1 has no tool Nonsense"):
        kafka.tool("Nonsense")
