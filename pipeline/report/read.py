"""From a lake to the values of a page: which rows, in which order, and how many at most."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from typing import Any, Final, TypeVar

import pyarrow.dataset as ds

from lethe.pipeline import tables
from lethe.pipeline.report.columns import Days, LakeChanged, LakeReader, Order
from lethe.pipeline.report.read_disks import disks, read_log_dirs
from lethe.pipeline.report.read_earlier import read_earlier
from lethe.pipeline.report.read_spans import read_deletions
from lethe.pipeline.report.read_surveys import both, read_surveys, rows_of
from lethe.pipeline.report.values import (
    BadLine,
    Candidate,
    Deletions,
    Finding,
    FindingCount,
    Reclaim,
    Report,
    Rows,
    Slo,
    SlowBroker,
    Stuck,
    SurveyRow,
    Tenure,
    Violation,
)
from lethe.protocol.findings import Standing

ROWS: Final = 200
"""Of a list, at most."""
BAD_LINES: Final = 25
TRIES: Final = 3
MAX_COUNTS: Final = 100_000
"""Rows of a gold table that are taken in to be added up: days times brokers, surveys times reasons."""

Value = TypeVar("Value")


def read_report(root: str, title: str = "", days: Days | None = None) -> Report:
    """The values of the page about that lake and those days.

    What is not of a day (what is stuck now or left over, the candidates, the quarantine) is there whichever days are
    asked for.
    Raises LakeUnreadable.
    """
    lake = LakeReader(root)
    for _ in range(TRIES - 1):
        # Files that were listed are gone where the pipeline has replaced a partition since: the page is read anew, so
        # that all of it is of one time.
        try:
            return _read(lake, title, days or Days())
        except LakeChanged:
            continue
    return _read(lake, title, days or Days())


def _read(lake: LakeReader, title: str, days: Days) -> Report:
    where = days.filter()
    surveys = read_surveys(lake, where)
    log_dirs = read_log_dirs(lake, surveys.round)
    by_day, by_broker = _reclaim(lake, where)
    bad_lines, bad_by_reason = _quarantine(lake)
    violations, by_rule = _violations(lake, where)
    recorded_days, audited_days = _audited(lake, days)
    report = Report(
        title=title,
        lake=lake.root,
        first_day=days.first,
        last_day=days.last,
        deletions=read_deletions(lake, where),
        slo=lake.rows(
            tables.DELETION_SLO,
            Slo,
            (Order("day", True), Order("size_class")),
            limit=ROWS,
            where=both(where, ds.field("size_class") == "all"),
        ),
        stuck=lake.rows(
            tables.STUCK_NOW, Stuck, (Order("since"), Order("topic"), Order("topic_id"), Order("span")), limit=ROWS
        ),
        slow_brokers=_slow_brokers(lake, where),
        reclaim_by_day=by_day,
        reclaim_by_broker=by_broker,
        surveys=surveys.listed,
        newest=surveys.newest,
        ahead=surveys.ahead,
        counts=_counts(lake, (*surveys.round[:1], *surveys.listed.shown)),
        findings=_findings(lake, surveys.newest),
        earlier=read_earlier(lake, surveys.round, log_dirs),
        disks=disks(log_dirs, surveys.round),
        candidates=lake.rows(
            tables.STALE_TOPIC_CANDIDATES, Candidate, (Order("size_bytes", True), Order("topic")), limit=ROWS
        ),
        tenures=lake.rows(
            tables.CONTROLLER_TENURES,
            Tenure,
            (Order("elected_at", True), Order("epoch", True), Order("controller")),
            limit=ROWS,
            where=where,
        ),
        violations=violations,
        violations_by_rule=by_rule,
        recorded_days=recorded_days,
        audited_days=audited_days,
        bad_lines=bad_lines,
        bad_by_reason=bad_by_reason,
    )
    return replace(report, as_of=newest_instant(report))


def newest_instant(report: Report) -> int | None:
    """The newest instant that any of the values tells of."""
    deletions: Deletions = report.deletions
    progress = deletions.progress
    known: list[int | None] = [row.taken_at for row in (report.newest, *report.surveys.shown) if row is not None]
    known += [
        row.since + row.waiting_ms for row in report.stuck.shown if row.since is not None and row.waiting_ms is not None
    ]
    known += [each for row in report.tenures.shown for each in (row.elected_at, row.active_at, row.resigned_at)]
    for span in deletions.shown:
        known += [
            span.marked_at,
            span.done_at,
            span.bytes_gone_at,
            span.let_go_at,
            span.vanished_at,
            span.last_ack_at,
            span.tombstoned_at,
        ]
    if progress is not None:
        known.append(progress.start)
    return max((each for each in known if each is not None), default=None)


# --- parts --------------------------------------------------------------------------------------------------------


def _findings(lake: LakeReader, survey: SurveyRow | None) -> Rows[Finding]:
    """Of that survey: what is pending last, what is left over first, then by size."""
    if survey is None:
        return Rows()
    order = (
        Order("standing"),
        Order("size_bytes", True),
        Order("place"),
        Order("reason"),
        Order("what"),
        Order("broker"),
        Order("topic"),
        Order("partition"),
    )
    newest = rows_of([survey])
    pending = ds.field("standing") == Standing.PENDING.code
    first = lake.rows(tables.LEFTOVERS, Finding, order, limit=ROWS, where=newest & ~pending)
    rest = lake.rows(tables.LEFTOVERS, Finding, order, limit=max(ROWS - len(first.shown), 1), where=newest & pending)
    return Rows((*first.shown, *rest.shown)[:ROWS], first.total + rest.total)


def _counts(lake: LakeReader, surveys: tuple[SurveyRow, ...]) -> tuple[FindingCount, ...]:
    if not surveys:
        return ()
    order = (
        Order("taken_at", True),
        Order("standing"),
        Order("place"),
        Order("reason"),
        Order("broker"),
    )
    return lake.rows(tables.LEFTOVER_BY_BROKER, FindingCount, order, limit=MAX_COUNTS, where=rows_of(surveys)).shown


def _slow_brokers(lake: LakeReader, where: Any) -> Rows[SlowBroker]:
    """Of each broker its worst day, by its median against the others'."""
    order = (Order("times_median", True), Order("ack_p99_ms", True), Order("broker"), Order("day", True))
    every = lake.rows(tables.SLOW_BROKERS, SlowBroker, order, limit=MAX_COUNTS, where=where)
    worst: dict[int | None, SlowBroker] = {}
    for row in every.shown:
        worst.setdefault(row.broker, row)
    return _limited(tuple(worst.values()))


