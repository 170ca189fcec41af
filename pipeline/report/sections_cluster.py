"""Sections about the cluster and the data: brokers, controllers, audit, quarantine."""

from __future__ import annotations

from typing import Final

from lethe.pipeline.report import cells, svg
from lethe.pipeline.report.axes import Scale, clock_scale
from lethe.pipeline.report.charts import share_bar
from lethe.pipeline.report.components import Section, badge, code, details, empty_note, stack
from lethe.pipeline.report.formatting import count, cut, duration, number
from lethe.pipeline.report.html_table import COMPACT, Cell, Column, table
from lethe.pipeline.report.markup import Markup, el, join
from lethe.pipeline.report.summary import audit_coverage, audit_errors, is_audited
from lethe.pipeline.report.values import BadLine, Report, Rows, SlowBroker, Tenure, Violation
from lethe.protocol.counting import listed, plural

SLOW: Final = 2.0
"""A broker is slow from this multiple of the median of all brokers."""
OUT_OF_REACH: Final = "how long its replicas could not be deleted, all together"


# --- brokers ------------------------------------------------------------------------------------------------------


def brokers(report: Report) -> Section:
    rows = report.slow_brokers
    title = "Brokers"
    if not rows.total:
        return Section("brokers", title, None, empty_note("No broker was asked to delete anything."))
    slow = [row for row in rows.shown if _is_slow(row)]
    most = max((row.ack_p99_ms or 0 for row in rows.shown), default=0)
    columns: list[Column[SlowBroker]] = [
        Column("Broker", "name", lambda row: Cell(f"broker {row.broker}", row.broker)),
        Column("Asking to answer, 99 %", "plot", lambda row: _answer_bar(row, most)),
        Column("50 %", "number", lambda row: cells.duration(row.ack_p50_ms)),
        Column("99 %", "number", lambda row: cells.duration(row.ack_p99_ms)),
        Column("Longest", "number", lambda row: cells.duration(row.ack_max_ms)),
        Column("Against others", "number", _times, "its median against the median of all brokers' that day"),
        Column("Replicas", "number", lambda row: cells.number(row.replicas)),
        Column("Acknowledged", "number", _acknowledged),
        Column("Refused", "number", lambda row: cells.number(row.refused)),
        Column("Out of reach, sum", "number", lambda row: cells.duration(row.ineligible_ms or None), OUT_OF_REACH),
        Column("Day", "time", lambda row: cells.day(row.day)),
    ]
    body = table("Each broker on its slowest day", columns, rows, "broker", "the slowest", is_long=True)
    slow_ones = listed([f"broker {row.broker}" for row in slow], 5)
    verb = plural(len(slow), "takes", "take")
    lead = "How long brokers took to acknowledge the deletion of a replica, from the last time of asking."
    if slow:
        lead += f" {slow_ones[0].upper() + slow_ones[1:]} {verb} {SLOW:g} times as long as the others, or longer."
    return Section("brokers", title, lead, body, f"{number(len(slow))} slow" if slow else "", is_loud=bool(slow))


def _is_slow(row: SlowBroker) -> bool:
    return (row.times_median or 0) >= SLOW


def _answer_bar(row: SlowBroker, most: float) -> Markup:
    return share_bar(row.ack_p99_ms or 0, most, duration(row.ack_p99_ms), "b-slow" if _is_slow(row) else "b-share")


def _times(row: SlowBroker) -> Cell:
    times = None if row.times_median is None else f"{row.times_median:.1f} ×"
    return Cell(badge(times, "attention") if _is_slow(row) else times, row.times_median)


def _acknowledged(row: SlowBroker) -> Cell:
    is_missing = (row.replicas or 0) > (row.acked or 0)
    return Cell(badge(number(row.acked), "attention") if is_missing else number(row.acked), row.acked)


# --- controllers --------------------------------------------------------------------------------------------------


def controllers(report: Report) -> Section:
    rows = report.tenures
    title = "Controllers"
    if not rows.total:
        return Section("controllers", title, None, empty_note("No controller's term was recorded."))
    last = report.as_of
    scale = _tenure_scale(rows.shown, last)
    columns: list[Column[Tenure]] = [
        Column("Controller", "name", lambda row: Cell(f"controller {row.controller}", row.controller, _why(row))),
        Column(
            svg.picture("Time, UTC", "", 20, svg.tick_labels(scale, 12), class_="axis"),
            "plot",
            lambda row: Cell(_tenure_bar(row, scale, last), row.elected_at),
        ),
        Column("Epoch", "number", lambda row: cells.number(row.epoch)),
        Column("Elected (UTC)", "time", lambda row: cells.instant(row.elected_at)),
        Column("Active after", "number", lambda row: cells.duration(row.loading_ms)),
        Column("Lasted", "number", lambda row: cells.duration(row.tenure_ms)),
        Column("Ended (UTC)", "time", lambda row: cells.instant(row.resigned_at)),
        Column("Why it ended", "wide", _ended),
    ]
    caption = "The active controllers, newest first"
    body = table(caption, columns, rows, "tenure", "the newest", class_="tenures", is_long=True)
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


