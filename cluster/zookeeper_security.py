"""TLS and SASL of the embedded ZooKeeper: lines of its configuration, and its JAAS file.

TLS needs ZooKeeper's Netty server, whose jars PySpark and Kafka both have. The plaintext port stays open beside the
secure one. Key and trust material are PEM files, which ZooKeeper reads since 3.5.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_NETTY: Final = "org.apache.zookeeper.server.NettyServerCnxnFactory"
_SASL_PROVIDER: Final = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
_DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"


class ClientCertificate(enum.Enum):
    """Whether the server asks clients for a certificate; the values are ZooKeeper's."""

    NONE = "none"
    NEEDED = "need"


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Material of the secure port."""

    key_store: Path
    """PEM file with the certificate chain and the unencrypted key."""
    trust_store: Path
    """PEM file with the authorities of clients' certificates."""
    client_certificate: ClientCertificate = ClientCertificate.NEEDED


@dataclass(frozen=True, slots=True)
class ServerSecurity:
    """What the server asks of its clients. Without `tls` there is no secure port, without `users` no SASL."""

    tls: ServerTls | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Password by user name, for DIGEST-MD5."""
    has_sasl_provider: bool = True
    """False: users can log in, but the server takes no ACL that names them."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Further lines of zoo.cfg."""

    def lines(self, host: str, secure_port: int) -> str:
        """Return the lines of zoo.cfg."""
        settings: dict[str, str] = {}
        if self.tls is not None:
            settings |= {
                "serverCnxnFactory": _NETTY,
                "secureClientPort": str(secure_port),
                "secureClientPortAddress": host,
                "ssl.keyStore.location": str(self.tls.key_store),
                "ssl.keyStore.type": "PEM",
                "ssl.trustStore.location": str(self.tls.trust_store),
                "ssl.trustStore.type": "PEM",
                "ssl.clientAuth": self.tls.client_certificate.value,
            }
        if self.users and self.has_sasl_provider:
            settings["authProvider.1"] = _SASL_PROVIDER
        return "".join(f"{name}={value}\n" for name, value in (settings | dict(self.properties)).items())

    def jvm_flags(self, directory: Path) -> list[str]:
        """Write the JAAS file, readable for its owner only, into the directory, and return the flags that name it."""
        if not self.users:
            return []
        file = directory / "zookeeper.jaas"
        users = "".join(f"\n    user_{name}={_quoted(password)}" for name, password in self.users.items())
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
            out.write(f"Server {{\n    {_DIGEST_MODULE} required{users};\n}};\n")
        return [f"-Djava.security.auth.login.config={file}"]


OPEN: Final = ServerSecurity()
"""No TLS and no users."""


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
