"""Reads the values of a page from a lake: which rows, in which order, and how many at most."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from lethe.pipeline import tables
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.report.lake_reader import LakeReader, and_filters, of_days
from lethe.pipeline.report.read_disks import disk_coverage, read_log_dirs
from lethe.pipeline.report.read_earlier import read_earlier
from lethe.pipeline.report.read_owed import read_promises
from lethe.pipeline.report.read_spans import INSTANTS, read_deletions
from lethe.pipeline.report.read_surveys import read_surveys, rows_of_surveys
from lethe.pipeline.report.read_trends import read_trends
from lethe.pipeline.report.values import (
    BadLine,
    DailySlo,
    Finding,
    FindingCount,
    Reclaim,
    Report,
    Rows,
    SlowBroker,
    StaleTopic,
    StuckDeletion,
    SurveyRow,
    Tenure,
    Violation,
)
from lethe.protocol.findings import Standing

ROWS: Final = 200
"""Maximum rows of a list."""
BAD_LINES: Final = 25
MAX_COUNTS: Final = 100_000
"""Maximum rows of a gold table that are summed: days times brokers, surveys times reasons."""


def read_report(root: str, title: str = "", days: DayRange | None = None, moment: datetime | None = None) -> Report:
    """Return the values of the page about that lake and those days; with `moment`, about the lake as it was then.

    Rows without a day (stuck deletions, leftovers, candidates, quarantine) do not depend on `days`. Raises
    LakeUnreadable.
    """
    return _read(LakeReader(root, moment), title, days or DayRange())


def _read(lake: LakeReader, title: str, days: DayRange) -> Report:
    where = of_days(days)
    surveys = read_surveys(lake, where)
    log_dirs = read_log_dirs(lake, surveys.round)
    by_day, by_broker = _reclaim(lake, where)
    bad_lines, bad_by_reason = _quarantine(lake)
    violations, by_rule = _violations(lake, where)
    recorded_days, audited_days = _audited(lake, days)
    report = Report(
        title=title,
        lake=lake.label,
        first_day=days.first,
        last_day=days.last,
        deletions=read_deletions(lake, where),
        trends=read_trends(lake, days),
        slo=lake.rows(
            tables.DELETION_SLO,
            DailySlo,
            ("-day", "size_class"),
            limit=ROWS,
            where=and_filters(where, ds.field("size_class") == "all"),
        ),
        stuck=lake.rows(tables.STUCK_NOW, StuckDeletion, ("since", "topic", "topic_id", "span"), limit=ROWS),
        slow_brokers=_slow_brokers(lake, where),
        reclaim_by_day=by_day,
        reclaim_by_broker=by_broker,
        surveys=surveys.listed,
        newest=surveys.newest,
        ahead=surveys.ahead,
        counts=_counts(lake, (*surveys.round[:1], *surveys.listed.shown)),
        findings=_findings(lake, surveys.newest),
        earlier=read_earlier(lake, surveys.round, log_dirs),
        disks=disk_coverage(log_dirs, surveys.round),
        candidates=lake.rows(tables.STALE_TOPIC_CANDIDATES, StaleTopic, ("-size_bytes", "topic"), limit=ROWS),
        promises=read_promises(lake),
        tenures=lake.rows(
            tables.CONTROLLER_TENURES, Tenure, ("-elected_at", "-epoch", "controller"), limit=ROWS, where=where
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
    """Return the newest instant in any of the values."""
    known: list[int | None] = [row.taken_at for row in (report.newest, *report.surveys.shown) if row is not None]
    known += [
        row.since + row.waiting_ms for row in report.stuck.shown if row.since is not None and row.waiting_ms is not None
    ]
    known += [each for row in report.tenures.shown for each in (row.elected_at, row.active_at, row.resigned_at)]
    known += [getattr(span, name) for span in report.deletions.shown for name in INSTANTS]
    return max((each for each in known if each is not None), default=None)


# --- parts --------------------------------------------------------------------------------------------------------


def _findings(lake: LakeReader, survey: SurveyRow | None) -> Rows[Finding]:
    """Return the findings of that survey: pending ones last, then by standing and size."""
    if survey is None:
        return Rows()
    order = ("standing", "-size_bytes", "place", "reason", "what", "broker", "topic", "partition")
    newest = rows_of_surveys([survey])
    pending = ds.field("standing") == Standing.PENDING.code
    first = lake.rows(tables.LEFTOVERS, Finding, order, limit=ROWS, where=newest & ~pending)
    rest = lake.rows(tables.LEFTOVERS, Finding, order, limit=max(ROWS - len(first.shown), 1), where=newest & pending)
    return Rows((*first.shown, *rest.shown)[:ROWS], first.total + rest.total)


def _counts(lake: LakeReader, surveys: tuple[SurveyRow, ...]) -> tuple[FindingCount, ...]:
    if not surveys:
        return ()
    order = ("-taken_at", "standing", "place", "reason", "broker")
    return lake.rows(
        tables.LEFTOVER_BY_BROKER, FindingCount, order, limit=MAX_COUNTS, where=rows_of_surveys(surveys)
    ).shown


def _slow_brokers(lake: LakeReader, where: Any) -> Rows[SlowBroker]:
    """Return the worst day of each broker, by its median relative to the others'."""
    order = ("-times_median", "-ack_p99_ms", "broker", "-day")
    every = lake.rows(tables.SLOW_BROKERS, SlowBroker, order, limit=MAX_COUNTS, where=where)
    worst: dict[int | None, SlowBroker] = {}
    for row in every.shown:
        worst.setdefault(row.broker, row)
    return Rows.of(worst.values(), ROWS)


