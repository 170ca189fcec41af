"""The container of a real Kafka broker in ZooKeeper mode: server.properties from the environment, and then the broker.

`run.py` writes what KAFKA_… variables say (as Lethe's own daemons read them) into /tmp/server.properties and becomes
Java, so that signals reach the broker. KAFKA_HEAP_OPTS, KAFKA_JVM_PERFORMANCE_OPTS and KAFKA_OPTS are Java's, as in
Kafka's scripts. `run.py healthy` ends with 0 where the broker answers requests, which it does when it has started.
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from lethe.adapters.config_environment import environment_settings

HOME: Final = Path("/opt/kafka")
PROPERTIES: Final = Path("/tmp/server.properties")  # the one place that is always there and may be written
PORT: Final = 9092
LIMIT_S: Final = 4.0
JAVA_OPTIONS: Final = {
    "KAFKA_HEAP_OPTS": "-Xms256m -Xmx512m",
    "KAFKA_JVM_PERFORMANCE_OPTS": "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:+ExitOnOutOfMemoryError",
    "KAFKA_OPTS": "",
}
API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
"""A request of ten bytes: ApiVersions, version 0, number 1, without a client id."""


def properties(environment: Mapping[str, str]) -> str:
    """The file that the variables stand for, by name."""
    found = environment_settings(environment, ())
    return "".join(f"{name}={_escaped(setting.value)}\n" for name, setting in sorted(found.items()))


def command(environment: Mapping[str, str]) -> list[str]:
    """What the container runs."""
    options = (environment.get(name, usual) for name, usual in JAVA_OPTIONS.items())
    return [
        "java",
        *shlex.split(" ".join(options)),
        "-Djava.awt.headless=true",
        f"-Dlog4j.configuration=file:{HOME / 'log4j.properties'}",
        "-cp",
        f"{HOME / 'jars'}/*",
        "kafka.Kafka",
        str(PROPERTIES),
    ]


def is_healthy(port: int = PORT) -> bool:
    """The broker answers a request about its versions, within a limit."""
    try:
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
            connection.settimeout(LIMIT_S)
            connection.sendall(API_VERSIONS)
            return len(connection.recv(8)) == 8
    except OSError:
        return False


def become_broker(environment: Mapping[str, str]) -> NoReturn:
    """This process is Java from here on."""
    PROPERTIES.write_text(properties(environment))
    java = command(environment)
    os.execvp(java[0], java)


def _escaped(value: str) -> str:
    """As Java reads it back."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["healthy"]:
        sys.exit(0 if is_healthy() else 1)
    become_broker(os.environ)
