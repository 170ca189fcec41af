"""The archive of Kafka's classes: which file a JVM is given, and that a Java never gets the one of another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lethe.cluster.class_archive import archive_classes
from lethe.cluster.kafka import SMALL_AND_QUICK, quick_flags
from lethe.cluster.kafka_fetch import KafkaDistribution, KafkaVersion


def java(directory: Path, release: str) -> str:
    path = directory / f"java-{release}"
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}\" 2025-04-15' >&2\n")
    os.chmod(path, 0o755)
    return str(path)


@pytest.fixture
def kafka(tmp_path: Path) -> KafkaDistribution:
    return KafkaDistribution(KafkaVersion(3, 9, 1), tmp_path / "3.9.1")


def test_a_jvm_is_given_the_archive_of_its_own_java_and_no_other(kafka: KafkaDistribution, tmp_path: Path) -> None:
    mine, other = java(tmp_path, "17.0.15"), java(tmp_path, "21.0.1")
    assert quick_flags(kafka, mine) == SMALL_AND_QUICK
    (tmp_path / "3.9.1-java-17.0.15.jsa").touch()
    assert quick_flags(kafka, mine) == (*SMALL_AND_QUICK, f"-XX:SharedArchiveFile={tmp_path}/3.9.1-java-17.0.15.jsa")
    assert quick_flags(kafka, other) == SMALL_AND_QUICK


async def test_an_archive_that_is_there_is_not_written_again(
    kafka: KafkaDistribution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    os.rename(java(tmp_path, "17.0.15"), home / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(home))
    archive = tmp_path / "3.9.1-java-17.0.15.jsa"
    archive.write_text("as it was")
    assert await archive_classes(kafka) == archive
    assert archive.read_text() == "as it was"
