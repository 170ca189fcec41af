"""Kafka's Java code that the judge runs: which jars it needs, and how its drivers are compiled.

Kafka Streams is fetched beside Kafka, once; Connect is among Kafka's own jars. Where Streams cannot be fetched, its
steps are not run, and the table says so.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from lethe.cluster.ivy import Artifact, NotFetched, OnProgress, fetch
from lethe.cluster.java import JavaUnusable, java_executable
from lethe.cluster.kafka import SMALL_AND_QUICK, kafka_command
from lethe.cluster.kafka_fetch import KafkaDistribution, KafkaVersion, fetch_kafka
from tests.judge.step import Client

HERE: Final = Path(__file__).parent
NEW: Final = KafkaVersion(3, 9, 1)
OLD: Final = KafkaVersion(2, 5, 1)
HEAP_MB: Final = 160
LOGGING: Final = "log4j.rootLogger=OFF\n"
COMPILE_LIMIT_S: Final = 300.0
DRIVERS: Final = {
    Client.ADMIN: "AdminSteps",
    Client.STREAMS: "org.apache.kafka.streams.processor.internals.StreamsSteps",
    Client.CONNECT: "ConnectSteps",
}
"""Classes of this directory that the JVM of the tools runs as if they were tools."""
_COMPILER: Final = "jdk.compiler/com.sun.tools.javac.Main"


class JavaSteps(NamedTuple):
    """What was fetched and compiled."""

    java: str
    classes: Path
    kafka: Mapping[Client, KafkaDistribution]
    """Of the tools of both versions."""
    without: Mapping[Client, str]
    """Clients that are not to be had, each with the reason."""
    streams: Path | None

    def command(self, client: Client, directory: Path) -> list[str]:
        """Return the command of a JVM that runs the tools of this client."""
        (directory / "log4j.properties").write_text(LOGGING)
        further = [] if client is Client.OLD_TOOLS or self.streams is None else [f"{self.streams}/*"]
        classpath = ":".join([str(self.classes), self.kafka[client].classpath, *further])
        return kafka_command(self.java, classpath, directory, HEAP_MB, ("ToolRunner",), SMALL_AND_QUICK)

    def main_class(self, client: Client, tool: str) -> str:
        """Return the class that is asked. Raises KafkaUnavailable if there is no such tool."""
        return DRIVERS[client] if client in DRIVERS else self.kafka[client].tool(tool)


def prepare(directory: Path, tell: OnProgress) -> JavaSteps:
    """Fetch the jars and compile the drivers. Blocks. Raises KafkaUnavailable, JavaUnusable."""
    java = java_executable("the judge")
    kafka = {Client.TOOLS: fetch_kafka(NEW, tell), Client.OLD_TOOLS: fetch_kafka(OLD, tell)}
    without: dict[Client, str] = {}
    streams: Path | None = None
    try:
        streams = fetch(streams_artifact(), tell, os.environ)
    except (NotFetched, OSError) as error:
        without[Client.STREAMS] = f"Kafka Streams could not be fetched: {(str(error).splitlines() or ['?'])[-1]}"
    sources = ["ToolRunner", *(name.rpartition(".")[2] for client, name in DRIVERS.items() if client not in without)]
    classes = directory / "classes"
    jars = [*sorted(kafka[Client.TOOLS].jars.glob("*.jar")), *(sorted(streams.glob("*.jar")) if streams else ())]
    _compile(java, classes, [HERE / f"{name}.java" for name in sources], jars)
    return JavaSteps(java, classes, kafka, without, streams)


def streams_artifact() -> Artifact:
    """Return what is fetched for Kafka Streams: its jar alone. RocksDB is not needed to make topics, and the rest is
    among Kafka's jars."""
    module = (
        '<ivy-module version="2.0">\n'
        f'  <info organisation="lethe" module="kafka-streams-{NEW}" revision="1"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        "  <dependencies>\n"
        f'    <dependency org="org.apache.kafka" name="kafka-streams" rev="{NEW}" transitive="false"'
        ' conf="default->default"/>\n'
        "  </dependencies>\n"
        "</ivy-module>\n"
    )
    return Artifact(f"Kafka Streams {NEW}", f"kafka-streams-{NEW}", module, f"kafka-streams-{NEW}.jar", "5 MB")


def _compile(java: str, classes: Path, sources: list[Path], jars: list[Path]) -> None:
    classes.mkdir()
    path = ":".join(map(str, jars))
    command = [java, "-m", _COMPILER, "-nowarn", "-cp", path, "-d", str(classes), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_LIMIT_S, check=False)
    if done.returncode:
        raise JavaUnusable(
            f"{java} did not compile the judge's drivers; that needs a JDK (Debian: openjdk-17-jdk-headless):\n"
            f"{done.stderr}{done.stdout}"
        )
