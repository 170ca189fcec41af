"""The dashboards of deploy/grafana: what each asks, and why somebody looks at it. `make docs` writes the JSON."""

from __future__ import annotations

from typing import Final

from tools.dashboard import Dashboard, Kind, Panel, Query, Row, text
from tools.dashboard_queries import AND, CHANNEL_RETRIES, RATE, C, mean, quantile
from tools.dashboards_below import BROKERS, ZOOKEEPER
from tools.dashboards_leftovers import LEFTOVERS

OLDEST: Final = Panel(
    "Oldest deletion",
    Kind.TABLE,
    "none",
    (Query(f"lethe_controller_oldest_deletion_info{C}"),),
    "The marked topic that has waited longest, and for what. `lethe explain TOPIC` says more.",
    width=12,
    height=4,
)
OLDEST_AGE: Final = Panel(
    "Oldest waits for",
    Kind.STAT,
    "s",
    (Query(f"max(lethe_controller_oldest_deletion_seconds{C})"),),
    "Red after a quarter of an hour, as the alert LetheDeletionStuck.",
    width=4,
    height=4,
    red_at=900,
)
STAGES: Final = Panel(
    "Marked topics by stage",
    Kind.STACK,
    "short",
    (Query(f"sum by (stage) (lethe_controller_deletion_topics{C})", "{{stage}}"),),
    "held: not begun; waiting: for a broker, a directory or the next try; removing: the replicas are gone.",
)
RETRIES: Final = Panel(
    "Retries by reason",
    Kind.LINES,
    "ops",
    (Query(f"sum by (part, reason) (rate(lethe_controller_deletion_retries_total{C}{RATE}))", "{{part}}: {{reason}}"),),
    "Failed and repeated: the deletion of a replica, a tombstone, the removal of znodes.",
)
OVERVIEW: Final = Dashboard(
    "lethe-overview",
    "Lethe: overview",
    "Is there a controller, does it keep up, do deletions end, and does the disk get free?",
    (
        Panel(
            "Active controller",
            Kind.STAT,
            "none",
            (Query(f"max(kafka_server_metadataloader_currentcontrollerid{C})"),),
            "Its id; none: nobody leads.",
            width=4,
            height=4,
            mappings=(("-1", "none"),),
        ),
        Panel(
            "Controllers that say they lead",
            Kind.STAT,
            "none",
            (Query(f"sum(kafka_controller_kafkacontroller_activecontrollercount{C})"),),
            "1, and nothing else.",
            width=4,
            height=4,
            red_at=2,
        ),
        Panel(
            "Brokers",
            Kind.STAT,
            "none",
            (Query(f"max(kafka_controller_kafkacontroller_activebrokercount{C})"),),
            "Registered, those that shut down included.",
            width=4,
            height=4,
        ),
        Panel(
            "Partitions without a leader",
            Kind.STAT,
            "none",
            (Query(f"max(kafka_controller_kafkacontroller_offlinepartitionscount{C})"),),
            "Those of topics whose deletion has begun do not count.",
            width=4,
            height=4,
            red_at=1,
        ),
        Panel(
            "Deletions paused",
            Kind.STAT,
            "none",
            (Query(f"max(lethe_controller_deletions_paused{C})"),),
            "`lethe explain --all` says by whom and why.",
            width=4,
            height=4,
            red_at=1,
            mappings=(("0", "no"), ("1", "paused")),
        ),
        OLDEST_AGE,
        Row("Deletions"),
        STAGES,
        OLDEST,
        Panel(
            "Topics deleted",
            Kind.LINES,
            "ops",
            (
                Query(
                    f'sum(rate(lethe_controller_deletion_phase_seconds_count{{{AND},phase="done"}}{RATE}))',
                    "topics per s",
                ),
            ),
            "Gone from ZooKeeper, from every metadata cache, and renamed on every disk.",
            height=4,
        ),
        Panel(
            "Bytes that are not free yet",
            Kind.STACK,
            "bytes",
            (Query(f"sum by (instance) (lethe_agent_pending_removal_bytes{C})", "{{instance}}"),),
            "Deleted topics' bytes that wait for their paced removal, by agent.",
        ),
        Panel(
            "Bytes freed",
            Kind.STACK,
            "Bps",
            (Query(f"sum by (instance) (rate(lethe_agent_freed_bytes_total{C}{RATE}))", "{{instance}}"),),
            "What agents remove from disk.",
        ),
        Row("Controller"),
        Panel(
            "Events that wait",
            Kind.LINES,
            "short",
            (Query(f"sum by (event) (lethe_controller_events_waiting{C})", "{{event}}"),),
            "By kind. One is handled at a time.",
        ),
        Panel(
            "Oldest event, and the one in progress",
            Kind.LINES,
            "s",
            (
                Query(f"max(lethe_controller_event_queue_oldest_seconds{C})", "oldest that waits"),
                Query(f"max(lethe_controller_event_in_progress_seconds{C})", "in progress"),
            ),
            "What brokers and people ask for is not done before.",
        ),
        Panel(
            "Time by event",
            Kind.LINES,
            "s",
            (Query(mean("event", "lethe_controller_event_handled_seconds"), "{{event}}"),),
            "Mean, ZooKeeper's answers included.",
        ),
        Panel(
            "Controller epoch",
            Kind.LINES,
            "none",
            (Query(f"max by (instance) (lethe_controller_epoch{C}) > 0", "{{instance}}"),),
            "Each step is a change of hands.",
        ),
        Panel(
            "Leaders elected",
            Kind.LINES,
            "ops",
            (
                Query(f"sum(rate(lethe_controller_leader_elections_total{C}{RATE}))", "all"),
                Query(f"sum(rate(lethe_controller_unclean_elections_total{C}{RATE}))", "from outside the ISR"),
            ),
            "Of partitions.",
        ),
        Panel(
            "Alerts",
            Kind.TABLE,
            "none",
            (Query('ALERTS{alertname=~"Lethe.*",alertstate=~"firing|pending"}'),),
            "docs/runbook.md has an entry for each.",
        ),
    ),
)