def _reclaim(lake: LakeReader, where: Any) -> tuple[Rows[Reclaim], Rows[Reclaim]]:
    by_day: dict[Any, Reclaim] = {}
    by_broker: dict[Any, Reclaim] = {}
    names = ["day", "broker", "directories", "files", "size_bytes", "failed_directories"]
    for batch in lake.batches(tables.DAILY_RECLAIM, names, where):
        for row in batch.to_pylist():
            made = Reclaim(row["day"], row["broker"], *(row[name] or 0 for name in names[2:]))
            _add(by_day, made.day, made._replace(broker=None))
            _add(by_broker, made.broker, made._replace(day=None))
    days = tuple(by_day[key] for key in sorted(by_day, reverse=True))
    brokers = tuple(sorted(by_broker.values(), key=lambda row: (-row.size_bytes, row.broker is None, row.broker or 0)))
    return _limited(days), _limited(brokers)


def _add(found: dict[Any, Reclaim], key: Any, row: Reclaim) -> None:
    old = found.get(key)
    if old is not None:
        row = Reclaim(row.day, row.broker, *(a + b for a, b in zip(old[2:], row[2:], strict=True)))
    found[key] = row


def _violations(lake: LakeReader, where: Any) -> tuple[Rows[Violation], dict[tuple[str, str], int]]:
    order = (Order("severity"), Order("rule"), Order("time"), Order("subject"), Order("detail"))
    rows = lake.rows(tables.VIOLATIONS, Violation, order, limit=ROWS, where=where)
    found: Counter[tuple[str, str]] = Counter()
    for batch in lake.batches(tables.VIOLATIONS, ["severity", "rule"], where):
        for row in batch.group_by(["severity", "rule"]).aggregate([([], "count_all")]).to_pylist():
            found[row["severity"] or "", row["rule"] or ""] += row["count_all"]
    return rows, dict(sorted(found.items()))


def _audited(lake: LakeReader, days: Days) -> tuple[int, int]:
    """Of how many of these days there is anything to audit, and how many of them were audited since it was written."""
    audited = lake.written(tables.VIOLATIONS)
    newest: dict[date, int] = {}
    for table in tables.AUDITED:
        for day, written_ms in lake.written(table).items():
            newest[day] = max(written_ms, newest.get(day, 0))
    recorded = [day for day in sorted({*audited, *newest}) if day in days]
    return len(recorded), sum(day in audited and newest.get(day, 0) <= audited[day] for day in recorded)


def _quarantine(lake: LakeReader) -> tuple[Rows[BadLine], dict[str, int]]:
    order = (Order("copies", True), Order("_source_file"), Order("line_hash"))
    rows = lake.rows(tables.QUARANTINE, BadLine, order, limit=BAD_LINES)
    found: Counter[str] = Counter()
    for batch in lake.batches(tables.QUARANTINE, ["reason", "copies"]):
        for row in batch.group_by("reason").aggregate([("copies", "sum")]).to_pylist():
            found[row["reason"] or ""] += row["copies_sum"] or 0
    return rows, dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _limited(rows: tuple[Value, ...]) -> Rows[Value]:
    return Rows(rows[:ROWS], len(rows))
