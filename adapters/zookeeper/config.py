"""Settings of a ZooKeeper session: connect string, timeouts, credentials, limits."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.adapters.security.refusal_counts import RefusalCounts, counts_at_peers
from lethe.adapters.security.secrets import Secret
from lethe.adapters.security.tls import TlsMaterial
from lethe.protocol.zookeeper.operations import Credentials
from lethe.protocol.zookeeper.paths import path_problem

DEFAULT_PORT: Final = 2181
DEFAULT_SLOW_WRITE_MS: Final = 200
_HOST_PORT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%[0-9A-Za-z._~-]+)?)\]|([^\s:/\[\]]+))(?::([0-9]{1,5}))?")


class Server(NamedTuple):
    """One server of the ensemble."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ConnectString(NamedTuple):
    """A parsed `zookeeper.connect`."""

    servers: tuple[Server, ...]
    chroot: str = ""
    """Empty, or a path that starts with a slash and does not end with one."""

    def __str__(self) -> str:
        return ",".join(map(str, self.servers)) + self.chroot


def parse_connect_string(text: str) -> ConnectString:
    """Parse `h1:2181,h2:2181/chroot`: one chroot after all servers; the default port is 2181.

    Raises ValueError saying what is wrong.
    """
    hosts, slash, rest = text.strip().partition("/")
    chroot = (slash + rest).rstrip("/")
    if "," in rest and ":" in rest.split(",", 1)[1]:
        raise ValueError(f"zookeeper.connect {text!r}: the chroot is given once, after the last server")
    if problem := (path_problem(chroot) if chroot else None):
        raise ValueError(f"zookeeper.connect {text!r}: {problem}")
    servers = tuple(_server(text, part.strip()) for part in hosts.split(",") if part.strip())
    if not servers:
        raise ValueError(f"zookeeper.connect {text!r} names no server; expected host:port,host:port/chroot")
    return ConnectString(servers, chroot)


def _server(text: str, part: str) -> Server:
    found = _HOST_PORT.fullmatch(part)
    port = int(found[3] or DEFAULT_PORT) if found else 0
    if found is None or not 0 < port <= 65535:
        raise ValueError(f"zookeeper.connect {text!r}: {part!r} is not host:port")
    return Server(found[1] or found[2], port)


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """TLS to all servers of the connect string."""

    make_context: Callable[[], ssl.SSLContext]
    """Called at each connect, so that files that have changed count. Raises OSError or ValueError with a message."""
    has_certificate: bool = False
    """True: the client shows a certificate. ZooKeeper knows it by that (scheme x509), and znodes can belong to it."""
    material: TlsMaterial | None = None
    """Where the contexts have their certificates from."""


@dataclass(frozen=True, slots=True)
class DigestMd5Login:
    """User and password for SASL DIGEST-MD5, the login before anything else on each connection."""

    username: str
    password: Secret


@dataclass(frozen=True, slots=True)
class ZooKeeperConfig:
    """Settings of a session. Raises ValueError if they contradict each other."""

    connect: ConnectString
    session_timeout_ms: int = 18_000
    """`zookeeper.session.timeout.ms`: the request; the server may grant another value."""
    connection_timeout_ms: int = 18_000
    """`zookeeper.connection.timeout.ms`: limit for opening a session, all servers together."""
    slow_write_ms: int = DEFAULT_SLOW_WRITE_MS
    """`lethe.zookeeper.slow.write.ms`: after a multi that takes longer, half as many may be unanswered."""
    set_acl: bool = False
    """`zookeeper.set.acl`: created znodes belong to their creator and are readable by all, as Kafka has it."""
    credentials: tuple[Credentials, ...] = field(default=())
    """Sent after each connect."""
    tls: ZooKeeperTls | None = None
    """None: plaintext."""
    sasl: DigestMd5Login | None = None
    """None: no login by SASL."""
    create_chroot: bool = True
    """As Kafka's brokers do. Tools should not: a mistyped chroot would be created by reading it."""
    jute_max_buffer_bytes: int = 1_048_575
    """The server's `jute.maxbuffer`: it drops a connection that sends a larger request."""
    reply_target_bytes: int = 1024 * 1024
    """Target size of an answer to a bulk read."""
    refused: RefusalCounts = field(default_factory=counts_at_peers, compare=False)
    """Counts connections that failed at TLS, and refused logins."""
    max_reply_bytes: int = 64 * 1024 * 1024
    """A larger answer is skipped: then a bulk read is divided, a single read fails with MARSHALLING."""

    def __post_init__(self) -> None:
        if self.session_timeout_ms <= 0 or self.connection_timeout_ms <= 0:
            raise ValueError("zookeeper.session.timeout.ms and zookeeper.connection.timeout.ms must be positive")
        if self.set_acl and not self.has_identity:
            raise ValueError(
                "zookeeper.set.acl is on, but there are no credentials whose owner the znodes could belong to; "
                "give a SASL user, a client certificate or digest credentials, or turn it off"
            )

    @property
    def has_identity(self) -> bool:
        """True if ZooKeeper can tell by an ACL who this client is."""
        return bool(self.credentials or self.sasl or (self.tls is not None and self.tls.has_certificate))
