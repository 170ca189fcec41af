"""Apache Kafka of one version, fetched once from the public Maven repository into the cache of `cluster.ivy`."""

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
    OnProgress,
    cache_directory,
    fetch,
    is_unreachable,
)
from lethe.cluster.java import JavaUnusable

SCALA: Final = "2.13"
LOGGING_MODULE: Final = ("org.slf4j", "slf4j-reload4j", "1.7.36")
"""Kafka's jars contain only a logging interface; its scripts add the implementation."""
_TOOL_PACKAGES: Final = (
    *("org/apache/kafka/tools", "org/apache/kafka/tools/consumer", "org/apache/kafka/tools/consumer/group"),
    *("org/apache/kafka/tools/reassign", "kafka/admin", "kafka/tools", "org/apache/zookeeper"),
)


class KafkaUnavailable(Exception):
    """This Kafka cannot be fetched; the message names the reason and the remedy."""


class KafkaVersion(NamedTuple):
    """A release of Kafka with ZooKeeper mode. Build it with `parse`."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `3.9.1`. Raises ValueError that names the text and what is accepted."""
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
        """Its newest inter-broker protocol, which is its default: `3.9`."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True, slots=True)
class KafkaDistribution:
    """A version whose jars and dependencies are in one directory."""

    version: KafkaVersion
    jars: Path

    @property
    def classpath(self) -> str:
        """Argument of `java -cp`."""
        return f"{self.jars}/*"

    def class_archive(self, java_release: str) -> Path:
        """Return the file of `cluster.class_archive` for this release of Java; it may be missing."""
        return self.jars.with_name(f"{self.jars.name}-java-{java_release}.jsa")

    def tool(self, name: str) -> str:
        """Return the main class of a command-line tool such as `TopicCommand`, whose package depends on the version.

        Raises KafkaUnavailable if this version has no such tool.
        """
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
    """Return organisation, name and revision of the modules to fetch, without their dependencies."""
    wanted = [("org.apache.kafka", f"kafka_{SCALA}", str(version))]
    if version >= (3, 6, 0):
        # From this release on, the command-line tools moved one by one out of the broker's jar.
        wanted.append(("org.apache.kafka", "kafka-tools", str(version)))
    return [*wanted, LOGGING_MODULE]


def ivy_module(version: KafkaVersion) -> str:
    """Return the module file for Ivy. Other logging implementations are excluded, because only one may be present."""
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
    """Return why Ivy failed, from its output."""
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
    version: KafkaVersion, tell: OnProgress, environment: Mapping[str, str] = os.environ
) -> KafkaDistribution:
    """Return this Kafka, fetching it if it is not cached. Blocks, possibly for minutes. Raises KafkaUnavailable."""
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
