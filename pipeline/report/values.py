"""The values of the page, as plain tuples. Instants are milliseconds since 1970 (UTC), sizes are bytes.

A row type's fields have the names of the table's columns; `pipeline.schemas` describes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Generic, NamedTuple, TypeVar

from lethe.pipeline.report.values_trends import Trends

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Rows(Generic[Row]):
    """The rows shown, and the number of all rows."""

    shown: tuple[Row, ...] = ()
    total: int = 0

    @classmethod
    def of(cls, rows: Iterable[Row], limit: int | None = None) -> Rows[Row]:
        """Return the first of all these rows, or all."""
        found = tuple(rows)
        return cls(found[:limit], len(found))


class Interval(NamedTuple):
    """One hold of a deletion, or its wait for one broker. `until` is None while it lasts."""

    why: str
    since: int | None
    until: int | None
    ms: int | None
    broker: int | None = None
    replicas: int | None = None


SpanKey = tuple[str, str | None, int | None]
"""Topic, topic id, number of the deletion."""


class BrokerReplicas(NamedTuple):
    """The replicas of one deletion on one broker."""

    broker: int | None
    replicas: int
    acked: int
    last_ack_at: int | None
    attempts: int
    """The most that one replica needed."""
    refused: int
    last_refusal: str | None


class DeletionSpan(NamedTuple):
    topic: str
    topic_id: str | None
    span: int | None
    partitions: int | None
    replicas: int | None
    marked_at: int | None
    queued_at: int | None
    started_at: int | None
    tombstoned_at: int | None
    first_ack_at: int | None
    last_ack_at: int | None
    acknowledged_at: int | None
    znodes_gone_at: int | None
    done_at: int | None
    let_go_at: int | None
    vanished_at: int | None
    bytes_gone_at: int | None
    outcome: str | None
    phase: str | None
    acked_replicas: int | None
    freed_directories: int | None
    freed_bytes: int | None
    held: tuple[Interval, ...]
    waited_for: tuple[Interval, ...]
    waited_ms: int | None
    controllers: tuple[int, ...]
    deleted_ms: int | None
    reclaimed_ms: int | None
    owed_by: tuple[int, ...]
    owed_replicas: int | None
    settled_at: int | None

    @property
    def key(self) -> SpanKey:
        return self.topic, self.topic_id, self.span


class DailySlo(NamedTuple):
    day: date
    deletions: int | None
    done: int | None
    let_go: int | None
    vanished: int | None
    open: int | None
    deleted_p50_ms: float | None
    deleted_p99_ms: float | None
    reclaimed_p50_ms: float | None
    reclaimed_p99_ms: float | None
    held_ms: int | None
    waited_ms: int | None


class StuckDeletion(NamedTuple):
    topic: str | None
    since: int | None
    waiting_ms: int | None
    phase: str | None
    reasons: tuple[str, ...] | None
    brokers: tuple[int, ...] | None
    seen_in: str | None
    remedy: str | None


class SlowBroker(NamedTuple):
    day: date
    broker: int | None
    replicas: int | None
    acked: int | None
    refused: int | None
    ack_p50_ms: float | None
    ack_p99_ms: float | None
    ack_max_ms: int | None
    ineligible_ms: int | None
    times_median: float | None


class Reclaim(NamedTuple):
    """Sums of a day, or of a broker over all days."""

    day: date | None
    broker: int | None
    directories: int
    files: int
    size_bytes: int
    failed_directories: int


class Finding(NamedTuple):
    place: str | None
    standing: str | None
    reason: str | None
    what: str | None
    topic: str | None
    broker: int | None
    partition: int | None
    size_bytes: int | None
    detail: str | None
    taken_at: int | None = None


class FindingCount(NamedTuple):
    survey_id: str | None
    broker: int | None
    place: str | None
    standing: str | None
    reason: str | None
    findings: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class EarlierFindings:
    """Findings of surveys before the newest, in log directories that no later survey has read."""

    findings: Rows[Finding] = field(default_factory=Rows)
    by_standing: Mapping[str, int] = field(default_factory=dict)


class LogDir(NamedTuple):
    broker: int | None
    path: str | None


class DiskCoverage(NamedTuple):
    """The number of known log directories, and of those that a survey has read."""

    known: int
    read: int
    unread: tuple[LogDir, ...] = ()
    """Log directories that only their broker has described, by broker."""


class SurveyRow(NamedTuple):
    survey_id: str | None
    taken_at: int | None
    took_ms: int | None
    cluster_id: str | None
    complete: bool | None
    in_motion: tuple[str, ...] | None
    problems: tuple[Mapping[str, str], ...] | None


class OwedByBroker(NamedTuple):
    """What a broker owes since the last day on which that changed."""

    broker: int | None
    day: date
    open: int | None
    open_replicas: int | None
    owed_bytes: int | None
    unsized: int | None


class OpenDebt(NamedTuple):
    topic: str | None
    topic_id: str | None
    broker: int | None
    partitions: str | None
    since: int | None


class TrashedTopic(NamedTuple):
    topic: str | None
    topic_id: str | None
    trashed_at: int | None
    until: int | None


@dataclass(frozen=True, slots=True)
class Promises:
    """What brokers owe, and the topics in the trash; neither depends on the requested days."""

    brokers: Rows[OwedByBroker] = field(default_factory=Rows)
    """Those that owe something now."""
    debts: Rows[OpenDebt] = field(default_factory=Rows)
    closed: Mapping[str, int] = field(default_factory=dict)
    """Debts that are closed, by how."""
    trash: Rows[TrashedTopic] = field(default_factory=Rows)


class StaleTopic(NamedTuple):
    topic: str | None
    topic_id: str | None
    partitions: int | None
    replicas: int | None
    size_bytes: int | None
    is_empty: bool | None
    last_write: int | None
    unwritten_days: int | None
    evidence: str | None
    created_at: int | None


class Tenure(NamedTuple):
    controller: int | None
    epoch: int | None
    elected_at: int | None
    active_at: int | None
    resigned_at: int | None
    taken_from: int | None
    loading_ms: int | None
    tenure_ms: int | None
    reason: str | None


class Violation(NamedTuple):
    rule: str | None
    severity: str | None
    subject: str | None
    time: int | None
    detail: str | None
    event_ids: tuple[str, ...] | None


class BadLine(NamedTuple):
    source_file: str | None
    line: str | None
    reason: str | None
    detail: str | None
    copies: int | None


class Latency(NamedTuple):
    """Distribution of durations in one size class. `bins`: bin (`charts.bin_start_ms`) → number of deletions."""

    measure: str
    size_class: str
    deletions: int
    p50: float
    p90: float
    p99: float
    max: float
    bins: Mapping[int, int]


class PhaseProgress(NamedTuple):
    """How many deletions had reached each phase by the end of each time step."""

    start: int
    step_ms: int
    reached: Mapping[str, tuple[int, ...]]

    @property
    def end(self) -> int:
        """The end of the last step."""
        return self.start + len(next(iter(self.reached.values()))) * self.step_ms


class FreedBytes(NamedTuple):
    """Bytes of the topics whose last directory was removed in the time step that begins at `at`."""

    at: int
    size_bytes: int
    topics: int


@dataclass(frozen=True, slots=True)
class Deletions:
    """Sums of all spans, and the spans that are shown."""

    shown: tuple[DeletionSpan, ...] = ()
    brokers: Mapping[SpanKey, tuple[BrokerReplicas, ...]] = field(default_factory=dict)
    """Of the spans shown, by broker."""
    total: int = 0
    done: int = 0
    owing: int = 0
    """Of the done ones: a broker still owes replicas."""
    let_go: int = 0
    vanished: int = 0
    last_vanished_at: int | None = None
    open: int = 0
    freed_bytes: int = 0
    latencies: tuple[Latency, ...] = ()
    progress: PhaseProgress | None = None
    freed: tuple[FreedBytes, ...] = ()
    freed_step_ms: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """All values of the page."""

    title: str = ""
    lake: str = ""
    first_day: date | None = None
    last_day: date | None = None
    """The requested days; None is open."""
    as_of: int | None = None
    """The newest instant in the lake."""
    deletions: Deletions = field(default_factory=Deletions)
    trends: Trends = field(default_factory=Trends)
    slo: Rows[DailySlo] = field(default_factory=Rows)
    stuck: Rows[StuckDeletion] = field(default_factory=Rows)
    slow_brokers: Rows[SlowBroker] = field(default_factory=Rows)
    reclaim_by_day: Rows[Reclaim] = field(default_factory=Rows)
    reclaim_by_broker: Rows[Reclaim] = field(default_factory=Rows)
    surveys: Rows[SurveyRow] = field(default_factory=Rows)
    """Of the requested days, newest first."""
    newest: SurveyRow | None = None
    """The lake's newest survey, whichever days were requested; leftovers are its findings."""
    ahead: Rows[SurveyRow] = field(default_factory=Rows)
    """Surveys in the future, which are ignored."""
    counts: tuple[FindingCount, ...] = ()
    """Of the newest survey and of the listed ones."""
    findings: Rows[Finding] = field(default_factory=Rows)
    """Of the newest survey."""
    earlier: EarlierFindings = field(default_factory=EarlierFindings)
    disks: DiskCoverage | None = None
    """Of the newest survey's round; None if unknown."""
    candidates: Rows[StaleTopic] = field(default_factory=Rows)
    promises: Promises = field(default_factory=Promises)
    tenures: Rows[Tenure] = field(default_factory=Rows)
    violations: Rows[Violation] = field(default_factory=Rows)
    violations_by_rule: Mapping[tuple[str, str], int] = field(default_factory=dict)
    recorded_days: int = 0
    """Number of days that can be audited."""
    audited_days: int = 0
    """Number of those that were audited since they were last written."""
    bad_lines: Rows[BadLine] = field(default_factory=Rows)
    bad_by_reason: Mapping[str, int] = field(default_factory=dict)
    """Number of lines, copies included."""
