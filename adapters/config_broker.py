"""The configuration of `lethe broker`, the agent: its properties, and the values that the runtime gets."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapters.config_common import (
    COMMON,
    MAX_INT,
    HttpConfig,
    JournalFilesConfig,
    ZooKeeperConfig,
    check_inter_broker_listener,
    read_http,
    read_id,
    read_inter_broker_protocol,
    read_journal,
    read_zookeeper,
)
from adapters.properties import Kind, Property, Values, read_values, schema
from protocol.kafka.versions import InterBrokerProtocol
from protocol.vocabulary import BrokerId, Endpoint, SecurityProtocol

LOOPBACK: Final = "127.0.0.1"

BROKER: Final = (
    Property(
        "log.dirs",
        Kind.LIST,
        None,
        "Directories that hold the replicas; nothing outside of them is ever touched. Kafka's default is not taken "
        "over: where bytes are deleted, the place must be named.",
        required=True,
        fallbacks=("log.dir",),
    ),
    Property(
        "listeners",
        Kind.LIST,
        f"PLAINTEXT://{LOOPBACK}:9092",
        "Where to listen, as NAME://host:port. An empty host means loopback, unlike in Kafka: whoever reaches the port "
        "can destroy data, so other addresses must be named. Port 0 takes any free one.",
    ),
    Property(
        "advertised.listeners",
        Kind.LIST,
        None,
        "What the registration tells others to connect to; as `listeners` where it is not given.",
    ),
    Property(
        "listener.security.protocol.map",
        Kind.LIST,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "Security protocol of each listener name. The agent serves PLAINTEXT only.",
    ),
    Property(
        "inter.broker.listener.name",
        Kind.TEXT,
        None,
        "Listener on which the controller is expected; the first one with protocol PLAINTEXT where it is not given. "
        "As in Kafka, not together with `security.inter.broker.protocol`.",
    ),
    Property(
        "inter.broker.protocol.version",
        Kind.TEXT,
        "3.9-IV0",
        "As in the controller's configuration. From 2.7-IV2 on an ISR is changed through a controller that listens for "
        "brokers, before that through ZooKeeper; it also selects the version of ControlledShutdown.",
    ),
    Property("broker.rack", Kind.TEXT, None, "Rack of the broker, for the placement of replicas."),
    Property(
        "log.segment.delete.delay.ms",
        Kind.INTEGER,
        "60000",
        "How long a deleted replica's renamed directory stays before its bytes are removed.",
        unit="milliseconds",
        minimum=0,
        fallbacks=("file.delete.delay.ms",),
    ),
    Property(
        "lethe.fill.bytes",
        Kind.INTEGER,
        "4096",
        "Bytes of segments that a new replica is filled with once it leads or has caught up, so that there is "
        "something to reclaim.",
        unit="bytes",
        minimum=0,
    ),
    Property(
        "lethe.fill.segment.bytes",
        Kind.INTEGER,
        str(1024 * 1024),
        "Size of one such segment.",
        unit="bytes",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "replica.catch.up.delay.ms",
        Kind.INTEGER,
        "1000",
        "How long a follower takes to catch up: an agent moves no records, so this stands for the fetching. After it "
        "an empty replica is filled, and a leader asks for the followers outside the ISR to be taken into it.",
        unit="milliseconds",
        minimum=0,
    ),
    Property(
        "lethe.delete.files.per.second",
        Kind.INTEGER,
        "5000",
        "Files that the removal of deleted replicas unlinks at most; 0 sets no limit.",
        unit="files per second",
        minimum=0,
        maximum=MAX_INT,
    ),
)

BROKER_SCHEMA: Final = schema(COMMON, BROKER)

_LISTENER: Final = re.compile(r"([A-Za-z0-9_-]+)://(\[[0-9a-fA-F:.%]*\]|[^:/\s\[\]]*):(-?[0-9]{1,6})\Z")
_ANY_ADDRESS: Final = ("0.0.0.0", "::")
_FORM: Final = "write NAME://host:port, several separated by commas"


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    broker_id: BrokerId
    zookeeper: ZooKeeperConfig
    http: HttpConfig
    journal: JournalFilesConfig | None
    log_dirs: tuple[Path, ...]
    """Absolute."""
    listeners: tuple[Endpoint, ...]
    """Where to listen; port 0 is any free one."""
    advertised_listeners: tuple[Endpoint, ...]
    """What to register; port 0 is the one that the listener of the same name got."""
    inter_broker_listener: str
    inter_broker_protocol: InterBrokerProtocol
    rack: str | None
    delete_delay_ms: int
    fill_bytes: int
    fill_segment_bytes: int
    catch_up_delay_ms: int
    delete_files_per_second: int
    """0: no limit."""
    max_frame_bytes: int
    warnings: tuple[str, ...]
    """What in the configuration was not understood and not needed."""


def load_broker_config(path: Path | None, environ: Mapping[str, str]) -> BrokerConfig:
    """Read file and environment. Raises ConfigError with everything that is wrong."""
    values = read_values(path, environ, BROKER_SCHEMA)
    check_inter_broker_listener(values)
    protocols = _protocols(values)
    listeners = _endpoints(values, "listeners", protocols)
    config = BrokerConfig(
        broker_id=BrokerId(read_id(values)),
        zookeeper=read_zookeeper(values),
        http=read_http(values),
        journal=read_journal(values),
        log_dirs=_log_dirs(values),
        listeners=listeners,
        advertised_listeners=_advertised(values, protocols, listeners),
        inter_broker_listener=_inter_broker(values, listeners),
        inter_broker_protocol=read_inter_broker_protocol(values),
        rack=values.text("broker.rack"),
        delete_delay_ms=values.integer("log.segment.delete.delay.ms"),
        fill_bytes=values.integer("lethe.fill.bytes"),
        fill_segment_bytes=values.integer("lethe.fill.segment.bytes"),
        catch_up_delay_ms=values.integer("replica.catch.up.delay.ms"),
        delete_files_per_second=values.integer("lethe.delete.files.per.second"),
        max_frame_bytes=values.integer("socket.request.max.bytes"),
        warnings=tuple(values.warnings),
    )
    values.finish()
    return config


# --- log directories ----------------------------------------------------------------------------------------------


def _log_dirs(values: Values) -> tuple[Path, ...]:
    items = values.items("log.dirs")
    if not items and values.setting("log.dirs") is not None:
        values.wrong("log.dirs", "names no directory", "name at least one directory")
    absolute = [os.path.abspath(item) for item in items]
    # A link must not hide that one directory holds another: what lies in a log directory may be judged to be a replica.
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


def _protocols(values: Values) -> dict[str, SecurityProtocol]:
    found: dict[str, SecurityProtocol] = {}
    for item in values.items("listener.security.protocol.map"):
        listener, colon, protocol = item.partition(":")
        listener, protocol = listener.strip().upper(), protocol.strip().upper()
        name = "listener.security.protocol.map"
        if not colon or protocol not in SecurityProtocol.__members__:
            values.wrong(name, f"{item!r} is not NAME:PROTOCOL", "use " + ", ".join(SecurityProtocol.__members__))
        elif listener in found:
            values.wrong(name, f"names listener {listener} twice", "name each listener once")
        else:
            found[listener] = SecurityProtocol[protocol]
    return found


def _endpoints(values: Values, name: str, protocols: Mapping[str, SecurityProtocol]) -> tuple[Endpoint, ...]:
    found: list[Endpoint] = []
    for item in values.items(name):
        matched = _LISTENER.match(item)
        if matched is None or not 0 <= int(matched[3]) <= 65535:
            values.wrong(name, f"{item!r} is not a listener", _FORM)
            continue
        listener, host, port = matched[1].upper(), matched[2].strip("[]"), int(matched[3])
        protocol = protocols.get(listener)
        if protocol is None:
            values.wrong(
                name, f"listener {listener} has no security protocol", "add it to listener.security.protocol.map"
            )
            continue
        if protocol is not SecurityProtocol.PLAINTEXT:
            reason = f"listener {listener} wants {protocol.name}, which the agent does not serve"
            values.wrong(name, reason, "use PLAINTEXT on an address that only trusted machines reach")
            continue
        if any(listener == other.listener for other in found):
            values.wrong(name, f"names listener {listener} twice", "give each listener a name of its own")
            continue
        if port and any((host, port) == (other.host, other.port) for other in found):
            values.wrong(name, f"two listeners share {host}:{port}", "give each listener a port of its own")
        found.append(Endpoint(listener, host or LOOPBACK, port, protocol))
    if not values.items(name):
        values.wrong(name, "names no listener that can be served", _FORM)
    return tuple(found)


def _advertised(
    values: Values, protocols: Mapping[str, SecurityProtocol], listeners: tuple[Endpoint, ...]
) -> tuple[Endpoint, ...]:
    name = "advertised.listeners"
    given = values.setting(name) is not None
    advertised = _endpoints(values, name, protocols) if given else listeners
    blamed = name if given else "listeners"
    names = [endpoint.listener for endpoint in listeners]
    for endpoint in advertised:
        if endpoint.host in _ANY_ADDRESS:
            reason = f"{endpoint.host} is no address that others can connect to"
            values.wrong(blamed, reason, f"name one in advertised.listeners, as {endpoint.listener}://host:port")
        if endpoint.listener not in names:
            reason = f"listener {endpoint.listener} is not among listeners ({', '.join(names)})"
            values.wrong(name, reason, "use the same names in both")
    return advertised


def _inter_broker(values: Values, listeners: tuple[Endpoint, ...]) -> str:
    name = "inter.broker.listener.name"
    given = values.text(name)
    names = [endpoint.listener for endpoint in listeners]
    if given is None:
        return names[0] if names else "PLAINTEXT"
    if given.upper() not in names:
        values.wrong(name, f"is not among listeners ({', '.join(names)})", "use the name of a listener")
    return given.upper()
