"""Real Apache Kafka of one version: fetched once from the public Maven repository, and kept as `cluster.ivy` says."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from lethe.cluster.ivy import (
    CACHE_VARIABLE,
    SETTINGS_VARIABLE,
    Artifact,
    NotFetched,
    Progress,
    cache_directory,
    fetch,
    is_unreachable,
)
from lethe.cluster.java import JavaUnusable

SCALA: Final = "2.13"
LOGGING_MODULE: Final = ("org.slf4j", "slf4j-reload4j", "1.7.36")
"""Kafka brings an interface for logs and leaves it to its scripts to bring what writes them."""
_TOOL_PACKAGES: Final = (
    *("org/apache/kafka/tools", "org/apache/kafka/tools/consumer", "org/apache/kafka/tools/consumer/group"),
    *("kafka/admin", "kafka/tools", "org/apache/zookeeper"),
)


class KafkaUnavailable(Exception):
    """That Kafka cannot be had: says why, and what to do about it."""


class KafkaVersion(NamedTuple):
    """A release of Kafka that has brokers in ZooKeeper mode. Build it with `parse`."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `3.9.1`. Raises ValueError that names the text and what is accepted."""
        found = re.fullmatch(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})", text.strip())
        if found is None:
            raise ValueError(f"{text!r} is no version of Kafka: give all three numbers, such as 3.9.1")
        version = cls(*map(int, found.groups()))
        if version >= (4, 0, 0):
            raise ValueError(f"Kafka {version} has no ZooKeeper mode: choose a version from 2.5.0 to 3.9.x")
        if version < (2, 5, 0):
            raise ValueError(f"Kafka {version} is too old to be run here: choose a version from 2.5.0 to 3.9.x")
        return version

    @property
    def inter_broker_protocol(self) -> str:
        """The newest that it speaks, and its default: `3.9`."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True, slots=True)
class KafkaDistribution:
    """A version whose jars, with all that they need, are in one directory."""

    version: KafkaVersion
    jars: Path

    @property
    def classpath(self) -> str:
        """For `java -cp`."""
        return f"{self.jars}/*"

    def tool(self, name: str) -> str:
        """The main class of a command-line tool: `TopicCommand`, `ConsoleProducer`, ... Kafka has moved them from one
        package to another over the years. Raises KafkaUnavailable where this version has none of that name."""
        wanted = {f"{package}/{name}.class": None for package in _TOOL_PACKAGES}
        for pattern in ("kafka-tools-[0-9]*.jar", f"kafka_{SCALA}-[0-9]*.jar"):
            for jar in self.jars.glob(pattern):
                with zipfile.ZipFile(jar) as archive:
                    names = frozenset(archive.namelist())
                for path in wanted:
                    if path in names:
                        return path.removesuffix(".class").replace("/", ".")
        raise KafkaUnavailable(f"Kafka {self.version} has no tool {name}")


def modules(version: KafkaVersion) -> list[tuple[str, str, str]]:
    """Organisation, name and revision of what is fetched, besides what these need."""
    wanted = [("org.apache.kafka", f"kafka_{SCALA}", str(version))]
    if version >= (3, 6, 0):
        # The command-line tools left the broker's jar one after the other, beginning with this release.
        wanted.append(("org.apache.kafka", "kafka-tools", str(version)))
    return [*wanted, LOGGING_MODULE]


def ivy_module(version: KafkaVersion) -> str:
    """The file that tells Ivy what to fetch. A second writer of logs beside ours would be two too many."""
    needs = "".join(
        f'    <dependency org="{organisation}" name="{name}" rev="{revision}" conf="default->default"/>\n'
        for organisation, name, revision in modules(version)
    )
    return (
        '<ivy-module version="2.0">\n'
        f'  <info organisation="lethe" module="kafka-{version}" revision="1"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        "  <dependencies>\n"
        f"{needs}"
        '    <exclude org="log4j"/>\n'
        '    <exclude module="slf4j-log4j12"/>\n'
        '    <exclude org="ch.qos.logback"/>\n'
        "  </dependencies>\n"
        "</ivy-module>\n"
    )


def failure(version: KafkaVersion, output: str) -> str:
    """Why Ivy has fetched nothing, from what it printed."""
    tail = "\n".join(output.splitlines()[-15:])
    if is_unreachable(output):
        return (
            f"Kafka {version} could not be fetched: the Maven repository cannot be reached. Connect to it, "
            f"name another one in a settings file for Ivy ({SETTINGS_VARIABLE}), or bring a filled cache "
            f"({CACHE_VARIABLE}). Ivy said:\n{tail}"
        )
    if f"kafka_{SCALA};{version}: not found" in output:
        return f"there is no Kafka {version} in the Maven repository: choose a version that was released, such as 3.9.1"
    return f"Kafka {version} could not be fetched. Ivy said:\n{tail}"


def fetch_kafka(
    version: KafkaVersion, tell: Progress, environment: Mapping[str, str] = os.environ
) -> KafkaDistribution:
    """That Kafka, fetched now where it is not in the cache yet. Blocks; may take minutes. Raises KafkaUnavailable."""
    jar = f"kafka_{SCALA}-{version}.jar"
    wanted = Artifact(f"Kafka {version}", str(version), ivy_module(version), jar, "30 to 60 MB")
    try:
        return KafkaDistribution(version, fetch(wanted, tell, environment))
    except NotFetched as error:
        raise KafkaUnavailable(failure(version, str(error))) from error
    except JavaUnusable as error:
        raise KafkaUnavailable(str(error)) from error
    except OSError as error:
        cache = cache_directory(environment)
        raise KafkaUnavailable(f"Kafka {version} cannot be kept in {cache} ({CACHE_VARIABLE}): {error}") from error
