"""The section with the trends: a chart for each of them, what the periods do not have, and all numbers in a table."""

from __future__ import annotations

from typing import Final

from lethe.pipeline.outcomes import OPEN
from lethe.pipeline.report import cells, trend_charts
from lethe.pipeline.report.components import Section, badge, details, empty_note, legend, sentences, stack, unseen
from lethe.pipeline.report.formatting import count, cut, day, duration, number, size
from lethe.pipeline.report.html_table import Cell, CellContent, Column, table
from lethe.pipeline.report.markup import Markup, el
from lethe.pipeline.report.summary import is_limited_to_days
from lethe.pipeline.report.trend_charts import Panel
from lethe.pipeline.report.values import Report, Rows
from lethe.pipeline.report.values_trends import Period, SurveyTrend, Trends
from lethe.protocol.counting import counted

WEEK: Final = 7


def trends(report: Report) -> Section:
    """Return the section. One period has no trend, and the section says so."""
    found = report.trends
    title = "Trends"
    if len(found.periods) < 2:
        return Section("trends", title, None, empty_note(_too_short(report)))
    first, last = found.periods[0].first, found.periods[-1].last
    lead = f"By {_unit(found.days_each)}, from {day(first)} to {day(last)} (UTC)."
    body = stack(
        trend_charts.pattern(),
        el("div", *map(_panel, trend_charts.panels(found.periods)), class_="trends"),
        _gaps(found),
        details(f"Show the numbers by {_unit(found.days_each)}", _numbers(found)),
    )
    return Section("trends", title, lead, body)


def _too_short(report: Report) -> str:
    whose = "these days have" if is_limited_to_days(report) else "the lake has"
    periods = report.trends.periods
    what = f"one day with data, {day(periods[0].first)}" if periods else "no day with data"
    return f"No trends yet: {whose} {what}."


def _unit(days_each: int) -> str:
    if days_each in (1, WEEK):
        return "day" if days_each == 1 else "week"
    return counted(days_each, "day")


def _panel(panel: Panel) -> Markup:
    head = el("h3", panel.title, el("small", panel.explains))
    if panel.chart is None:
        return el("div", head, el("p", panel.note, class_="calm"), class_="trend")
    return el("div", head, el("div", legend(panel.keys), panel.chart, class_="plot has-scale"), class_="trend")


def _gaps(found: Trends) -> Markup | None:
    """Return in words what the periods do not have."""
    periods = found.periods
    unit = "day" if found.days_each == 1 else "period"
    days, recorded = sum(each.days for each in periods), sum(each.days_recorded for each in periods)
    quiet = sum(1 for each in periods if each.days_recorded and not each.deletions)
    unsurveyed = sum(1 for each in periods if not each.surveys.surveys)
    partly = sum(1 for each in periods if each.surveys.surveys and not each.surveys.saw_everything)
    notes = []
    if recorded < days:
        notes.append(f"no journal of {number(days - recorded)} of {count(days, 'day')} was read")
    if quiet:
        notes.append(f"no deletion was marked on {count(quiet, unit)} with a journal")
    if unsurveyed:
        notes.append(f"no survey was taken on {number(unsurveyed)} of {count(len(periods), unit)}")
    if partly:
        notes.append(f"the surveys of {count(partly, unit)} did not see every disk or place; more may be left over")
    return unseen("Gaps in these charts:", notes) if notes else None


def _numbers(found: Trends) -> Markup:
    unit, newest_first = _unit(found.days_each), Rows.of(reversed(found.periods))
    first = Column("Day" if found.days_each == 1 else "From", "name", _first_cell)
    deletions: list[Column[Period]] = [
        first,
        Column("Journal", "text", _journal, "days with lines of a journal"),
        Column("Deletions", "number", lambda row: cells.number(row.deletions if _is_known(row) else None)),
        Column("Open", "number", lambda row: cells.number(row.outcomes.get(OPEN, 0) if _is_known(row) else None)),
        Column("Deleted, 50 %", "number", lambda row: cells.duration(row.p50_ms)),
        Column("95 %", "number", lambda row: cells.duration(row.p95_ms)),
        Column("Waited", "number", _waited),
        Column("Mostly for", "wide", _causes),
    ]
    others: list[Column[Period]] = [
        first,
        Column("Reclaimed", "number", lambda row: cells.size(row.reclaimed_bytes)),
        Column("Owed", "number", _owed),
        Column("Surveys", "number", lambda row: _surveys(row.surveys)),
        Column("Found", "number", lambda row: cells.number(row.surveys.found)),
        Column("Gone", "number", lambda row: cells.number(row.surveys.gone)),
        Column("Left over", "number", lambda row: cells.number(row.surveys.left_over)),
    ]
    return stack(
        table(f"Deletions by {unit}, newest first", deletions, newest_first, is_long=True),
        table(f"Bytes and leftovers by {unit}, newest first", others, newest_first, is_long=True),
    )


def _first_cell(period: Period) -> Cell:
    return Cell(day(period.first), day(period.first), trend_charts.name(period))


def _is_known(period: Period) -> bool:
    return bool(period.days_recorded or period.deletions)


def _journal(period: Period) -> Cell:
    if not period.days_recorded:
        return Cell(badge("none", "quiet"), 0)
    of_several = f"{period.days_recorded} of {counted(period.days, 'day')}"
    return Cell("read" if period.days == 1 else of_several, period.days_recorded)


def _surveys(surveys: SurveyTrend) -> CellContent:
    if not surveys.surveys:
        return None
    if surveys.saw_everything:
        return cells.number(surveys.surveys)
    return Cell(badge(f"{number(surveys.surveys)}, not all seen", "attention"), surveys.surveys)


def _waited(period: Period) -> CellContent:
    if not period.deletions:
        return None
    known = sum(period.waits_ms.values())
    if not period.unmeasured_waits:
        return cells.duration(known)
    return Cell(badge(f"at least {duration(known)}", "attention"), known)


def _causes(period: Period) -> CellContent:
    """Return the three longest causes."""
    waits = sorted(period.waits_ms.items(), key=lambda item: (-item[1], item[0]))
    said = [f"{cut(cause, 80)} {duration(ms)}" for cause, ms in waits[:3]]
    if period.unmeasured_waits:
        said.append(f"{count(period.unmeasured_waits, 'deletion')} with a wait of unknown length")
    return sentences(said) if said else None


def _owed(period: Period) -> CellContent:
    if period.debts and period.owed_bytes is None:
        return Cell(f"{count(period.debts, 'debt')} of unknown size")
    if period.unsized_debts:
        return Cell(f"at least {size(period.owed_bytes)}", period.owed_bytes)
    return cells.size(period.owed_bytes)