DELETION: Final = Dashboard(
    "lethe-deletion",
    "Lethe: one deletion",
    "What the oldest deletion waits for, and where deletions spend their time: from the mark to free disks.",
    (
        OLDEST,
        OLDEST_AGE,
        Panel(
            "Topics that wait",
            Kind.STAT,
            "none",
            (Query(f'sum(lethe_controller_deletion_topics{{{AND},stage="waiting"}})'),),
            "For a broker, a directory or the next try.",
            width=4,
            height=4,
        ),
        Panel(
            "Replicas still to delete",
            Kind.STAT,
            "none",
            (Query(f"max(kafka_controller_kafkacontroller_replicastodeletecount{C})"),),
            "Of all queued topics.",
            width=4,
            height=4,
        ),
        STAGES,
        Panel(
            "Replicas of queued topics by state",
            Kind.STACK,
            "short",
            (Query(f"sum by (state) (lethe_controller_deletion_replicas{C})", "{{state}}"),),
            "Over deletion_started to deletion_successful; offline: it waits for its broker, or the next try.",
        ),
        Row("Where the time goes"),
        Panel(
            "Phases, the median",
            Kind.BARS,
            "s",
            (
                Query(
                    quantile(0.5, "phase", "lethe_controller_deletion_phase_seconds").replace(RATE, "[$__range]"),
                    "{{phase}}",
                ),
            ),
            "Time to reach the phase from the one before; done: all of it.",
        ),
        Panel(
            "Phases, 95 of 100",
            Kind.BARS,
            "s",
            (
                Query(
                    quantile(0.95, "phase", "lethe_controller_deletion_phase_seconds").replace(RATE, "[$__range]"),
                    "{{phase}}",
                ),
            ),
            "The slow ones.",
        ),
        Panel(
            "Phases reached",
            Kind.LINES,
            "ops",
            (Query(f"sum by (phase) (rate(lethe_controller_deletion_phase_seconds_count{C}{RATE}))", "{{phase}}"),),
            "Topics per second, by phase: where one line stays below the one before, topics pile up.",
        ),
        Panel(
            "Brokers' answers to StopReplica",
            Kind.LINES,
            "s",
            (
                Query(
                    mean("broker_id", "lethe_broker_request_seconds", f'{{{AND},api="STOP_REPLICA"}}'),
                    "broker {{broker_id}}",
                ),
            ),
            "Mean time from sending to the answer.",
        ),
        Row("What goes wrong"),
        RETRIES,
        CHANNEL_RETRIES,
        Panel(
            "Partitions answered by agents, by error",
            Kind.LINES,
            "ops",
            (Query(f"sum by (api, error) (rate(lethe_agent_answers_total{C}{RATE}))", "{{api}}: {{error}}"),),
            "NONE is well.",
        ),
        Panel(
            "Directories whose removal fails",
            Kind.LINES,
            "short",
            (Query(f"sum by (instance) (lethe_agent_failed_removals{C})", "{{instance}}"),),
            "It is repeated; /state of the agent names them.",
        ),
    ),
)

DASHBOARDS: Final = (OVERVIEW, DELETION, BROKERS, ZOOKEEPER, LEFTOVERS)


def overview() -> str:
    """deploy/grafana/dashboards/overview.json."""
    return text(OVERVIEW, DASHBOARDS)


def deletion() -> str:
    """deploy/grafana/dashboards/deletion.json."""
    return text(DELETION, DASHBOARDS)


def brokers() -> str:
    """deploy/grafana/dashboards/brokers.json."""
    return text(BROKERS, DASHBOARDS)


def zookeeper() -> str:
    """deploy/grafana/dashboards/zookeeper.json."""
    return text(ZOOKEEPER, DASHBOARDS)


def leftovers() -> str:
    """deploy/grafana/dashboards/leftovers.json."""
    return text(LEFTOVERS, DASHBOARDS)
