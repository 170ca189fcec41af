"""Configuration of `lethe controller`: its properties, and their values for the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lethe.adapters.config_common import (
    COMMON,
    HttpConfig,
    JournalFilesConfig,
    JournalTopicConfig,
    ZooKeeperConfig,
    check_inter_broker_listener,
    read_http,
    read_id,
    read_inter_broker_protocol,
    read_journal,
    read_journal_topic,
    read_zookeeper,
)
from lethe.adapters.config_limits import read_max_queued_bytes
from lethe.adapters.config_listeners import PROTOCOL_MAP, read_advertised, read_endpoints, read_protocols
from lethe.adapters.properties import MAX_INT, Property, PropertyKind, Values, read_values, schema
from lethe.controller.core.config import Takeover
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId, Endpoint

CONTROLLER: Final = (
    Property(
        "delete.topic.enable",
        PropertyKind.BOOLEAN,
        "true",
        "Whether topics may be deleted; where not, deletion markers are removed and the topics stay. It saves no topic "
        "whose deletion has begun: a controller that takes over brings back what is left, with empty replicas. To hold "
        "deletions back, pause them.",
    ),
    Property(
        "inter.broker.protocol.version",
        PropertyKind.TEXT,
        "3.9-IV0",
        "Selects the version of every request to brokers; as in the brokers' own configuration, 2.2 to 3.9. Older ones "
        "are refused.",
    ),
    Property(
        "inter.broker.listener.name",
        PropertyKind.TEXT,
        "PLAINTEXT",
        "The brokers' listener that the controller connects to. As in Kafka, not together with "
        "`security.inter.broker.protocol`.",
    ),
    Property(
        "control.plane.listener.name",
        PropertyKind.TEXT,
        None,
        "The brokers' listener for controllers, where they have a separate one.",
    ),
    Property(
        "listeners",
        PropertyKind.LIST,
        None,
        "Where brokers reach the controller, as NAME://host:port; port 0 takes any free one, an empty host means "
        "loopback. With it the controller is *listed*: brokers get its address among the live brokers, and can ask it "
        "to change an ISR or to prepare their shutdown. Nobody has to authenticate. The name must be the one by which "
        "brokers look for it: `control.plane.listener.name`, or else `inter.broker.listener.name`. Without it the "
        "controller is a guest that neither brokers nor clients see. Clients take a listed controller for a broker: "
        "what they ask is passed on to one, under the listener of the same name; so name all that clients use.",
    ),
    Property(
        "advertised.listeners",
        PropertyKind.LIST,
        None,
        "The address that brokers are told; as `listeners` where it is not given.",
    ),
    PROTOCOL_MAP,
    Property(
        "unclean.leader.election.enable",
        PropertyKind.BOOLEAN,
        "false",
        "Whether a replica outside the ISR may lead where no other is alive (a topic's own setting comes first).",
    ),
    Property(
        "auto.leader.rebalance.enable",
        PropertyKind.BOOLEAN,
        "true",
        "Whether partitions go back to their preferred replicas by themselves.",
    ),
    Property(
        "leader.imbalance.check.interval.seconds",
        PropertyKind.INTEGER,
        "300",
        "How often it is looked whether partitions are to go back to their preferred replicas.",
        unit="seconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "leader.imbalance.per.broker.percentage",
        PropertyKind.INTEGER,
        "10",
        "Of the partitions that prefer a broker, how many in a hundred another one may lead before they go back.",
        unit="percent",
        minimum=0,
        maximum=MAX_INT,
    ),
    Property(
        "controller.takeover",
        PropertyKind.TEXT,
        "never",
        "Whether control is taken from one of Kafka's own controllers that holds it: `never` (it is waited for until "
        "nobody does), `once` (at most once while the process lives) or `always` (again and again, at growing "
        "intervals). Never from another Lethe controller, nor from a KRaft controller.",
    ),
    Property(
        "controller.takeover.grace.ms",
        PropertyKind.INTEGER,
        "5000",
        "How long Kafka's controller is left to finish what it is at and to notice that control was taken from it, "
        "before its writes are refused. One that is refused in the middle of a change never leads properly again.",
        unit="milliseconds",
        minimum=0,
        maximum=MAX_INT,
    ),
    Property(
        "controller.takeover.interval.ms",
        PropertyKind.INTEGER,
        "60000",
        "With `always`: how long after taking control it may be taken again; doubles with each time.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "controller.takeover.interval.max.ms",
        PropertyKind.INTEGER,
        "3600000",
        "The longest such interval. After twice as long without having to take control it begins anew.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "lethe.tombstone.timeout.ms",
        PropertyKind.INTEGER,
        "300000",
        "How long a topic whose replicas are all deleted waits for registered brokers that do not confirm that their "
        "metadata caches have dropped it. Then its znodes go, and each of these brokers owes the confirmation: it gets "
        "the order before anything else, and is told of no new topic of that name before it has confirmed. 0: the "
        "topic waits for as long as it takes. Replicas are waited for without any limit.",
        unit="milliseconds",
        minimum=0,
        maximum=MAX_INT,
    ),
    Property(
        "lethe.stop.grace.ms",
        PropertyKind.INTEGER,
        "5000",
        "How long an active controller that is asked to stop waits for such confirmations before it gives control up; "
        "it begins no deletion meanwhile. No later controller knows of what is still owed then: the log names it. 0: "
        "it does not wait.",
        unit="milliseconds",
        minimum=0,
        maximum=MAX_INT,
    ),
    Property(
        "lethe.invariants.check",
        PropertyKind.BOOLEAN,
        "false",
        "Whether the controller checks after its steps that what it keeps in memory does not contradict itself. A "
        "violation is logged as a fault, and the controller resigns and loads everything anew. Checks take at most a "
        "twentieth of its time.",
    ),
    Property(
        "request.timeout.ms",
        PropertyKind.INTEGER,
        "30000",
        "How long a broker's request may wait for its answer; then it is told so, and asks again.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "lethe.relay.connect.timeout.ms",
        PropertyKind.INTEGER,
        "5000",
        "How long the controller tries to reach a broker that it passes a client on to, before it tries the next.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "controller.socket.timeout.ms",
        PropertyKind.INTEGER,
        "30000",
        "How long the controller waits for a broker's connection or answer before it tries again.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
)

CONTROLLER_SCHEMA: Final = schema(COMMON, CONTROLLER)


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    controller_id: BrokerId
    zookeeper: ZooKeeperConfig
    http: HttpConfig
    journal: JournalFilesConfig | None
    journal_topic: JournalTopicConfig | None
    delete_topic_enable: bool
    inter_broker_protocol: InterBrokerProtocol
    inter_broker_listener: str
    control_plane_listener: str | None
    listeners: tuple[Endpoint, ...]
    """Listening addresses for brokers; port 0 is any free one. Empty: a guest, which brokers cannot reach."""
    advertised_listeners: tuple[Endpoint, ...]
    """Addresses that brokers receive; port 0 is replaced by that of the listener of the same name."""
    unclean_leader_election: bool
    auto_leader_rebalance: bool
    leader_imbalance_check_interval_ms: int
    leader_imbalance_per_broker_percentage: int
    takeover: Takeover
    takeover_grace_ms: int
    takeover_interval_ms: int
    takeover_interval_max_ms: int
    tombstone_timeout_ms: int
    """0: no limit."""
    stop_grace_ms: int
    invariants_check: bool
    request_timeout_ms: int
    controller_socket_timeout_ms: int
    max_connections: int
    max_idle_ms: int
    max_queued_bytes: int
    max_receive_ms: int
    relay_connect_timeout_ms: int
    max_frame_bytes: int
    warnings: tuple[str, ...]
    """Warnings about unknown names."""


def load_controller_config(path: Path | None, environ: Mapping[str, str]) -> ControllerConfig:
    """Read file and environment. Raises ConfigError with all problems."""
    values = read_values(path, environ, CONTROLLER_SCHEMA)
    check_inter_broker_listener(values)
    control_plane = values.text("control.plane.listener.name")
    listeners, advertised = _listeners(values)
    config = ControllerConfig(
        controller_id=BrokerId(read_id(values)),
        zookeeper=read_zookeeper(values),
        http=read_http(values),
        journal=read_journal(values),
        journal_topic=read_journal_topic(values),
        delete_topic_enable=values.boolean("delete.topic.enable"),
        inter_broker_protocol=read_inter_broker_protocol(values),
        inter_broker_listener=(values.text("inter.broker.listener.name") or "PLAINTEXT").upper(),
        control_plane_listener=None if control_plane is None else control_plane.upper(),
        listeners=listeners,
        advertised_listeners=advertised,
        unclean_leader_election=values.boolean("unclean.leader.election.enable"),
        auto_leader_rebalance=values.boolean("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_ms=values.integer("leader.imbalance.check.interval.seconds") * 1000,
        leader_imbalance_per_broker_percentage=values.integer("leader.imbalance.per.broker.percentage"),
        takeover=_takeover(values),
        takeover_grace_ms=values.integer("controller.takeover.grace.ms"),
        takeover_interval_ms=values.integer("controller.takeover.interval.ms"),
        takeover_interval_max_ms=values.integer("controller.takeover.interval.max.ms"),
        tombstone_timeout_ms=values.integer("lethe.tombstone.timeout.ms"),
        stop_grace_ms=values.integer("lethe.stop.grace.ms"),
        invariants_check=values.boolean("lethe.invariants.check"),
        request_timeout_ms=values.integer("request.timeout.ms"),
        controller_socket_timeout_ms=values.integer("controller.socket.timeout.ms"),
        max_connections=values.integer("max.connections"),
        max_idle_ms=values.integer("connections.max.idle.ms"),
        max_queued_bytes=read_max_queued_bytes(values),
        max_receive_ms=values.integer("lethe.request.receive.timeout.ms"),
        relay_connect_timeout_ms=values.integer("lethe.relay.connect.timeout.ms"),
        max_frame_bytes=values.integer("socket.request.max.bytes"),
        warnings=tuple(values.warnings),
    )
    values.finish()
    return config


def _takeover(values: Values) -> Takeover:
    """Return `controller.takeover`; if it is invalid, note that and return NEVER."""
    name = "controller.takeover"
    try:
        return Takeover((values.text(name) or "").lower())
    except ValueError:
        values.wrong(name, "is none of never, once and always", "write one of these three")
        return Takeover.NEVER


def _listeners(values: Values) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
    """Return listening and advertised addresses; both empty for a guest. Note problems."""
    if values.text("listeners") is None:
        if values.setting("advertised.listeners") is not None:
            remedy = "set listeners too, or remove it"
            values.wrong("advertised.listeners", "stands without listeners, so nothing listens there", remedy)
        return (), ()
    protocols = read_protocols(values)
    listeners = read_endpoints(values, "listeners", protocols)
    wanted = (values.text("control.plane.listener.name") or values.text("inter.broker.listener.name") or "").upper()
    names = [endpoint.listener for endpoint in listeners]
    if listeners and wanted not in names:
        reason = f"brokers look for the controller under {wanted}, which is not among {', '.join(names)}"
        values.wrong("listeners", reason, f"name a listener {wanted}")
    return listeners, read_advertised(values, protocols, listeners)
