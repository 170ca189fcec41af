"""Java and the jars of PySpark, which contain ZooKeeper, Ivy and Spark."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

LEAST_JAVA: Final = 17


class JavaUnusable(Exception):
    """Java or PySpark's jars are missing or too old; the message names them, their user and the remedy."""


def java_executable(needed_by: str) -> str:
    """Return a Java that is new enough: `$JAVA_HOME/bin/java` or the first on the path. Raises JavaUnusable."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise JavaUnusable(
            f"no Java was found {where}; {needed_by} needs Java {LEAST_JAVA} or later "
            "(Debian: apt install openjdk-17-jre-headless)"
        )
    try:
        found = java_version(java)
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaUnusable(f"{java} does not run: {error}") from error
    if found < LEAST_JAVA:
        raise JavaUnusable(f"{java} is Java {found}, and {needed_by} needs Java {LEAST_JAVA} or later; set JAVA_HOME")
    return java


def java_version(java: str) -> int:
    """Return its major version. Raises OSError and subprocess.SubprocessError if it does not run."""
    return parse_java_version(_version_output(java))


def java_release(java: str) -> str:
    """Return its whole version, such as `17.0.15`; empty if it names none. Raises as `java_version`."""
    found = re.search(r'version "([\w.+-]+)"', _version_output(java))
    return found[1] if found else ""


@functools.cache
def _version_output(java: str) -> str:
    return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr


def parse_java_version(output: str) -> int:
    """Return the major version in the output of `java -version`; 0 if there is none."""
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found[1]) if found else 0


def pyspark_jars(library: str, needed_by: str, instead: str) -> Path:
    """Return the directory of PySpark's jars, which must hold this library. Raises JavaUnusable."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JavaUnusable(
            f"{needed_by} runs from PySpark's jars, and PySpark is not installed: "
            f"pip install 'lethe-kafka[zookeeper]', or {instead}"
        )
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    if not any(jars.glob(f"{library}-[0-9]*.jar")):
        raise JavaUnusable(f"PySpark has no {library} jar in {jars}: install pyspark 4.3")
    return jars
