"""Java and PySpark's jars: what is missing or too old is named, with the remedy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lethe.cluster.java import JavaUnusable, java_executable, java_release, parse_java_version, pyspark_jars


def test_a_missing_or_old_java_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaUnusable, match="on the PATH; the thing needs Java 17"):
        java_executable("the thing")
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    os.chmod(java, 0o755)
    with pytest.raises(JavaUnusable, match="is Java 8, and the thing"):
        java_executable("the thing")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaUnusable, match="JAVA_HOME"):
        java_executable("the thing")


def test_a_java_that_does_not_run_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nexit 3\n")
    os.chmod(java, 0o755)
    with pytest.raises(JavaUnusable, match="java does not run: .*exit status 3"):
        java_executable("the thing")


def test_java_versions_are_recognised() -> None:
    assert parse_java_version('openjdk version "17.0.15" 2025-04-15') == 17
    assert parse_java_version('java version "1.8.0_292"') == 8
    assert parse_java_version("nonsense") == 0


@pytest.mark.parametrize("text, release", [('version "17.0.15"', "17.0.15"), ('version "21-ea"', "21-ea"), ("", "")])
def test_the_whole_version_is_read(tmp_path: Path, text: str, release: str) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    os.chmod(java, 0o755)
    assert java_release(str(java)) == release


def test_missing_jars_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(pyspark_jars("ivy", "the thing", "go").glob("ivy-*.jar"))
    with pytest.raises(JavaUnusable, match="PySpark has no unheard-of jar in .*: install pyspark"):
        pyspark_jars("unheard-of", "the thing", "go")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(JavaUnusable, match="the thing runs from PySpark's jars.*pip install.*, or go$"):
        pyspark_jars("ivy", "the thing", "go")
