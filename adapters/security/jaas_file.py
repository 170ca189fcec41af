"""The JAAS file that brokers have for their logins: the property that names it, and its sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lethe.adapters.properties import Property, PropertyKind
from lethe.adapters.security.files import read_file
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.security.jaas import JaasEntry, parse_file

MAX_BYTES: Final = 1024 * 1024

JAAS_FILE: Final = Property(
    "java.security.auth.login.config",
    PropertyKind.TEXT,
    None,
    "JAAS file of the brokers, which Java knows by `-Djava.security.auth.login.config`. Its section `Client` has the "
    "user for ZooKeeper, `<listener in small letters>.KafkaServer` or `KafkaServer` that for connections to brokers, "
    "and `KafkaClient` that of clients, such as the journal. It is read at each login.",
)


def read_sections(path: Path) -> Mapping[str, Sequence[JaasEntry]]:
    """Return the login modules of each section. Raises Unusable and JaasError."""
    try:
        return parse_file(read_file(path, MAX_BYTES).decode())
    except UnicodeDecodeError:
        raise Unusable("is not text in UTF-8", "name the JAAS file of the brokers") from None
