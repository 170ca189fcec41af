"""Declares every metric of the controller, once, for the collector and for the page in `docs/`.

Gauges of Kafka's controller have the names that the usual configuration of the Prometheus JMX exporter gives them. So
dashboards and alerts made for Kafka work. The name is domain, type, name and attribute in lower case, joined with
`_`; key properties are labels. Metrics that Kafka lacks begin with `lethe_` and use base units.

    kafka.controller:type=KafkaController,name=OfflinePartitionsCount
    kafka_controller_kafkacontroller_offlinepartitionscount
"""

from __future__ import annotations

from typing import Final

from lethe.adapters import security_metrics
from lethe.adapters.metric_types import JOURNAL_FILES, JOURNAL_TOPIC, Metric, MetricKind
from lethe.controller.core.controller_state import ControllerState
from lethe.controller.runtime import broker_metrics as brokers
from lethe.controller.runtime import deletion_metrics as deletions


def _controller_gauge(name: str, meaning: str) -> Metric:
    return Metric(
        f"kafka_controller_kafkacontroller_{name.lower()}",
        MetricKind.GAUGE,
        meaning,
        mbean=f"kafka.controller:type=KafkaController,name={name}",
    )


CONTROLLER_GAUGES: Final = {
    "active_controller_count": _controller_gauge(
        "ActiveControllerCount", "1 where this controller is elected: it loads, or is active"
    ),
    "offline_partitions_count": _controller_gauge(
        "OfflinePartitionsCount", "Partitions without a leader, less those of topics whose deletion has started"
    ),
    "preferred_replica_imbalance_count": _controller_gauge(
        "PreferredReplicaImbalanceCount", "Partitions not led by their preferred replica, less those of queued topics"
    ),
    "controller_state": _controller_gauge(
        "ControllerState", "What the event in progress is about, as a number; 0: idle"
    ),
    "global_topic_count": _controller_gauge("GlobalTopicCount", "Topics"),
    "global_partition_count": _controller_gauge("GlobalPartitionCount", "Partitions with leadership"),
    "topics_to_delete_count": _controller_gauge("TopicsToDeleteCount", "Topics queued for deletion"),
    "replicas_to_delete_count": _controller_gauge(
        "ReplicasToDeleteCount", "Replicas of queued topics that have not been deleted yet"
    ),
    "topics_ineligible_to_delete_count": _controller_gauge(
        "TopicsIneligibleToDeleteCount", "Queued topics that wait for something before they are tried again"
    ),
    "replicas_ineligible_to_delete_count": _controller_gauge(
        "ReplicasIneligibleToDeleteCount",
        "Replicas of queued topics that could not be deleted while others of their topic were asked; afterwards they "
        "are Offline until the next try, and their topic is counted",
    ),
    "active_broker_count": _controller_gauge("ActiveBrokerCount", "Registered brokers, those shutting down included"),
    "fenced_broker_count": _controller_gauge("FencedBrokerCount", "Always 0 with ZooKeeper"),
    "quarantined_topic_count": Metric(
        "lethe_controller_set_aside_topics",
        MetricKind.GAUGE,
        "Topics whose znode cannot be understood; they are left alone. /state names them",
    ),
    "quarantined_broker_count": Metric(
        "lethe_controller_set_aside_brokers",
        MetricKind.GAUGE,
        "Brokers whose registration cannot be understood; they count as away. /state names them",
    ),
    "held_topic_count": Metric(
        "lethe_controller_held_topics",
        MetricKind.GAUGE,
        "Topics that are marked for deletion and held back; not yet queued",
    ),
    "paced_topic_count": Metric(
        "lethe_controller_paced_topics",
        MetricKind.GAUGE,
        "Held topics that wait for their turn, because deletions are paced (lethe.deletion.topics.per.second, "
        "lethe.deletion.bytes.per.second)",
    ),
    "ghost_count": Metric(
        "lethe_controller_ghosts",
        MetricKind.GAUGE,
        "Topics that a broker's metadata cache has and ZooKeeper has not, added up over the brokers. /state names them",
    ),
    "unseen_cache_count": Metric(
        "lethe_controller_caches_unseen",
        MetricKind.GAUGE,
        "Registered brokers whose metadata cache has not been compared with ZooKeeper yet, or could not be seen whole",
    ),
    "deletions_paused": Metric(
        "lethe_controller_deletions_paused",
        MetricKind.GAUGE,
        "1 while deletions are paused: by /lethe/deletions_paused, or by the controller itself while the brokers' "
        "configuration does not say whether topics may be deleted. `lethe explain --all` says which",
    ),
}
"""Field of `controller.core.gauges.Gauges` to its metric; all are 0 while this controller is not active."""

