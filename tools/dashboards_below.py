"""The dashboards of what the controller stands on: brokers and ZooKeeper."""

from __future__ import annotations

from typing import Final

from tools.dashboard import Dashboard, Kind, Panel, Query, Row, Variable
from tools.dashboard_queries import AND, CHANNEL_RETRIES, RATE, B, C, mean, quantile

BROKERS: Final = Dashboard(
    "lethe-brokers",
    "Lethe: brokers",
    "How the controller gets through to each broker, and what the agents have on their disks.",
    (
        Row("Channels of the controller"),
        Panel(
            "Not reached for",
            Kind.LINES,
            "s",
            (Query(f"max by (broker_id) (lethe_broker_channel_failing_seconds{B})", "broker {{broker_id}}"),),
            "0: the last attempt was answered.",
        ),
        Panel(
            "Oldest request",
            Kind.LINES,
            "s",
            (Query(f"max by (broker_id) (lethe_broker_channel_oldest_seconds{B})", "broker {{broker_id}}"),),
            "How long it has waited or been tried.",
        ),
        Panel(
            "Backlog",
            Kind.LINES,
            "bytes",
            (Query(f"sum by (broker_id) (lethe_broker_channel_backlog_bytes{B})", "broker {{broker_id}}"),),
            "Requests that wait, as they would be sent.",
        ),
        Panel(
            "Requests that wait",
            Kind.LINES,
            "short",
            (
                Query(
                    f"sum by (broker_id) (kafka_controller_controllerchannelmanager_queuesize{B})",
                    "broker {{broker_id}}",
                ),
            ),
            "As Kafka's QueueSize.",
        ),
        Panel(
            "Time to answer, 95 of 100",
            Kind.LINES,
            "s",
            (
                Query(
                    quantile(0.95, "broker_id, api", "lethe_broker_request_seconds", B), "broker {{broker_id}} {{api}}"
                ),
            ),
            "From sending to the answer, for the attempt that was answered.",
        ),
        CHANNEL_RETRIES,
        Row("Agents"),
        Panel(
            "Replicas by state",
            Kind.STACK,
            "short",
            (Query(f"sum by (instance, state) (lethe_agent_replicas{C})", "{{instance}} {{state}}"),),
            "loaded: found on disk, and no controller has spoken of it yet.",
        ),
        Panel(
            "Bytes hosted",
            Kind.STACK,
            "bytes",
            (Query(f"sum by (instance) (lethe_agent_hosted_bytes{C})", "{{instance}}"),),
            "Of replicas that are not offline.",
        ),
        Panel(
            "Kept for a person",
            Kind.LINES,
            "short",
            (
                Query(f"sum by (instance) (lethe_agent_set_aside_directories{C})", "{{instance}} set aside"),
                Query(f"sum by (instance) (lethe_agent_unknown_directories{C})", "{{instance}} unknown"),
                Query(f"sum by (instance) (lethe_agent_duplicate_directories{C})", "{{instance}} double"),
            ),
            "Directories that nobody removes by himself.",
        ),
        Panel(
            "Log directories offline",
            Kind.LINES,
            "short",
            (Query(f"sum by (instance) (kafka_log_logmanager_offlinelogdirectorycount{C})", "{{instance}}"),),
            "Repair the disk and restart the broker.",
        ),
        Panel(
            "Control requests",
            Kind.LINES,
            "ops",
            (Query(f"sum by (instance, api) (rate(lethe_agent_requests_total{C}{RATE}))", "{{instance}} {{api}}"),),
            "Carried out.",
        ),
        Panel(
            "Bytes of control requests",
            Kind.LINES,
            "Bps",
            (
                Query(
                    f"sum by (instance, api) (rate(lethe_agent_request_bytes_total{C}{RATE}))", "{{instance}} {{api}}"
                ),
            ),
            "What the controller sends.",
        ),
        Panel(
            "Partitions in the metadata cache",
            Kind.LINES,
            "short",
            (Query(f"sum by (instance) (lethe_agent_cached_partitions{C})", "{{instance}}"),),
            "The same everywhere: where one differs, a request is still on its way to it.",
        ),
        Panel(
            "Partitions that catch up",
            Kind.LINES,
            "short",
            (Query(f"sum by (instance, role) (lethe_agent_catching_up_partitions{C})", "{{instance}} as {{role}}"),),
            "They wait for the delay.",
        ),
    ),
    (Variable("broker_id", "broker", "kafka_controller_controllerchannelmanager_queuesize"),),
)

KAFKA_LATENCY: Final = "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms"

ZOOKEEPER: Final = Dashboard(
    "lethe-zookeeper",
    "Lethe: ZooKeeper",
    "What the controller asks of ZooKeeper and how long it waits for that; sessions of everybody.",
    (
        Panel(
            "Sessions",
            Kind.STAT,
            "none",
            (
                Query(f"sum(lethe_zookeeper_session_up{C})", "controllers"),
                Query(f"sum(lethe_agent_registered{C})", "agents"),
            ),
            "Processes that have one.",
            width=8,
            height=4,
        ),
        Panel(
            "Sessions lost",
            Kind.STAT,
            "none",
            (Query(f"sum(increase(kafka_server_sessionexpirelistener_zookeeperexpirespersec_count{C}[$__range]))"),),
            "By controllers, in the time shown.",
            width=8,
            height=4,
        ),
        Panel(
            "Attempts that failed",
            Kind.STAT,
            "none",
            (Query(f"sum(increase(lethe_zookeeper_failed_attempts_total{C}[$__range]))"),),
            "To open a session, in the time shown.",
            width=8,
            height=4,
        ),
        Panel(
            "Time by operation",
            Kind.LINES,
            "s",
            (Query(mean("operation", "lethe_zookeeper_operation_seconds"), "{{operation}}"),),
            "Mean from asking to the last answer of a read or write of the core, however many requests that is.",
        ),
        Panel(
            "Time, 50, 95 and 99 of 100",
            Kind.LINES,
            "s",
            (
                Query(quantile(0.5, "", "lethe_zookeeper_operation_seconds"), "50"),
                Query(quantile(0.95, "", "lethe_zookeeper_operation_seconds"), "95"),
                Query(quantile(0.99, "", "lethe_zookeeper_operation_seconds"), "99"),
            ),
            "All kinds together.",
        ),
        Panel(
            "Znodes read and written",
            Kind.STACK,
            "ops",
            (Query(f"sum by (operation) (rate(lethe_zookeeper_operations_total{C}{RATE}))", "{{operation}}"),),
            "Many to a request: a multi has hundreds.",
        ),
        Panel(
            "Share of time spent waiting for ZooKeeper",
            Kind.LINES,
            "percentunit",
            (Query(f"sum by (instance) (rate(lethe_zookeeper_operation_seconds_sum{C}{RATE}))", "{{instance}}"),),
            "Near 100 %: the controller is as slow as ZooKeeper.",
        ),
        Panel(
            "Latency as Kafka shows it",
            Kind.LINES,
            "ms",
            (
                Query(
                    f"max by (quantile) ({KAFKA_LATENCY}{{{AND},quantile=~'0.5|0.99'}})",
                    "{{quantile}}",
                ),
            ),
            "Of the latest 1,028 reads and writes.",
        ),
        Panel(
            "Event in progress",
            Kind.LINES,
            "s",
            (Query(f"max by (instance) (lethe_controller_event_in_progress_seconds{C})", "{{instance}}"),),
            "Grows while ZooKeeper does not answer.",
        ),
    ),
)
