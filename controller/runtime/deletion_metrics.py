"""Metrics of deletions.

Their values are counted where they change, so a scrape takes the same time for any number of topics. Only `OLDEST_INFO`
has a topic as a label; it has at most one series.
"""

from __future__ import annotations

from typing import Final

from lethe.adapters.metric_types import Metric, MetricKind

REMARK: Final = (
    "Gauges are 0 where this controller is not the active one. Phases follow one another for each topic: queued, "
    "started, tombstoned (no metadata cache shows it), acknowledged (every replica is deleted), removed (its znodes "
    "are gone), done; `done` is the time from queued to the end."
)

TOPICS: Final = Metric(
    "lethe_controller_deletion_topics",
    MetricKind.GAUGE,
    "Topics marked for deletion, by stage: held (not begun, nothing deleted), queued, deleting, waiting (for a "
    "broker, a directory or the next try), removing (replicas are gone; tombstones are answered, then znodes go). "
    "`lethe explain` says what waiting ones need",
    ("stage",),
)
REPLICAS: Final = Metric(
    "lethe_controller_deletion_replicas",
    MetricKind.GAUGE,
    "Replicas of queued topics, by state; deletion_ineligible: could not be deleted while others of the topic were "
    "asked; offline: waits for the next try, or for what has to come first",
    ("state",),
)
OLDEST_AGE: Final = Metric(
    "lethe_controller_oldest_deletion_seconds",
    MetricKind.GAUGE,
    "How long the oldest marked topic has waited since its marker was made in ZooKeeper; 0: none waits",
)
OLDEST_INFO: Final = Metric(
    "lethe_controller_oldest_deletion_info",
    MetricKind.GAUGE,
    "1 for that topic: what it waits for, and for which broker; never more than one series",
    ("topic", "reason", "broker_id"),
)
PHASES: Final = Metric(
    "lethe_controller_deletion_phase_seconds",
    MetricKind.HISTOGRAM,
    "Time that a topic's deletion took to reach the phase from the one before",
    ("phase",),
)
RETRIES: Final = Metric(
    "lethe_controller_deletion_retries_total",
    MetricKind.COUNTER,
    "What failed and is repeated: the deletion of a replica, a tombstone, the removal of znodes; by error. UNPROVEN: a "
    "broker's yes without proof that it can reach the replica",
    ("part", "reason"),
)
OWED: Final = Metric(
    "lethe_controller_owed_tombstones",
    MetricKind.GAUGE,
    "Deleted topics that this registered broker has not confirmed for its metadata cache: it may still tell clients of "
    "them; no series where it owes nothing",
    ("broker_id",),
)
DEBTS: Final = Metric(
    "lethe_controller_debts",
    MetricKind.GAUGE,
    "Deleted topics of which this broker still has replicas, which it deletes when it returns; no series where no debt "
    "of it is known (it may owe something all the same while lethe_controller_debts_unreadable is above 0)",
    ("broker_id",),
)
DEBT_BYTES: Final = Metric(
    "lethe_controller_debt_bytes",
    MetricKind.GAUGE,
    "Bytes of these replicas, as far as they are known; no series where no size is known",
    ("broker_id",),
)
OLDEST_DEBT: Final = Metric(
    "lethe_controller_oldest_debt_timestamp_seconds",
    MetricKind.GAUGE,
    "When the oldest debt of this broker began, in seconds since 1970",
    ("broker_id",),
)
UNREADABLE_DEBTS: Final = Metric(
    "lethe_controller_debts_unreadable",
    MetricKind.GAUGE,
    "Znodes of debts that cannot be read or understood; /lethe/debts, or all of one broker, counts as one. Nothing is "
    "paid there, and no other metric counts them. /state names them",
)
DEBTS_CLOSED: Final = Metric(
    "lethe_controller_debts_closed_total",
    MetricKind.COUNTER,
    "Debts that were closed: paid, void (the broker had nothing of that topic) or written off (it was forgotten)",
    ("how",),
)
TRASH: Final = Metric(
    "lethe_controller_trash_topics",
    MetricKind.GAUGE,
    "Deleted topics that can be brought back (trashed), are on their way into the trash (freezing), or are back while "
    "settings (restoring) or offsets are still to be restored. Entries that cannot be read are not among them: "
    "lethe_controller_trash_unreadable and lethe_controller_trash_unseen tell of those",
    ("phase",),
)
UNREADABLE_TRASH: Final = Metric(
    "lethe_controller_trash_unreadable",
    MetricKind.GAUGE,
    "Entries of the trash that cannot be read or understood: they stay, and so do the reservations of their names; no "
    "other metric counts them. /state names them",
)
TRASH_IS_UNSEEN: Final = Metric(
    "lethe_controller_trash_unseen",
    MetricKind.GAUGE,
    "1 where /lethe/trash could not be listed, so that it is unknown which topics are in the trash",
)
TRASH_BYTES: Final = Metric(
    "lethe_controller_trash_bytes", MetricKind.GAUGE, "Bytes of the replicas in the trash, as far as they are known"
)
TRASH_DUE: Final = Metric(
    "lethe_controller_trash_oldest_due_timestamp_seconds",
    MetricKind.GAUGE,
    "When the first topic in the trash is deleted for good, in seconds since 1970; 0: none",
)
TRASH_FULL_DISKS: Final = Metric(
    "lethe_controller_trash_full_disks",
    MetricKind.GAUGE,
    "Log directories with topics in the trash that have less free than lethe.trash.free.percent",
)
TRASH_UNSEEN: Final = Metric(
    "lethe_controller_trash_unseen_brokers",
    MetricKind.GAUGE,
    "Brokers with replicas in the trash that do not tell how full their disks are: the trash does not give way to them",
)
TRASH_ENDED: Final = Metric(
    "lethe_controller_trash_left_total",
    MetricKind.COUNTER,
    "Topics that left the trash: back, expired, or purged; gave_way: those of the purged that a full disk has purged",
    ("how",),
)
REFUSED: Final = Metric(
    "lethe_controller_refused_deletions_total",
    MetricKind.COUNTER,
    "Deletion markers that the controller has removed without deleting a topic: PROTECTED, DISABLED "
    "(delete.topic.enable is false), OTHER_INCARNATION (a plan's marker on a later topic of the name) or NO_TOPIC",
    ("reason",),
)
RECORDS: Final = Metric(
    "lethe_controller_facts_total",
    MetricKind.COUNTER,
    "Event records, by type; what the journal is written from",
    ("type",),
)

METRICS: Final = (
    TOPICS,
    REPLICAS,
    OLDEST_AGE,
    OLDEST_INFO,
    PHASES,
    RETRIES,
    OWED,
    DEBTS,
    DEBT_BYTES,
    OLDEST_DEBT,
    UNREADABLE_DEBTS,
    DEBTS_CLOSED,
    TRASH,
    UNREADABLE_TRASH,
    TRASH_IS_UNSEEN,
    TRASH_BYTES,
    TRASH_DUE,
    TRASH_FULL_DISKS,
    TRASH_UNSEEN,
    TRASH_ENDED,
    REFUSED,
    RECORDS,
)
