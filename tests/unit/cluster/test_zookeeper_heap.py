"""The heap that `lethe zookeeper` gives its JVM, as a Java that only writes down what it was given sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lethe.admin.refusal import Exit

_JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.1"' >&2; else echo "$@" > "{given}"; exit 1; fi
"""


@pytest.mark.parametrize("options,heap", [((), "-Xmx512m"), (("--heap-mb", "2048"), "-Xmx2048m")])
def test_the_heap_is_that_of_kafkas_script_unless_told_otherwise(
    tmp_path: Path, options: tuple[str, ...], heap: str
) -> None:
    java, given = tmp_path / "bin" / "java", tmp_path / "given"
    java.parent.mkdir()
    java.write_text(_JAVA.format(given=given))
    java.chmod(0o755)
    command = (
        sys.executable,
        "-m",
        "lethe",
        "zookeeper",
        "--port",
        "0",
        "--data-dir",
        str(tmp_path / "data"),
        *options,
    )
    environ = {**os.environ, "JAVA_HOME": str(tmp_path)}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == Exit.USAGE, ran.stderr
    assert [flag for flag in given.read_text().split() if flag.startswith("-Xmx")] == [heap]
