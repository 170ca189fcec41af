"""Environment variables as properties, by the convention of Kafka's container images."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple


class Setting(NamedTuple):
    """A value and its origin."""

    value: str
    origin: str
    """`server.properties:7`, or `environment variable KAFKA_BROKER_ID`, or `default`."""


OF_VARIABLES: Final = "environment variable "
"""How the origin of a value from a variable begins."""
_NOT_PROPERTIES: Final = (
    "KAFKA_CLUSTER_ID KAFKA_DEBUG KAFKA_GC_LOG_OPTS KAFKA_GID KAFKA_HEAP_OPTS KAFKA_HOME KAFKA_JMX_HOSTNAME "
    "KAFKA_JMX_OPTS KAFKA_JMX_PORT KAFKA_JVM_PERFORMANCE_OPTS KAFKA_LOG4J_LOGGERS KAFKA_LOG4J_OPTS "
    "KAFKA_LOG4J_ROOT_LOGLEVEL KAFKA_LOG4J_TOOLS_ROOT_LOGLEVEL KAFKA_MODE KAFKA_OPTS KAFKA_TOOLS_LOG4J_LOGLEVEL "
    "KAFKA_UID KAFKA_USER KAFKA_VERSION"
)
NOT_PROPERTIES: Final = frozenset(_NOT_PROPERTIES.split())
"""Variables of Kafka's images and scripts that are no properties."""
FOR_COMMANDS: Final = frozenset(
    (
        "LETHE_ZOOKEEPER_CONNECT",
        "LETHE_ZOOKEEPER_DIGEST",
        "LETHE_COMMAND_CONFIG",
        "LETHE_HTTP_CA_FILE",
        "LETHE_KAFKA_CACHE",
        "LETHE_IVY_SETTINGS",
    )
)
"""Variables of Lethe that are no properties: commands read them."""
_SERVICE_LINK: Final = re.compile(r"_SERVICE_(HOST|PORT)|_PORT_[0-9]+_(TCP|UDP)|\A(tcp|udp)://")
"""By default Kubernetes sets such variables in each container for a Service `lethe-x`."""


def environment_settings(environ: Mapping[str, str], known: Iterable[str]) -> dict[str, Setting]:
    """Return the properties that the environment sets, `LETHE_*` only if `known`.

    `unknown_variables` returns the other `LETHE_*`.
    """
    known = frozenset(known)
    # A variable has no small letters: `zookeeper.clientCnxnSocket` has some that are not.
    spelled = {name.lower(): name for name in known}
    found: dict[str, Setting] = {}
    for variable, value in sorted(environ.items()):
        if variable.startswith("KAFKA_") and variable not in NOT_PROPERTIES:
            name = property_name(variable.removeprefix("KAFKA_"))
            name = spelled.get(name, name)
        elif variable.startswith("LETHE_") and property_name(variable) in known:
            name = property_name(variable)
        else:
            continue
        found[name] = Setting(value, f"{OF_VARIABLES}{variable}")
    return found


def unknown_variables(environ: Mapping[str, str], known: Iterable[str]) -> dict[str, Setting]:
    """Return unused `LETHE_*` variables, by the property name that each one spells."""
    known = frozenset(known)
    return {
        property_name(variable): Setting(value, f"{OF_VARIABLES}{variable}")
        for variable, value in sorted(environ.items())
        if variable.startswith("LETHE_")
        and variable not in FOR_COMMANDS
        and property_name(variable) not in known
        and not (_SERVICE_LINK.search(variable) or _SERVICE_LINK.match(value))
    }


def variable_name(name: str) -> str:
    """Return the environment variable that sets a property. Raises ValueError if there is none."""
    made = name.replace("-", "___").replace("_", "__").replace(".", "_").upper()
    made = made if made.startswith("LETHE_") else f"KAFKA_{made}"
    if property_name(made.removeprefix("KAFKA_")) != name.lower():
        raise ValueError(f"{made} would set {property_name(made)}, not {name}")
    return made


def property_name(variable: str) -> str:
    """Return `zookeeper.connect` for `ZOOKEEPER_CONNECT`: `___` is a dash, `__` an underscore, `_` a dot."""
    return (
        variable.lower()
        .replace("___", "\0")
        .replace("__", "\1")
        .replace("_", ".")
        .replace("\0", "-")
        .replace("\1", "_")
    )
