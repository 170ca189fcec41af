"""Sections about the cluster and the data: brokers, controllers, audit, quarantine."""

from __future__ import annotations

from typing import Final

from lethe.pipeline.report import svg
from lethe.pipeline.report.axes import Scale, clock_scale
from lethe.pipeline.report.charts import share_bar
from lethe.pipeline.report.components import (
    Section,
    badge,
    code,
    details,
    duration_cell,
    empty_note,
    instant_cell,
    number_cell,
    stack,
)
from lethe.pipeline.report.formatting import count, cut, day, duration, number
from lethe.pipeline.report.html_table import COMPACT, Cell, CellContent, Column, left_out_note, table
from lethe.pipeline.report.markup import Markup, el, join
from lethe.pipeline.report.summary import audit_coverage, is_audited
from lethe.pipeline.report.values import BadLine, Report, SlowBroker, Tenure, Violation
from lethe.protocol.counting import listed, plural

SLOW: Final = 2.0
"""A broker is slow from this multiple of the median of all brokers."""


# --- brokers ------------------------------------------------------------------------------------------------------


def brokers(report: Report) -> Section:
    rows = report.slow_brokers
    title = "Brokers"
    if not rows.total:
        return Section("brokers", title, None, empty_note("No broker was asked to delete anything."))
    slow = [row for row in rows.shown if (row.times_median or 0) >= SLOW]
    most = max((row.ack_p99_ms or 0 for row in rows.shown), default=0)
    columns = [
        Column("Broker", "name"),
        Column("Asking to answer, 99 %", "plot"),
        *(Column(name, "number") for name in ("50 %", "99 %", "Longest")),
        Column("Against others", "number", "its median against the median of all brokers' that day"),
        *(Column(name, "number") for name in ("Replicas", "Acknowledged", "Refused")),
        Column("Out of reach, sum", "number", "how long its replicas could not be deleted, all together"),
        Column("Day", "time"),
    ]
    body = table(
        "Each broker on its slowest day",
        columns,
        [_broker_row(row, most) for row in rows.shown],
        left_out=left_out_note(len(rows.shown), rows.total, "broker", "the slowest"),
        is_long=True,
    )
    slow_ones = listed([f"broker {row.broker}" for row in slow], 5)
    verb = plural(len(slow), "takes", "take")
    lead = "How long brokers took to acknowledge the deletion of a replica, from the last time of asking."
    if slow:
        lead += f" {slow_ones[0].upper() + slow_ones[1:]} {verb} {SLOW:g} times as long as the others, or longer."
    return Section("brokers", title, lead, body, f"{number(len(slow))} slow" if slow else "", is_loud=bool(slow))


def _broker_row(row: SlowBroker, most: float) -> list[CellContent]:
    missing = (row.replicas or 0) - (row.acked or 0)
    times = None if row.times_median is None else f"{row.times_median:.1f} ×"
    is_slow = (row.times_median or 0) >= SLOW
    return [
        Cell(f"broker {row.broker}", row.broker),
        Cell(share_bar(row.ack_p99_ms or 0, most, duration(row.ack_p99_ms), "b-slow" if is_slow else "b-share")),
        *(duration_cell(each) for each in (row.ack_p50_ms, row.ack_p99_ms, row.ack_max_ms)),
        Cell(badge(times, "attention") if is_slow and times else times, row.times_median),
        number_cell(row.replicas),
        Cell(badge(number(row.acked), "attention") if missing > 0 else number(row.acked), row.acked),
        number_cell(row.refused),
        duration_cell(row.ineligible_ms or None),
        Cell(day(row.day), day(row.day)),
    ]


# --- controllers --------------------------------------------------------------------------------------------------


def controllers(report: Report) -> Section:
    rows = report.tenures
    title = "Controllers"
    if not rows.total:
        return Section("controllers", title, None, empty_note("No controller's term was recorded."))
    last = report.as_of
    scale = _tenure_scale(rows.shown, last)
    columns = [
        Column("Controller", "name"),
        Column(_axis(scale), "plot"),
        Column("Epoch", "number"),
        Column("Elected (UTC)", "time"),
        Column("Active after", "number"),
        Column("Lasted", "number"),
        Column("Ended (UTC)", "time"),
        Column("Why it ended", "wide"),
    ]
    body = table(
        "The active controllers, newest first",
        columns,
        [_tenure_row(row, scale, last) for row in rows.shown],
        left_out=left_out_note(len(rows.shown), rows.total, "tenure", "the newest"),
        class_="tenures",
        is_long=True,
    )
    return Section("controllers", title, None, body, number(rows.total))


def _tenure_scale(rows: tuple[Tenure, ...], last: int | None) -> Scale:
    known = [each for row in rows for each in (row.elected_at, _tenure_end(row, last)) if each is not None]
    if not known:
        return clock_scale(0, 1000)
    return clock_scale(min(known), max(*known, min(known) + 1000), wanted=4)


def _tenure_end(row: Tenure, last: int | None) -> int | None:
    if row.resigned_at is not None:
        return row.resigned_at
    if row.elected_at is not None and row.tenure_ms is not None:
        return row.elected_at + row.tenure_ms
    return last


def _axis(scale: Scale) -> Markup:
    labels = join(
        svg.text(tick.place, 12, tick.label, "tick minor" if tick.is_minor else "tick") for tick in scale.ticks
    )
    return svg.picture("Time, UTC", "", 20, labels, class_="axis")


