"""Kafka's own authorizer in a small JVM, which answers one question after the other (`Verdicts.java`).

The Java source is compiled by the JVM that runs it, with the jars of one version of Kafka as they were released.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from lethe.cluster.ivy import cache_directory
from lethe.cluster.java import java_executable
from lethe.cluster.kafka import kafka_command
from lethe.cluster.kafka_fetch import KafkaDistribution, KafkaVersion
from lethe.protocol.security.acls import AclEntry, ResourcePattern
from lethe.protocol.security.authorizer import Action, Client

SOURCE = Path(__file__).with_name("Verdicts.java")
HEAP_MB = 256
LOGGING = "log4j.rootLogger=OFF\n"


class Question(NamedTuple):
    """A client and its action."""

    client: Client
    action: Action


class KafkaFault(Exception):
    """Kafka's code has thrown; the message is its exception."""


class World(NamedTuple):
    """What Kafka says of one set of ACLs."""

    faults: list[str | None]
    """For each znode: the exception that its content causes; None if it was loaded."""
    verdicts: str
    """One letter for each question: A allowed, D denied, - this version cannot be asked."""


class KafkaAuthorizers:
    """Authorizers in one JVM, by name. Not thread-safe."""

    def __init__(self, questions: IO[str], answers: IO[str]) -> None:
        self._questions = questions
        self._answers = answers

    def ask(self, what: str, **details: Any) -> Any:
        """Return the answer. Raises KafkaFault if Kafka's code throws."""
        self._questions.write(json.dumps({"do": what, **details}) + "\n")
        self._questions.flush()
        line = self._answers.readline()
        if not line:
            raise AssertionError("the JVM has ended")
        answer = json.loads(line)
        if "fault" in answer:
            raise KafkaFault(answer["fault"])
        return answer["answer"]

    def configure(self, name: str, connect: str, settings: Mapping[str, str]) -> None:
        """Start an authorizer: it loads the ACLs from ZooKeeper, and follows them."""
        self.ask("configure", on=name, properties={"zookeeper.connect": connect, **settings})

    def world(self, name: str, znodes: Sequence[tuple[ResourcePattern, bytes]], questions: Sequence[Question]) -> World:
        """Return the verdicts with these ACLs, which Kafka decodes as it decodes znodes; they are taken out again."""
        acls = [
            [resource.resource_type.value, resource.pattern_type.name, resource.name, b64encode(data).decode()]
            for resource, data in znodes
        ]
        answer = self.ask("world", on=name, acls=acls, requests=[_request(question) for question in questions])
        return World(answer["faults"], answer["verdicts"])

    def verdicts(self, name: str, questions: Sequence[Question]) -> str:
        """Return the verdicts with the ACLs that the authorizer has loaded."""
        answer: str = self.ask("ask", on=name, requests=[_request(question) for question in questions])
        return answer

    def create(self, name: str, bindings: Sequence[tuple[ResourcePattern, AclEntry]]) -> None:
        """Create ACLs, as an administrator does."""
        self.ask("create", on=name, bindings=[_binding(*binding) for binding in bindings])

    def delete(self, name: str, bindings: Sequence[tuple[ResourcePattern, AclEntry]]) -> None:
        """Delete ACLs, as an administrator does."""
        self.ask("delete", on=name, bindings=[_binding(*binding) for binding in bindings])


def _request(question: Question) -> list[str]:
    client, action = question
    operation, resource_type = action.operation.value, action.resource_type.value
    return [client.principal.type, client.principal.name, client.host, operation, resource_type, action.name]


def _binding(resource: ResourcePattern, entry: AclEntry) -> list[str]:
    where = [resource.resource_type.value, resource.pattern_type.name, resource.name]
    return [*where, str(entry.principal), entry.host, entry.operation.value, entry.permission.value]


def in_cache(version: str) -> KafkaDistribution | None:
    """Return this Kafka if it has been fetched."""
    jars = cache_directory(os.environ) / version
    return KafkaDistribution(KafkaVersion.parse(version), jars) if jars.is_dir() else None


@contextmanager
def kafka_authorizers(kafka: KafkaDistribution) -> Iterator[KafkaAuthorizers]:
    """Start the JVM, and end it."""
    with tempfile.TemporaryDirectory(prefix="lethe-authorizer-") as text:
        directory = Path(text)
        (directory / "log4j.properties").write_text(LOGGING)
        java = java_executable("Kafka's authorizer")
        command = kafka_command(java, kafka.classpath, directory, HEAP_MB, (str(SOURCE),))
        with (directory / "errors").open("wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8"
            )
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                yield KafkaAuthorizers(process.stdin, process.stdout)
            except AssertionError as error:
                process.kill()
                said = (directory / "errors").read_text(errors="replace")[-3000:]
                raise AssertionError(f"{error}\n{said}") from error
            finally:
                process.stdin.close()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                process.stdout.close()