CURRENT_CONTROLLER: Final = Metric(
    "kafka_server_metadataloader_currentcontrollerid",
    MetricKind.GAUGE,
    "Id of the active controller as this one sees it; -1: none",
    mbean="kafka.server:type=MetadataLoader,name=CurrentControllerId",
)
EPOCH: Final = Metric("lethe_controller_epoch", MetricKind.GAUGE, "Controller epoch of the present term; 0: none")
ROLE: Final = Metric(
    "lethe_controller_role",
    MetricKind.GAUGE,
    "1 for the role that this controller has now, 0 for the others",
    ("role",),
)
LEADERS_ELECTED: Final = Metric(
    "lethe_controller_leader_elections_total",
    MetricKind.COUNTER,
    "Leaders elected for partitions since this process started",
)
UNCLEAN: Final = Metric(
    "lethe_controller_unclean_elections_total",
    MetricKind.COUNTER,
    "Leaders elected from outside the ISR since this process started: what they had not been sent is lost",
)
TERM: Final = Metric(
    "lethe_controller_tenure_seconds",
    MetricKind.GAUGE,
    "Time since this controller was elected; 0: it is not",
)
TERMS: Final = Metric(
    "lethe_controller_tenures_total",
    MetricKind.COUNTER,
    "Times that this process was elected; more than some in an hour: see the log",
)
TERMS_ENDED: Final = Metric(
    "lethe_controller_tenures_ended_total", MetricKind.COUNTER, "Times that this process gave control up or lost it"
)
TAKEOVER: Final = Metric(
    "lethe_controller_takeover_seconds",
    MetricKind.HISTOGRAM,
    "Time from the election until the controller is active; events wait meanwhile",
)
GHOSTS_CURED: Final = Metric(
    "lethe_controller_ghosts_cured_total",
    MetricKind.COUNTER,
    "Topics that a broker's metadata cache had and ZooKeeper had not, and that the cache has lost since",
)

POWERLESS: Final = Metric(
    "lethe_controller_powerless_seconds",
    MetricKind.GAUGE,
    "How long no registered broker has obeyed this active controller; 0: one does, none is there, or it is not active",
)
BROKER_REFUSES: Final = Metric(
    "lethe_controller_broker_refuses",
    MetricKind.GAUGE,
    "1 for each registered broker that does not obey this active controller; the reasons are the causes that "
    "`lethe explain` names",
    ("broker_id", "reason"),
)

TERMS_SHOWN: Final = (
    POWERLESS,
    BROKER_REFUSES,
    TERM,
    TERMS,
    TERMS_ENDED,
    TAKEOVER,
    LEADERS_ELECTED,
    UNCLEAN,
    GHOSTS_CURED,
)

# --- events -------------------------------------------------------------------------------------------------------

QUEUE_SIZE: Final = Metric(
    "kafka_controller_controllereventmanager_eventqueuesize",
    MetricKind.GAUGE,
    "Events that wait",
    mbean="kafka.controller:type=ControllerEventManager,name=EventQueueSize",
)
QUEUE_TIME: Final = Metric(
    "kafka_controller_controllereventmanager_eventqueuetimems",
    MetricKind.SUMMARY,
    "Milliseconds that events waited; cleared when none came for five minutes",
    mbean="kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs",
)

_STATE_TIMERS: Final = {
    ControllerState.CONTROLLER_CHANGE: "ControllerChangeRateAndTimeMs",
    ControllerState.BROKER_CHANGE: "LeaderElectionRateAndTimeMs",
    ControllerState.TOPIC_CHANGE: "TopicChangeRateAndTimeMs",
    ControllerState.TOPIC_DELETION: "TopicDeletionRateAndTimeMs",
    ControllerState.AUTO_LEADER_BALANCE: "AutoLeaderBalanceRateAndTimeMs",
    ControllerState.MANUAL_LEADER_BALANCE: "ManualLeaderBalanceRateAndTimeMs",
    ControllerState.CONTROLLED_SHUTDOWN: "ControlledShutdownRateAndTimeMs",
    ControllerState.ISR_CHANGE: "IsrChangeRateAndTimeMs",
    ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED: "LeaderAndIsrResponseReceivedRateAndTimeMs",
    ControllerState.LOG_DIR_CHANGE: "LogDirChangeRateAndTimeMs",
    ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE: "UncleanLeaderElectionEnableRateAndTimeMs",
    ControllerState.CONTROLLER_SHUTDOWN: "ControllerShutdownRateAndTimeMs",
}
"""Kafka's timer per state; idle and UpdateMetadata answers have none."""

