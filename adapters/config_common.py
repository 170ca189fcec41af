"""Properties that controllers and agents share: identity, ZooKeeper, the HTTP server, the journal."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lethe.adapters.config_http import HTTP, HttpConfig
from lethe.adapters.config_limits import LIMITS
from lethe.adapters.config_zookeeper import ZOOKEEPER, ZooKeeperConfig
from lethe.adapters.kafka.bootstrap import parse_server
from lethe.adapters.kafka.config_reach import read_client_reach, with_prefix
from lethe.adapters.kafka.limits import ServerLimits
from lethe.adapters.kafka.reach import PLAINTEXT_REACH, BrokerReach
from lethe.adapters.properties import MAX_INT, Property, PropertyKind, Values
from lethe.adapters.security.inbound import InboundSettings
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.journal import DEFAULT_TOPIC
from lethe.protocol.kafka.versions import LATEST, OLDEST, InterBrokerProtocol
from lethe.protocol.vocabulary import Endpoint, topic_name_problem

CLIENT_PACKAGE: Final = "aiokafka"
JOURNAL_PREFIX: Final = "lethe.journal.kafka."
"""The journal connects as a client, with properties of its own."""

COMMON: Final = (
    Property(
        "broker.id",
        PropertyKind.INTEGER,
        None,
        "The process's id; unique among the controllers and brokers of a cluster.",
        required=True,
        minimum=0,
        maximum=MAX_INT,
        fallbacks=("node.id",),
    ),
    *ZOOKEEPER,
    *HTTP,
    Property(
        "lethe.journal.dir",
        PropertyKind.TEXT,
        None,
        "Directory of the journal; without it no journal is written.",
    ),
    Property(
        "lethe.journal.max.bytes",
        PropertyKind.INTEGER,
        str(64 * 1024 * 1024),
        "Size at which a journal file is closed and the next one begun.",
        unit="bytes",
        minimum=4096,
    ),
    Property(
        "lethe.journal.max.files",
        PropertyKind.INTEGER,
        "8",
        "Journal files that are kept.",
        unit="files",
        minimum=1,
        maximum=100_000,
    ),
    Property(
        "lethe.journal.kafka.bootstrap.servers",
        PropertyKind.LIST,
        "",
        "host:port of brokers that take the journal's lines in a topic, too. It may be the controlled cluster.",
    ),
    Property(
        "lethe.journal.kafka.topic",
        PropertyKind.TEXT,
        DEFAULT_TOPIC,
        "That topic, which you have to create. Lines are keyed by source, so a daemon's stay in order. A name that "
        "does not begin with __ has to be protected from being proposed for deletion (--protect).",
    ),
    *with_prefix(JOURNAL_PREFIX),
    *LIMITS,
    Property(
        "process.roles", PropertyKind.LIST, "", "Kafka's switch to KRaft, which has no ZooKeeper; it must not be set."
    ),
)


@dataclass(frozen=True, slots=True)
class JournalFilesConfig:
    directory: Path
    max_bytes: int
    """Limit per file."""
    max_files: int


@dataclass(frozen=True, slots=True)
class JournalTopicConfig:
    servers: tuple[str, ...]
    """`host:port` each."""
    topic: str
    reach: BrokerReach = PLAINTEXT_REACH


@dataclass(frozen=True, slots=True)
class DaemonConfig:
    """What controllers and agents have in common."""

    zookeeper: ZooKeeperConfig
    http: HttpConfig
    journal: JournalFilesConfig | None
    journal_topic: JournalTopicConfig | None
    inter_broker_protocol: InterBrokerProtocol
    inter_broker_listener: str
    """Name of the listener that brokers have for each other."""
    reach: BrokerReach
    """How to connect to brokers."""
    listeners: tuple[Endpoint, ...]
    """Listening addresses; port 0 is any free one. Empty for a guest controller, which brokers cannot reach."""
    advertised_listeners: tuple[Endpoint, ...]
    """Addresses that peers receive; port 0 is replaced by that of the listener of the same name."""
    inbound: InboundSettings
    """Who may connect to the listeners, and what it may do."""
    limits: ServerLimits
    warnings: tuple[str, ...]
    """Warnings about unknown names."""


def read_id(values: Values) -> int:
    """Return `broker.id`, or Kafka's alternative `node.id`; note a contradiction between the two."""
    broker_id, node_id = values.settings.get("broker.id"), values.settings.get("node.id")
    if broker_id and node_id and broker_id.value.strip() != node_id.value.strip():
        values.wrong("broker.id", f"contradicts node.id={node_id.value} ({node_id.origin})", "give one of the two")
    if values.settings.get("process.roles") and values.text("process.roles"):
        values.wrong("process.roles", "this file is for a KRaft cluster, which has no ZooKeeper", "remove the line")
    return values.integer("broker.id")


def read_inter_broker_protocol(values: Values) -> InterBrokerProtocol:
    """Return the brokers' IBP; if it is not supported, note that and return the latest."""
    name = "inter.broker.protocol.version"
    try:
        ibp = InterBrokerProtocol.parse(values.text(name) or "")
    except ValueError:
        remedy = "write the one that the brokers have, from 2.2 to 3.9, such as 2.8 or 3.4-IV0"
        values.wrong(name, "is not a version of a Kafka in ZooKeeper mode", remedy)
        return LATEST
    if ibp < OLDEST:
        remedy = "raise it at the brokers to 2.2 or later first, then write the same here"
        values.wrong(name, "is older than Lethe speaks, which is 2.2 to 3.9", remedy)
        return LATEST
    return ibp


def check_inter_broker_listener(values: Values) -> None:
    """Note if both of Kafka's properties for the inter-broker listener are set, which Kafka refuses too."""
    name, other = "inter.broker.listener.name", values.settings.get("security.inter.broker.protocol")
    if values.setting(name) is not None and other is not None:
        reason = f"stands beside security.inter.broker.protocol={other.value} ({other.origin})"
        values.wrong(name, reason, "give one of the two, as in Kafka")


def read_journal(values: Values) -> JournalFilesConfig | None:
    """Return the settings of the journal's files; None if there are none."""
    directory = values.text("lethe.journal.dir")
    max_bytes, max_files = values.integer("lethe.journal.max.bytes"), values.integer("lethe.journal.max.files")
    return None if directory is None else JournalFilesConfig(Path(directory), max_bytes, max_files)


def read_journal_topic(values: Values) -> JournalTopicConfig | None:
    """Return the settings of the journal's topic; None if there is none. Note problems."""
    name, topic_name = "lethe.journal.kafka.bootstrap.servers", "lethe.journal.kafka.topic"
    servers, topic = values.items(name), values.text(topic_name) or DEFAULT_TOPIC
    if not servers:
        return None
    reach = read_client_reach(values, JOURNAL_PREFIX)
    try:
        servers = tuple(parse_server(server, reach.protocol) for server in servers)
    except Unusable as error:
        values.wrong(name, error.reason, error.remedy)
    if problem := topic_name_problem(topic):
        values.wrong(topic_name, problem, f"choose another name, such as {DEFAULT_TOPIC}")
    if importlib.util.find_spec(CLIENT_PACKAGE) is None:
        remedy = "install Lethe with its dependencies (pip install aiokafka), or remove the line"
        values.wrong(name, f"the package {CLIENT_PACKAGE} is not installed, and writes to Kafka", remedy)
    return JournalTopicConfig(servers, topic, reach)
