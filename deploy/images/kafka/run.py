"""The container of a real Kafka broker in ZooKeeper mode: server.properties from the environment, and then the broker.

`run.py` writes what KAFKA_… variables say (as Lethe's own daemons read them) into /tmp/server.properties and becomes
Java, so that signals reach the broker. KAFKA_HEAP_OPTS, KAFKA_JVM_PERFORMANCE_OPTS and KAFKA_OPTS are Java's, as in
Kafka's scripts. `run.py healthy` ends with 0 where the broker answers requests, which it does when it has started;
`run.py healthy CA_FILE` asks over TLS, at the container's name, which has to be in the broker's certificate.
"""

from __future__ import annotations

import os
import shlex
import socket
import ssl
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
NOT_IN_SMALL_LETTERS: Final = ("zookeeper.clientCnxnSocket",)
"""Properties whose names no variable can spell."""
API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
"""A request of ten bytes: ApiVersions, version 0, number 1, without a client id."""


def properties(environment: Mapping[str, str]) -> str:
    """The file that the variables stand for, by name."""
    found = environment_settings(environment, NOT_IN_SMALL_LETTERS)
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


def is_healthy(port: int = PORT, authority: str | None = None) -> bool:
    """The broker answers a request about its versions, within a limit; over TLS if there is an authority to trust.
    The request comes before any login."""
    host = "127.0.0.1" if authority is None else socket.gethostname()
    try:
        with socket.create_connection((host, port), LIMIT_S) as plain:
            plain.settimeout(LIMIT_S)
            if authority is None:
                return _answers(plain)
            context = ssl.create_default_context(cafile=authority)
            with context.wrap_socket(plain, server_hostname=host) as secured:
                return _answers(secured)
    except OSError:
        return False


def _answers(connection: socket.socket) -> bool:
    connection.sendall(API_VERSIONS)
    return len(connection.recv(8)) == 8


def become_broker(environment: Mapping[str, str]) -> NoReturn:
    """This process is Java from here on."""
    PROPERTIES.write_text(properties(environment))
    java = command(environment)
    os.execvp(java[0], java)


def _escaped(value: str) -> str:
    """As Java reads it back."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["healthy"]:
        sys.exit(0 if is_healthy(authority=sys.argv[2] if sys.argv[2:] else None) else 1)
    become_broker(os.environ)