def _reclaim(lake: LakeReader, where: Any) -> tuple[Rows[Reclaim], Rows[Reclaim]]:
    """Return the sums of each day, the newest first, and of each broker, the largest first."""
    sums = Reclaim._fields[2:]
    batches = list(lake.batches(tables.DAILY_RECLAIM, Reclaim._fields, where))
    if not batches:
        return Rows(), Rows()
    whole = pa.concat_tables(batches)
    days, brokers = (
        [
            Reclaim(row.get("day"), row.get("broker"), *(row[f"{name}_sum"] or 0 for name in sums))
            for row in whole.group_by(key).aggregate([(name, "sum") for name in sums]).to_pylist()
        ]
        for key in ("day", "broker")
    )
    days.sort(key=lambda row: row.day or date.min, reverse=True)
    brokers.sort(key=lambda row: (-row.size_bytes, row.broker is None, row.broker or 0))
    return Rows.of(days, ROWS), Rows.of(brokers, ROWS)


def _violations(lake: LakeReader, where: Any) -> tuple[Rows[Violation], dict[tuple[str, str], int]]:
    order = ("severity", "rule", "time", "subject", "detail")
    rows = lake.rows(tables.VIOLATIONS, Violation, order, limit=ROWS, where=where)
    found: Counter[tuple[str, str]] = Counter()
    for batch in lake.batches(tables.VIOLATIONS, ["severity", "rule"], where):
        for row in batch.group_by(["severity", "rule"]).aggregate([([], "count_all")]).to_pylist():
            found[row["severity"] or "", row["rule"] or ""] += row["count_all"]
    return rows, dict(sorted(found.items()))


def _audited(lake: LakeReader, days: DayRange) -> tuple[int, int]:
    """Return the number of days that can be audited, and of those that were audited since they were last written."""
    recorded = {*lake.audited(), *(day for table in tables.AUDITED for day in lake.days(table))}
    of_range = {day for day in recorded if day in days}
    return len(of_range), len(of_range - lake.unaudited_days())


def _quarantine(lake: LakeReader) -> tuple[Rows[BadLine], dict[str, int]]:
    order = ("-copies", "_source_file", "line_hash")
    rows = lake.rows(tables.QUARANTINE, BadLine, order, limit=BAD_LINES)
    found: Counter[str] = Counter()
    for batch in lake.batches(tables.QUARANTINE, ["reason", "copies"]):
        for row in batch.group_by("reason").aggregate([("copies", "sum")]).to_pylist():
            found[row["reason"] or ""] += row["copies_sum"] or 0
    return rows, dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