def _tenure_row(row: Tenure, scale: Scale, last: int | None) -> list[CellContent]:
    bars = []
    if row.elected_at is not None:
        start, stop = scale.at(row.elected_at), scale.at(_tenure_end(row, last) or row.elected_at)
        bars.append(svg.rect(start, max(stop - start, 0.4), 4, 10, "p-tenure"))
        if row.active_at is not None:
            loaded = scale.at(row.active_at)
            bars.append(svg.rect(start, max(loaded - start, 0.2), 4, 10, "p-held"))
    why = f"took over from controller {row.taken_from}" if row.taken_from is not None else None
    ended: str | Markup | None = row.reason and cut(row.reason)
    if ended is None:
        ended = badge("died", "attention") if row.tenure_ms is not None else badge("active", "good")
    picture = svg.picture(f"controller {row.controller}, epoch {row.epoch}", why or "", 18, *bars, class_="row")
    return [
        Cell(f"controller {row.controller}", row.controller, why),
        Cell(picture, row.elected_at),
        number_cell(row.epoch),
        instant_cell(row.elected_at),
        duration_cell(row.loading_ms),
        duration_cell(row.tenure_ms),
        instant_cell(row.resigned_at),
        ended,
    ]


# --- audit --------------------------------------------------------------------------------------------------------


def audit(report: Report) -> Section:
    rows = report.violations
    errors = sum(many for (severity, _), many in report.violations_by_rule.items() if severity != "warning")
    if not rows.total:
        said = "None of these days is audited: lethe pipeline run audits the days whose lines it reads."
        if report.audited_days:
            said = f"{audit_coverage(report)}: no rule is violated."
            if not is_audited(report):
                said += " lethe pipeline run audits the others."
        return Section("audit", "Audit", None, empty_note(said), number(0) if report.audited_days else "")
    by_rule = table(
        "Violations by rule",
        [Column("Rule", "name"), Column("Severity"), Column("Violations", "number")],
        [
            [code(rule), _severity(severity), number_cell(many)]
            for (severity, rule), many in list(report.violations_by_rule.items())[:200]
        ],
        class_=COMPACT,
    )
    each = table(
        "Each violation, errors first",
        [
            Column("Subject", "name"),
            Column("Rule", "code"),
            Column("Severity"),
            Column("Found, and expected", "wide"),
            Column("When (UTC)", "time"),
            Column("Lines of the journal", "code"),
        ],
        [_violation_row(row) for row in rows.shown],
        left_out=left_out_note(len(rows.shown), rows.total, "violation", "errors before warnings"),
        is_long=True,
    )
    lead = (
        "The journal, checked against the rules of a controller: legal transitions, rising epochs, every replica "
        "acknowledged, every byte accounted for."
    )
    unknown = (
        None if is_audited(report) else el("p", f"{audit_coverage(report)}. lethe pipeline run audits the others.")
    )
    return Section("audit", "Audit", lead, stack(by_rule, each, unknown), number(rows.total), is_loud=errors > 0)


def _violation_row(row: Violation) -> list[CellContent]:
    ids = list(row.event_ids or ())
    shown = join((code(each, 120) for each in ids[:3]), " ")
    more_ids = f" and {number(len(ids) - 3)} more" if len(ids) > 3 else None
    return [
        Cell(code(row.subject), row.subject),
        code(row.rule),
        _severity(row.severity),
        cut(row.detail or ""),
        instant_cell(row.time),
        join((shown, more_ids)) if ids else None,
    ]


def _severity(severity: str | None) -> Cell:
    return Cell(badge(severity or "error", "attention" if severity == "warning" else "bad"), severity)


# --- quarantine ---------------------------------------------------------------------------------------------------


def quarantine(report: Report) -> Section:
    title = "Quarantine"
    total = sum(report.bad_by_reason.values())
    if not total:
        return Section("quarantine", title, None, empty_note("Every line of the journals could be read."), number(0))
    most = max(report.bad_by_reason.values())
    by_reason = table(
        "Lines by the reason why they could not be used",
        [Column("Reason", "name"), Column("", "plot"), Column("Lines", "number")],
        [
            [cut(reason), Cell(share_bar(many, most, number(many))), number_cell(many)]
            for reason, many in list(report.bad_by_reason.items())[:50]
        ],
        class_=COMPACT,
    )
    lines = table(
        "Some of them",
        [
            Column("File", "name"),
            Column("Reason"),
            Column("What exactly", "wide"),
            Column("Copies", "number"),
            Column("Line", "code"),
        ],
        [_bad_line_row(row) for row in report.bad_lines.shown],
        left_out=left_out_note(len(report.bad_lines.shown), report.bad_lines.total, "line", "the most frequent"),
    )
    lead = (
        f"{count(total, 'line')} quarantined. The last line of a process that was killed is often cut off; "
        "check the others."
    )
    body = stack(by_reason, details("Show some of the lines", lines))
    return Section("quarantine", title, lead, body, number(total))


def _bad_line_row(row: BadLine) -> list[CellContent]:
    return [
        code(row.source_file),
        cut(row.reason or ""),
        cut(row.detail or ""),
        number_cell(row.copies),
        code(row.line, 200),
    ]
