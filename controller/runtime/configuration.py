"""Configuration of `lethe controller`: its properties, and their values for the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from lethe.adapters.config_java_policies import check_java_policies
from lethe.adapters.config_limits import read_limits
from lethe.adapters.config_listeners import (
    PROTOCOL_MAP,
    read_advertised,
    read_endpoints,
    read_inter_broker_listener,
    read_protocols,
)
from lethe.adapters.config_topic_defaults import TOPIC_DEFAULTS
from lethe.adapters.config_zookeeper import read_zookeeper
from lethe.adapters.kafka.config_reach import BETWEEN_BROKERS, read_reach_between_brokers
from lethe.adapters.properties import MAX_INT, Property, PropertyKind, Values, read_values, schema
from lethe.adapters.security.config_exposure import warn_of_exposed_properties
from lethe.adapters.security.config_inbound import INBOUND, read_inbound
from lethe.controller.core.config import NewTopics, Takeover
from lethe.controller.core.pace_memory import PaceLimits
from lethe.controller.core.topic_policy import TopicPolicy
from lethe.controller.runtime.config_client_changes import (
    CLIENT_CHANGES,
    JAVA_POLICIES,
    read_policy,
    read_quota_window_s,
)
from lethe.controller.runtime.config_new_topics import NEW_TOPICS, read_new_topics
from lethe.controller.runtime.config_rules import read_grace, read_patterns, read_rate
from lethe.controller.runtime.config_sizes import (
    OPERATIONS_PER_GROUP,
    PARTITIONS_PER_SLICE,
    REQUEST_MAX_BYTES,
    SIZES,
)
from lethe.protocol.deletion_grace import DELETION_GRACE, GraceRule
from lethe.protocol.own_settings import BYTES_PER_SECOND, FREE_PERCENT, TOPICS_PER_SECOND
from lethe.protocol.topic_globs import PROTECTED_TOPICS
from lethe.protocol.vocabulary import BrokerId, Endpoint
from lethe.protocol.zookeeper.znodes import OfflineReplicas

CONTROLLER: Final = (
    Property(
        "delete.topic.enable",
        PropertyKind.BOOLEAN,
        "true",
        "Whether topics may be deleted. If false, markers are removed and the topics stay, but a topic whose "
        "deletion has begun returns with empty replicas. To hold deletions back, pause them.",
    ),
    Property(
        PROTECTED_TOPICS,
        PropertyKind.LIST,
        None,
        "Patterns of topics that are never deleted, with `*` and `?`. Whoever marks such a topic, the controller "
        "removes the marker, and the topic stays. A deletion that is queued already goes on. Internal topics "
        "(`__consumer_offsets`, `__transaction_state`) need no pattern.",
    ),
    Property(
        DELETION_GRACE,
        PropertyKind.LIST,
        None,
        "For how long deleted topics stay in the trash, from which `lethe topics undelete` brings them back, whoever "
        "marks them: patterns with durations, such as `orders.*:24h, tmp-*:0, *:1h`. The first pattern that matches "
        "counts; 0, or no pattern: the topic is deleted at once. `lethe topics delete --grace` comes first. A topic "
        "that cannot go into the trash stays in service, and `lethe explain` says why.",
    ),
    Property(
        FREE_PERCENT,
        PropertyKind.INTEGER,
        "0",
        "How much of each log directory is to stay free. While one with replicas of topics in the trash has less, the "
        "topic that is there for longest is deleted for good, one at a time, each when the bytes of the one before are "
        "gone. Brokers tell from 3.3 on how full a disk is; the trash does not give way to a disk that is not seen. "
        "0: it never gives way.",
        unit="percent",
        minimum=0,
        maximum=99,
    ),
    Property(
        TOPICS_PER_SECOND,
        PropertyKind.TEXT,
        "0",
        "How many deletions may begin in a second; a number such as `20` or `0.5`. The others wait in service, in "
        "the order of their markers, and behind them in the trash those whose time there is over. 0: no limit.",
    ),
    Property(
        BYTES_PER_SECOND,
        PropertyKind.TEXT,
        "0",
        "How many bytes of replicas, as brokers tell them before, the deletions of a second may begin with. A larger "
        "topic begins alone, and the next one later. A topic whose size a broker does not tell counts nothing here. "
        "0: no limit.",
    ),
    Property(
        "inter.broker.protocol.version",
        PropertyKind.TEXT,
        "3.9-IV0",
        "The brokers' own value, 2.2 to 3.9. It selects the version of every request to them.",
    ),
    Property(
        "inter.broker.listener.name",
        PropertyKind.TEXT,
        None,
        "The brokers' listener that the controller connects to. As in Kafka, not together with "
        "`security.inter.broker.protocol`. Its protocol is that of `listener.security.protocol.map`, and a broker that "
        "registers it under another one is not commanded. Without either the controller uses a broker's first "
        "PLAINTEXT listener.",
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
        "loopback. It makes the controller *advertised*: brokers find it among the live brokers, and ask it to change "
        "an ISR or to prepare their shutdown. They connect as among themselves. One name must be "
        "`control.plane.listener.name`, or else `inter.broker.listener.name`. Clients take it for a broker and are "
        "forwarded to one under the same listener name, so name all that clients use. Without it the controller is "
        "a guest that neither brokers nor clients see.",
    ),
    Property(
        "advertised.listeners",
        PropertyKind.LIST,
        None,
        "The address that brokers receive; as `listeners` where it is not given.",
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
        "How often leaders are checked for that.",
        unit="seconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "leader.imbalance.per.broker.percentage",
        PropertyKind.INTEGER,
        "10",
        "How many of a broker's preferred partitions others may lead before these go back.",
        unit="percent",
        minimum=0,
        maximum=MAX_INT,
    ),
    Property(
        "controller.takeover",
        PropertyKind.TEXT,
        "never",
        "Whether control is taken from a Kafka controller that holds it: `never`, `once` (per process) or `always` "
        "(at growing intervals). Never from a Lethe or KRaft controller.",
    ),
    Property(
        "controller.takeover.grace.ms",
        PropertyKind.INTEGER,
        "5000",
        "Grace period before the former Kafka controller's writes are refused. One that is refused in the middle of "
        "a change never leads properly again.",
        unit="milliseconds",
        minimum=0,
        maximum=MAX_INT,
    ),
    Property(
        "controller.takeover.interval.ms",
        PropertyKind.INTEGER,
        "60000",
        "With `always`: the interval between two takeovers; doubles each time.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "controller.takeover.interval.max.ms",
        PropertyKind.INTEGER,
        "3600000",
        "The longest such interval. Twice as long without a takeover resets it.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "lethe.tombstone.timeout.ms",
        PropertyKind.INTEGER,
        "300000",
        "How long a topic whose replicas are all deleted waits for registered brokers to confirm that their "
        "metadata caches have dropped it. Then its znodes go, and these brokers owe the confirmation: they get the "
        "order before anything else, and hear of no new topic of that name before. 0: no limit. Replicas are waited "
        "for without limit.",
        unit="milliseconds",
        minimum=0,
        maximum=MAX_INT,
    ),
    Property(
        "lethe.deletion.offline.replicas",
        PropertyKind.TEXT,
        "wait",
        "What the deletion of a topic does about replicas on brokers that are not registered. wait: it waits for these "
        "brokers, as Kafka's does. owe: it ends without them, and each of them deletes its replicas when it returns.",
        choices=tuple(each.value for each in OfflineReplicas),
    ),
    Property(
        "lethe.stop.grace.ms",
        PropertyKind.INTEGER,
        "5000",
        "How long a stopping active controller waits for such confirmations; it begins no deletion meanwhile. The "
        "log names what is still owed then, which no later controller can tell. 0: no wait.",
        unit="milliseconds",
        minimum=0,
        maximum=MAX_INT,
    ),
    Property(
        "lethe.invariants.check",
        PropertyKind.BOOLEAN,
        "false",
        "Whether the controller checks the invariants of its memory after its steps. A violation is logged as a "
        "fault; the controller resigns and loads everything anew. Checks take at most a twentieth of its time.",
    ),
    Property(
        "request.timeout.ms",
        PropertyKind.INTEGER,
        "30000",
        "How long a broker's request may wait for its answer; then it gets REQUEST_TIMED_OUT, and asks again.",
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

CONTROLLER_SCHEMA: Final = schema(
    COMMON, CONTROLLER, SIZES, NEW_TOPICS, TOPIC_DEFAULTS, CLIENT_CHANGES, BETWEEN_BROKERS, INBOUND
)


@dataclass(frozen=True, slots=True)
class ControllerConfig(DaemonConfig):
    controller_id: BrokerId
    delete_topic_enable: bool
    protected_topics: tuple[str, ...]
    pace: PaceLimits
    grace: tuple[GraceRule, ...]
    trash_free_percent: int
    new_topics: NewTopics
    mutation_quota_window_s: int
    topic_policy: TopicPolicy
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
    offline_replicas: OfflineReplicas
    stop_grace_ms: int
    invariants_check: bool
    request_timeout_ms: int
    controller_socket_timeout_ms: int
    relay_connect_timeout_ms: int
    max_broker_request_bytes: int
    partitions_per_slice: int
    operations_per_group: int


def load_controller_config(path: Path | None, environ: Mapping[str, str]) -> ControllerConfig:
    """Read file and environment. Raises ConfigError with all problems."""
    values = read_values(path, environ, CONTROLLER_SCHEMA)
    warn_of_exposed_properties(values, path)
    check_inter_broker_listener(values)
    check_java_policies(values, JAVA_POLICIES)
    listeners, advertised = _listeners(values)
    config = ControllerConfig(
        controller_id=BrokerId(read_id(values)),
        zookeeper=read_zookeeper(values),
        http=read_http(values),
        journal=read_journal(values),
        journal_topic=read_journal_topic(values),
        delete_topic_enable=values.boolean("delete.topic.enable"),
        protected_topics=read_patterns(values, PROTECTED_TOPICS),
        pace=PaceLimits(read_rate(values, TOPICS_PER_SECOND), read_rate(values, BYTES_PER_SECOND)),
        grace=read_grace(values),
        trash_free_percent=values.integer(FREE_PERCENT),
        new_topics=read_new_topics(values),
        mutation_quota_window_s=read_quota_window_s(values),
        topic_policy=read_policy(values),
        inter_broker_protocol=read_inter_broker_protocol(values),
        inter_broker_listener=read_inter_broker_listener(values),
        reach=read_reach_between_brokers(values),
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
        offline_replicas=OfflineReplicas(values.text("lethe.deletion.offline.replicas") or OfflineReplicas.WAIT),
        stop_grace_ms=values.integer("lethe.stop.grace.ms"),
        invariants_check=values.boolean("lethe.invariants.check"),
        request_timeout_ms=values.integer("request.timeout.ms"),
        controller_socket_timeout_ms=values.integer("controller.socket.timeout.ms"),
        limits=read_limits(values),
        inbound=read_inbound(values, listeners),
        relay_connect_timeout_ms=values.integer("lethe.relay.connect.timeout.ms"),
        max_broker_request_bytes=min(values.integer(REQUEST_MAX_BYTES), values.integer("socket.request.max.bytes")),
        partitions_per_slice=values.integer(PARTITIONS_PER_SLICE),
        operations_per_group=values.integer(OPERATIONS_PER_GROUP),
        warnings=tuple(values.warnings),
    )
    values.finish()
    return config


def _takeover(values: Values) -> Takeover:
    """Return `controller.takeover`; if it is invalid, note that and return NEVER."""
    try:
        return Takeover((values.text("controller.takeover") or "").lower())
    except ValueError:
        values.wrong("controller.takeover", "is none of never, once and always", "write one of these three")
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
    wanted = (values.text("control.plane.listener.name") or read_inter_broker_listener(values)).upper()
    names = [endpoint.listener for endpoint in listeners]
    if listeners and wanted not in names:
        reason = f"brokers look for the controller under {wanted}, which is not among {', '.join(names)}"
        values.wrong("listeners", reason, f"name a listener {wanted}")
    return listeners, read_advertised(values, protocols, listeners)
