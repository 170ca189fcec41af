"""The properties that controllers and agents share: identity, ZooKeeper, the HTTP server, the journal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapters.properties import Kind, Property, Values
from protocol.zookeeper.operations import Credentials
from protocol.zookeeper.paths import path_problem

_SERVER: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:/\s\[\]]+)(:([0-9]{1,5}))?\Z")
MAX_INT: Final = 2**31 - 1

COMMON: Final = (
    Property(
        "broker.id",
        Kind.INTEGER,
        None,
        "The id under which the process registers; every controller and broker of a cluster has one of its own.",
        required=True,
        minimum=0,
        maximum=MAX_INT,
        fallbacks=("node.id",),
    ),
    Property(
        "zookeeper.connect",
        Kind.TEXT,
        None,
        "ZooKeeper's servers as host:port,host:port, a chroot path behind the last one where the cluster has one.",
        required=True,
    ),
    Property(
        "zookeeper.session.timeout.ms",
        Kind.INTEGER,
        "18000",
        "After so long without contact ZooKeeper ends the session, and with it the registration.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "zookeeper.connection.timeout.ms",
        Kind.INTEGER,
        None,
        "How long to try to connect to ZooKeeper; as long as the session timeout where it is not given.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "zookeeper.set.acl",
        Kind.BOOLEAN,
        "false",
        "Give created znodes an access list: all to their creator, reading to the world.",
    ),
    Property(
        "lethe.zookeeper.digest",
        Kind.SECRET,
        None,
        "user:password with which to authenticate at ZooKeeper (scheme digest).",
    ),
    Property(
        "lethe.http.host",
        Kind.TEXT,
        "127.0.0.1",
        "Address of the HTTP server with /metrics, /healthz and /readyz.",
    ),
    Property(
        "lethe.http.port",
        Kind.INTEGER,
        "0",
        "Port of the HTTP server; 0 takes any free one, which the log names.",
        minimum=0,
        maximum=65535,
    ),
    Property(
        "lethe.journal.dir",
        Kind.TEXT,
        None,
        "Directory of the journal; without it no journal is written.",
    ),
    Property(
        "lethe.journal.max.bytes",
        Kind.INTEGER,
        str(64 * 1024 * 1024),
        "Size at which a journal file is closed and the next one begun.",
        unit="bytes",
        minimum=4096,
    ),
    Property(
        "lethe.journal.max.files",
        Kind.INTEGER,
        "8",
        "Journal files that are kept.",
        minimum=1,
        maximum=100_000,
    ),
    Property(
        "socket.request.max.bytes",
        Kind.INTEGER,
        str(100 * 1024 * 1024),
        "Largest frame that is taken from a peer.",
        unit="bytes",
        minimum=1024,
        maximum=MAX_INT,
    ),
    Property("process.roles", Kind.LIST, "", "Kafka's switch to KRaft, which has no ZooKeeper; it must not be set."),
)


@dataclass(frozen=True, slots=True)
class ZooKeeperConfig:
    connect: str
    """`host:port,host:port/chroot`."""
    session_timeout_ms: int
    connection_timeout_ms: int
    set_acl: bool
    credentials: Credentials | None


@dataclass(frozen=True, slots=True)
class HttpConfig:
    host: str
    port: int
    """0: any free one."""


@dataclass(frozen=True, slots=True)
class JournalFilesConfig:
    directory: Path
    max_bytes: int
    """Of one file."""
    max_files: int


def read_id(values: Values) -> int:
    """`broker.id`, which Kafka also lets one call `node.id`; notes it where the two contradict each other."""
    broker_id, node_id = values.settings.get("broker.id"), values.settings.get("node.id")
    if broker_id and node_id and broker_id.value.strip() != node_id.value.strip():
        values.wrong("broker.id", f"contradicts node.id={node_id.value} ({node_id.origin})", "give one of the two")
    if values.settings.get("process.roles") and values.text("process.roles"):
        values.wrong("process.roles", "this file is for a KRaft cluster, which has no ZooKeeper", "remove the line")
    return values.integer("broker.id")


def read_zookeeper(values: Values) -> ZooKeeperConfig:
    """ZooKeeper's servers and how to talk to them; notes what is wrong."""
    connect = values.text("zookeeper.connect") or ""
    if connect and (reason := connect_problem(connect)):
        values.wrong("zookeeper.connect", reason, "write host:port[,host:port][/chroot]")
    session_timeout_ms = values.integer("zookeeper.session.timeout.ms")
    connection_timeout_ms = values.integer("zookeeper.connection.timeout.ms") or session_timeout_ms
    return ZooKeeperConfig(
        connect,
        session_timeout_ms,
        connection_timeout_ms,
        values.boolean("zookeeper.set.acl"),
        _credentials(values),
    )


def connect_problem(connect: str) -> str | None:
    """Why this is no connect string, in words that can be shown; None where it is one."""
    slash = connect.find("/")
    servers, chroot = (connect, "") if slash < 0 else (connect[:slash], connect[slash:])
    for server in servers.split(","):
        matched = _SERVER.match(server.strip())
        if matched is None:
            return f"{server.strip()!r} is not host:port"
        if matched[3] and not 0 < int(matched[3]) <= 65535:
            return f"port {matched[3]} of {server.strip()!r} is not between 1 and 65535"
    if chroot and chroot != "/":
        return path_problem(chroot)
    return None


def read_http(values: Values) -> HttpConfig:
    return HttpConfig(values.text("lethe.http.host") or "127.0.0.1", values.integer("lethe.http.port"))


def read_journal(values: Values) -> JournalFilesConfig | None:
    """Where the journal goes; None where none is to be written."""
    directory = values.text("lethe.journal.dir")
    max_bytes, max_files = values.integer("lethe.journal.max.bytes"), values.integer("lethe.journal.max.files")
    return None if directory is None else JournalFilesConfig(Path(directory), max_bytes, max_files)


def _credentials(values: Values) -> Credentials | None:
    digest = values.text("lethe.zookeeper.digest")
    if digest is None:
        return None
    user, colon, password = digest.partition(":")
    if not (user and colon and password):
        values.wrong("lethe.zookeeper.digest", "is not of the form user:password", "write user:password")
        return None
    return Credentials("digest", digest.encode())