STATE_TIMERS: Final = {
    state: Metric(
        f"kafka_controller_controllerstats_{name.lower()}",
        MetricKind.SUMMARY,
        f"Milliseconds taken by events of state {state.name}, faults included",
        mbean=f"kafka.controller:type=ControllerStats,name={name}",
    )
    for state, name in _STATE_TIMERS.items()
}
EVENT_QUEUED: Final = Metric(
    "lethe_controller_event_queued_seconds", MetricKind.HISTOGRAM, "Time that events waited in the queue", ("event",)
)
EVENT_HANDLED: Final = Metric(
    "lethe_controller_event_handled_seconds",
    MetricKind.HISTOGRAM,
    "Time from taking an event to the end of its course, ZooKeeper's answers included",
    ("event",),
)
EVENTS_WAITING: Final = Metric(
    "lethe_controller_events_waiting", MetricKind.GAUGE, "Events that wait, by kind", ("event",)
)
OLDEST_EVENT: Final = Metric(
    "lethe_controller_event_queue_oldest_seconds",
    MetricKind.GAUGE,
    "How long the oldest event has waited; while it grows the cluster gets no answers from its controller",
)
IN_PROGRESS: Final = Metric(
    "lethe_controller_event_in_progress_seconds",
    MetricKind.GAUGE,
    "How long the event in progress has taken so far; 0: none is",
)
FAULTS: Final = Metric(
    "lethe_controller_faults_total",
    MetricKind.COUNTER,
    "Events that ended in an exception, after which we resigned; each one is a bug to report, with the log",
    ("event",),
)

QUEUE_SHOWN: Final = (EVENTS_WAITING, OLDEST_EVENT, IN_PROGRESS, FAULTS)

# --- ZooKeeper ----------------------------------------------------------------------------------------------------

ZOOKEEPER_CONNECTED: Final = Metric(
    "lethe_zookeeper_session_up", MetricKind.GAUGE, "1 while there is a ZooKeeper session"
)
ZOOKEEPER_CONNECTS: Final = Metric(
    "kafka_server_sessionexpirelistener_zookeepersyncconnectspersec_count",
    MetricKind.COUNTER,
    "Sessions opened",
    mbean="kafka.server:type=SessionExpireListener,name=ZooKeeperSyncConnectsPerSec",
)
ZOOKEEPER_EXPIRES: Final = Metric(
    "kafka_server_sessionexpirelistener_zookeeperexpirespersec_count",
    MetricKind.COUNTER,
    "Sessions lost or given up",
    mbean="kafka.server:type=SessionExpireListener,name=ZooKeeperExpiresPerSec",
)
ZOOKEEPER_FAILED: Final = Metric(
    "lethe_zookeeper_failed_attempts_total", MetricKind.COUNTER, "Attempts to open a session that failed"
)
ZOOKEEPER_WRITE_WINDOW: Final = Metric(
    "lethe_zookeeper_write_window",
    MetricKind.GAUGE,
    "Multis of all plans together that may be unanswered: 20, less after answers slower than "
    "lethe.zookeeper.slow.write.ms until enough are quick; without writes it stays. 0 without a session",
)
ZOOKEEPER_LATENCY_MS: Final = Metric(
    "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms",
    MetricKind.SUMMARY,
    "Milliseconds from asking ZooKeeper to the last answer, for each read or write of the core, however many requests",
    mbean="kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs",
)
ZOOKEEPER_LATENCY: Final = Metric(
    "lethe_zookeeper_operation_seconds",
    MetricKind.HISTOGRAM,
    "The same in seconds, by operation; `reads` and `writes` are several kinds at once",
    ("operation",),
)
ZOOKEEPER_OPERATIONS: Final = Metric(
    "lethe_zookeeper_operations_total",
    MetricKind.COUNTER,
    "Znodes read, watched, written and checked, by kind",
    ("operation",),
)

_REMARK: Final = (
    "Kafka's gauges here are 0 where this controller is not elected, but for the active controller's id. In the role "
    "`loading` they lack what is not read yet."
)
GROUPS: Final[tuple[tuple[str, str, tuple[Metric, ...]], ...]] = (
    (
        "The controller",
        _REMARK,
        (*CONTROLLER_GAUGES.values(), CURRENT_CONTROLLER, EPOCH, ROLE, *TERMS_SHOWN),
    ),
    (
        "Events",
        "`event` is the name of the event as the code has it, such as `BrokersChanged`.",
        (QUEUE_SIZE, QUEUE_TIME, *STATE_TIMERS.values(), EVENT_QUEUED, EVENT_HANDLED, *QUEUE_SHOWN),
    ),
    ("Deletion", deletions.REMARK, deletions.METRICS),
    (
        "ZooKeeper",
        "",
        (
            ZOOKEEPER_CONNECTED,
            ZOOKEEPER_CONNECTS,
            ZOOKEEPER_EXPIRES,
            ZOOKEEPER_FAILED,
            ZOOKEEPER_WRITE_WINDOW,
            ZOOKEEPER_LATENCY_MS,
            ZOOKEEPER_LATENCY,
            ZOOKEEPER_OPERATIONS,
        ),
    ),
    *brokers.GROUPS,
    ("Certificates and refusals", security_metrics.REMARK, security_metrics.METRICS),
    ("Journal", "", (*JOURNAL_FILES, *JOURNAL_TOPIC)),
)