def _why(row: Tenure) -> str | None:
    return f"took over from controller {row.taken_from}" if row.taken_from is not None else None


def _ended(row: Tenure) -> str | Markup:
    if row.reason is not None:
        return cut(row.reason)
    return badge("died", "attention") if row.tenure_ms is not None else badge("active", "good")


def _tenure_bar(row: Tenure, scale: Scale, last: int | None) -> Markup:
    bars = []
    if row.elected_at is not None:
        start, stop = scale.at(row.elected_at), scale.at(_tenure_end(row, last) or row.elected_at)
        bars.append(svg.rect(start, max(stop - start, 0.4), 4, 10, "p-tenure"))
        if row.active_at is not None:
            loaded = scale.at(row.active_at)
            bars.append(svg.rect(start, max(loaded - start, 0.2), 4, 10, "p-held"))
    return svg.picture(f"controller {row.controller}, epoch {row.epoch}", _why(row) or "", 18, *bars, class_="row")


# --- audit --------------------------------------------------------------------------------------------------------


def audit(report: Report) -> Section:
    rows = report.violations
    errors = audit_errors(report)
    if not rows.total:
        said = "None of these days is audited: lethe pipeline run audits the days whose lines it reads."
        if report.audited_days:
            said = f"{audit_coverage(report)}: no rule is violated."
            if not is_audited(report):
                said += " lethe pipeline run audits the others."
        return Section("audit", "Audit", None, empty_note(said), number(0) if report.audited_days else "")
    rules: list[Column[tuple[tuple[str, str], int]]] = [
        Column("Rule", "name", lambda row: code(row[0][1])),
        Column("Severity", "text", lambda row: _severity(row[0][0])),
        Column("Violations", "number", lambda row: cells.number(row[1])),
    ]
    by_rule = table("Violations by rule", rules, Rows.of(report.violations_by_rule.items(), 200), class_=COMPACT)
    columns: list[Column[Violation]] = [
        Column("Subject", "name", lambda row: Cell(code(row.subject), row.subject)),
        Column("Rule", "code", lambda row: code(row.rule)),
        Column("Severity", "text", lambda row: _severity(row.severity)),
        Column("Found, and expected", "wide", lambda row: cut(row.detail or "")),
        Column("When (UTC)", "time", lambda row: cells.instant(row.time)),
        Column("Lines of the journal", "code", _event_ids),
    ]
    each = table("Each violation, errors first", columns, rows, "violation", "errors before warnings", is_long=True)
    lead = (
        "The journal, checked against the rules of a controller: legal transitions, rising epochs, every replica "
        "acknowledged, every byte accounted for."
    )
    unknown = (
        None if is_audited(report) else el("p", f"{audit_coverage(report)}. lethe pipeline run audits the others.")
    )
    return Section("audit", "Audit", lead, stack(by_rule, each, unknown), number(rows.total), is_loud=errors > 0)


def _event_ids(row: Violation) -> Markup | None:
    ids = row.event_ids or ()
    shown = join((code(each, 120) for each in ids[:3]), " ")
    return join((shown, f" and {number(len(ids) - 3)} more" if len(ids) > 3 else None)) if ids else None


def _severity(severity: str | None) -> Cell:
    return Cell(badge(severity or "error", "attention" if severity == "warning" else "bad"), severity)


# --- quarantine ---------------------------------------------------------------------------------------------------


def quarantine(report: Report) -> Section:
    title = "Quarantine"
    total = sum(report.bad_by_reason.values())
    if not total:
        return Section("quarantine", title, None, empty_note("Every line of the journals could be read."), number(0))
    most = max(report.bad_by_reason.values())
    reasons: list[Column[tuple[str, int]]] = [
        Column("Reason", "name", lambda row: cut(row[0])),
        Column("", "plot", lambda row: share_bar(row[1], most, number(row[1]))),
        Column("Lines", "number", lambda row: cells.number(row[1])),
    ]
    caption = "Lines by the reason why they could not be used"
    by_reason = table(caption, reasons, Rows.of(report.bad_by_reason.items(), 50), class_=COMPACT)
    columns: list[Column[BadLine]] = [
        Column("File", "name", lambda row: code(row.source_file)),
        Column("Reason", "text", lambda row: cut(row.reason or "")),
        Column("What exactly", "wide", lambda row: cut(row.detail or "")),
        Column("Copies", "number", lambda row: cells.number(row.copies)),
        Column("Line", "code", lambda row: code(row.line, 200)),
    ]
    lines = table("Some of them", columns, report.bad_lines, "line", "the most frequent")
    lead = (
        f"{count(total, 'line')} quarantined. The last line of a process that was killed is often cut off; "
        "check the others."
    )
    body = stack(by_reason, details("Show some of the lines", lines))
    return Section("quarantine", title, lead, body, number(total))
