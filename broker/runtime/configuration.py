"""Configuration of `lethe broker`, the agent: its properties, and their values for the runtime."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lethe.adapters.config_common import (
    COMMON,
    DaemonConfig,
    check_inter_broker_listener,
    read_id,
    read_inter_broker_protocol,
    read_journal,
    read_journal_topic,
)
from lethe.adapters.config_http import read_http
from lethe.adapters.config_java_policies import ALTER_POLICY, check_java_policies, java_policies
from lethe.adapters.config_limits import read_limits
from lethe.adapters.config_listeners import (
    LOOPBACK,
    PROTOCOL_MAP,
    read_advertised,
    read_endpoints,
    read_inter_broker_listener,
    read_protocols,
)
from lethe.adapters.config_topic_defaults import TOPIC_DEFAULTS, UNCLEAN_ELECTION, read_topic_defaults
from lethe.adapters.config_zookeeper import read_zookeeper
from lethe.adapters.kafka.config_reach import BETWEEN_BROKERS, INTER_BROKER_LISTENER, read_reach_between_brokers
from lethe.adapters.properties import (
    MAX_INT,
    Property,
    PropertyKind,
    Values,
    names_secret,
    read_values,
    schema,
)
from lethe.adapters.security.config_exposure import warn_of_exposed_properties
from lethe.adapters.security.config_inbound import INBOUND, read_inbound
from lethe.adapters.security.config_names_sasl import INTER_BROKER_PROTOCOL
from lethe.broker.core.config_queries import BrokerProperty, OwnSettings
from lethe.protocol.kafka.config_synonyms import ConfigType
from lethe.protocol.kafka.topic_configs import TOPIC_CONFIGS
from lethe.protocol.kafka.topic_defaults import TOPIC_NAMES
from lethe.protocol.vocabulary import BrokerId, Endpoint

BROKER: Final = (
    Property(
        "log.dirs",
        PropertyKind.LIST,
        None,
        "Directories that hold the replicas; nothing outside of them is ever touched. Kafka's default does not "
        "apply: where bytes are deleted, the place must be named.",
        required=True,
        fallbacks=("log.dir",),
    ),
    Property(
        "listeners",
        PropertyKind.LIST,
        f"PLAINTEXT://{LOOPBACK}:9092",
        "Where to listen, as NAME://host:port. An empty host means loopback, unlike in Kafka, since a peer that "
        "reaches the port can destroy data. Port 0 takes any free one.",
    ),
    Property(
        "advertised.listeners",
        PropertyKind.LIST,
        None,
        "Addresses in the broker's registration; as `listeners` where it is not given.",
    ),
    PROTOCOL_MAP,
    Property(
        "inter.broker.listener.name",
        PropertyKind.TEXT,
        None,
        "Listener on which the controller is expected; the first one with protocol PLAINTEXT where it is not given. "
        "As in Kafka, not together with `security.inter.broker.protocol`.",
    ),
    Property(
        "inter.broker.protocol.version",
        PropertyKind.TEXT,
        "3.9-IV0",
        "As in the controller's configuration. From 2.7-IV2 on an ISR is changed through a controller that listens for "
        "brokers, before that through ZooKeeper; it also selects the version of ControlledShutdown.",
    ),
    Property(
        "auto.create.topics.enable",
        PropertyKind.BOOLEAN,
        "false",
        "Whether a client that asks an agent about a topic creates it. The controller, which needs `listeners`, gives "
        "it its `num.partitions` and `default.replication.factor`. Kafka's default, true, does not apply: a client "
        "that still asks about a deleted topic would bring it back.",
    ),
    Property(
        UNCLEAN_ELECTION,
        PropertyKind.BOOLEAN,
        "false",
        "Shown to clients that describe a topic without it. The controller decides by its own value.",
    ),
    Property("broker.rack", PropertyKind.TEXT, None, "Rack of the broker, for the placement of replicas."),
    Property(
        "log.segment.delete.delay.ms",
        PropertyKind.INTEGER,
        "60000",
        "How long a deleted replica's renamed directory stays before its bytes are removed.",
        unit="milliseconds",
        minimum=0,
        fallbacks=("file.delete.delay.ms",),
    ),
    Property(
        "lethe.fill.bytes",
        PropertyKind.INTEGER,
        "4096",
        "Bytes of segments that fill a replica once it leads or has caught up, so that there is something to reclaim.",
        unit="bytes",
        minimum=0,
    ),
    Property(
        "lethe.fill.segment.bytes",
        PropertyKind.INTEGER,
        str(1024 * 1024),
        "Size of one such segment.",
        unit="bytes",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "replica.catch.up.delay.ms",
        PropertyKind.INTEGER,
        "1000",
        "Stands for the fetching, since an agent moves no records. After it an empty replica is filled, and a "
        "leader proposes the followers outside the ISR.",
        unit="milliseconds",
        minimum=0,
    ),
    Property(
        "controlled.shutdown.enable",
        PropertyKind.BOOLEAN,
        "true",
        "Whether the agent, asked to stop, has the controller move its leaderships first. Where its metadata cache "
        "names no controller it stops at once.",
    ),
    Property(
        "controlled.shutdown.max.retries",
        PropertyKind.INTEGER,
        "3",
        "How often the controller is asked before the agent stops anyway.",
        unit="tries",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "controlled.shutdown.retry.backoff.ms",
        PropertyKind.INTEGER,
        "5000",
        "The pause between two tries.",
        unit="milliseconds",
        minimum=0,
    ),
    Property(
        "lethe.acknowledge.only",
        PropertyKind.BOOLEAN,
        "false",
        "For measuring controllers: control requests are answered and not carried out. The agent hosts no replica, "
        "keeps no metadata, and does not start where its log directories hold replicas.",
    ),
    Property(
        "lethe.delete.files.per.second",
        PropertyKind.INTEGER,
        "5000",
        "Files that the removal of deleted replicas unlinks at most; 0 sets no limit. Followed in the brokers' "
        "configuration in ZooKeeper, as the next one.",
        unit="files per second",
        minimum=0,
        maximum=MAX_INT,
    ),
    Property(
        "lethe.delete.bytes.per.second",
        PropertyKind.INTEGER,
        "0",
        "Bytes that the removal of deleted replicas frees at most; 0 sets no limit. A larger file goes at once, and "
        "the next one later.",
        unit="bytes per second",
        minimum=0,
        maximum=MAX_INT,
    ),
    *java_policies(ALTER_POLICY),
)

BROKER_SCHEMA: Final = schema(COMMON, TOPIC_DEFAULTS, BROKER, BETWEEN_BROKERS, INBOUND)
_TYPES: Final = {
    PropertyKind.TEXT: ConfigType.STRING,
    PropertyKind.INTEGER: ConfigType.LONG,
    PropertyKind.BOOLEAN: ConfigType.BOOLEAN,
    PropertyKind.LIST: ConfigType.LIST,
    PropertyKind.SECRET: ConfigType.PASSWORD,
}


@dataclass(frozen=True, slots=True)
class ControlledShutdownConfig:
    enable: bool
    max_retries: int
    """Number of attempts, as in Kafka."""
    retry_backoff_ms: int


@dataclass(frozen=True, slots=True)
class BrokerConfig(DaemonConfig):
    broker_id: BrokerId
    log_dirs: tuple[Path, ...]
    """Absolute."""
    rack: str | None
    delete_delay_ms: int
    fill_bytes: int
    fill_segment_bytes: int
    catch_up_delay_ms: int
    delete_files_per_second: int
    delete_bytes_per_second: int
    """0: no limit."""
    controlled_shutdown: ControlledShutdownConfig
    acknowledge_only: bool
    auto_create_topics: bool
    own_settings: OwnSettings = field(repr=False)
    """What clients are shown that describe the agent or a topic."""


def load_broker_config(path: Path | None, environ: Mapping[str, str]) -> BrokerConfig:
    """Read file and environment. Raises ConfigError with all problems."""
    values = read_values(path, environ, BROKER_SCHEMA)
    warn_of_exposed_properties(values, path)
    check_inter_broker_listener(values)
    check_java_policies(values, ALTER_POLICY)
    protocols = read_protocols(values)
    listeners = read_endpoints(values, "listeners", protocols)
    read_topic_defaults(values)
    config = BrokerConfig(
        broker_id=BrokerId(read_id(values)),
        zookeeper=read_zookeeper(values),
        http=read_http(values),
        journal=read_journal(values),
        journal_topic=read_journal_topic(values),
        log_dirs=_log_dirs(values),
        listeners=listeners,
        advertised_listeners=read_advertised(values, protocols, listeners),
        inter_broker_listener=_inter_broker(values, listeners),
        reach=read_reach_between_brokers(values, (INTER_BROKER_LISTENER,)),
        inter_broker_protocol=read_inter_broker_protocol(values),
        rack=values.text("broker.rack"),
        delete_delay_ms=values.integer("log.segment.delete.delay.ms"),
        fill_bytes=values.integer("lethe.fill.bytes"),
        fill_segment_bytes=values.integer("lethe.fill.segment.bytes"),
        catch_up_delay_ms=values.integer("replica.catch.up.delay.ms"),
        delete_files_per_second=values.integer("lethe.delete.files.per.second"),
        delete_bytes_per_second=values.integer("lethe.delete.bytes.per.second"),
        controlled_shutdown=ControlledShutdownConfig(
            values.boolean("controlled.shutdown.enable"),
            values.integer("controlled.shutdown.max.retries"),
            values.integer("controlled.shutdown.retry.backoff.ms"),
        ),
        acknowledge_only=values.boolean("lethe.acknowledge.only"),
        auto_create_topics=values.boolean("auto.create.topics.enable"),
        own_settings=OwnSettings(BrokerId(read_id(values)), tuple(_shown(values))),
        limits=read_limits(values),
        inbound=read_inbound(values, listeners),
        warnings=tuple(values.warnings),
    )
    values.finish()
    return config


def _shown(values: Values) -> Iterator[BrokerProperty]:
    """Iterate over the properties of an agent; of a secret, whether it is given."""
    for name, prop in values.schema.items():
        given, kind = values.setting(name), _TYPES[prop.kind]
        if name in TOPIC_NAMES:
            kind = ConfigType[TOPIC_CONFIGS[TOPIC_NAMES[name]].type.value]
        elif names_secret(name):
            kind = ConfigType.PASSWORD
        text = None if given is None else given.value.strip()
        if kind is ConfigType.PASSWORD:
            text = text and ""
        yield BrokerProperty(name, kind, prop.default, text)


# --- log directories ----------------------------------------------------------------------------------------------


def _log_dirs(values: Values) -> tuple[Path, ...]:
    items = values.items("log.dirs")
    if not items and values.setting("log.dirs") is not None:
        values.wrong("log.dirs", "names no directory", "name at least one directory")
    absolute = [os.path.abspath(item) for item in items]
    # A link must not hide that one directory contains another, whose content could be taken for replicas.
    real = [os.path.realpath(item) for item in absolute]
    for index, (item, place) in enumerate(zip(absolute, real, strict=True)):
        if place in real[:index]:
            values.wrong("log.dirs", f"names {item} twice", "name each directory once")
        if place == "/":
            values.wrong("log.dirs", "names the root of the file system", "name a directory made for replicas")
        for other, around in zip(absolute, real, strict=True):
            if around != place and place.startswith(around.rstrip("/") + "/"):
                values.wrong(
                    "log.dirs", f"{item} lies inside {other}", "name directories that do not contain each other"
                )
    return tuple(map(Path, absolute))


# --- listeners ----------------------------------------------------------------------------------------------------


def _inter_broker(values: Values, listeners: tuple[Endpoint, ...]) -> str:
    names = [endpoint.listener for endpoint in listeners]
    listener = read_inter_broker_listener(values, *names[:1])
    for name in (INTER_BROKER_LISTENER, INTER_BROKER_PROTOCOL.name):
        if values.setting(name) is not None and listener not in names:
            values.wrong(name, f"is not among listeners ({', '.join(names)})", "use the name of a listener")
    return listener
