"""Sections about deletions: progress, timelines, durations, reclaimed bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from lethe.pipeline.report import cells, charts
from lethe.pipeline.report.axes import Scale, time_step
from lethe.pipeline.report.components import Section, badge, empty_note, figure, legend, stack
from lethe.pipeline.report.formatting import MS_PER_DAY, clock, duration, instant, number, size, step_words
from lethe.pipeline.report.html_table import COMPACT, Cell, Column, table
from lethe.pipeline.report.markup import Markup, el, join
from lethe.pipeline.report.summary import latency, reclaimed_bytes
from lethe.pipeline.report.values import DailySlo, FreedBytes, Latency, PhaseProgress, Reclaim, Report, Rows

MEASURES: Final = (
    ("deleted", "From the mark to deleted", "h-deleted", "every replica acknowledged, the topic's znodes gone"),
    ("reclaimed", "From the mark to the last byte", "h-reclaimed", "deleted, and every directory removed"),
)


# --- progress -----------------------------------------------------------------------------------------------------


def progress(report: Report) -> Section:
    found = report.deletions.progress
    if found is None:
        return Section("progress", "Progress", None, empty_note("No deletion was recorded."))
    chart = charts.progress_chart(found, report.deletions.total)
    keys = legend((class_, name, None) for _, name, class_ in charts.PROGRESS_LINES)
    lead = (
        "How many deletions had reached each phase, over time (UTC). The area between two lines shows the deletions "
        "between these phases."
    )
    return Section("progress", "Progress", lead, figure(chart, _progress_table(found), keys, has_scale=True))


def _progress_table(found: PhaseProgress) -> Markup:
    width = max(time_step(found.end - found.start, 9), found.step_ms)
    ends = range(found.start // width * width + width, found.end + width, width)

    def reached(phase: str, end: int) -> Cell:
        steps = (min(end, found.end) - found.start) // found.step_ms
        return cells.number(found.reached[phase][max(steps - 1, 0)])

    columns: list[Column[int]] = [
        Column("By", "name", lambda end: Cell(_label(end, width), end)),
        *(Column(name, "number", partial(reached, phase)) for phase, name, _ in charts.PROGRESS_LINES),
    ]
    return table("Deletions that had reached each phase", columns, Rows.of(ends), class_=COMPACT)


def _label(ms: int, step_ms: int) -> str:
    return clock(ms, step_ms) if step_ms >= MS_PER_DAY or ms % MS_PER_DAY else clock(ms, MS_PER_DAY)


# --- latency ------------------------------------------------------------------------------------------------------


def latencies(report: Report) -> Section:
    known = report.deletions.latencies
    if not known:
        return Section("latency", "How long it took", None, empty_note("No deletion has ended yet."))
    scale = charts.distribution_scale(known)
    plots = [
        el("div", el("h3", title, el("small", explains)), charts.distribution(found, scale, class_))
        for measure, title, class_, explains in MEASURES
        if (found := latency(report, measure)) is not None
    ]
    numbers = [
        _percentiles(title, [each for each in known if each.measure == measure], scale, class_)
        for measure, title, class_, _ in MEASURES
        if latency(report, measure) is not None
    ]
    body = figure(join(plots), join(numbers))
    if report.slo.total > 1:
        body = stack(body, _by_day(report))
    lead = "Time on a logarithmic axis; lines at the median, the 90th and the 99th percentile."
    return Section("latency", "How long it took", lead, body)


def _percentiles(title: str, known: Sequence[Latency], scale: Scale, class_: str) -> Markup:
    columns: list[Column[Latency]] = [
        Column("Size", "name", _size_words),
        Column("", "plot", lambda row: charts.sparkline(row, scale, class_)),
        Column("Count", "number", lambda row: cells.number(row.deletions)),
        Column("50 %", "number", lambda row: cells.duration(row.p50)),
        Column("90 %", "number", lambda row: cells.duration(row.p90)),
        Column("99 %", "number", lambda row: cells.duration(row.p99)),
        Column("Max", "number", lambda row: cells.duration(row.max)),
    ]
    return table(f"{title}, by size of the topic", columns, Rows.of(known), class_=COMPACT)


def _size_words(row: Latency) -> str:
    return row.size_class if row.size_class.isalpha() else f"{row.size_class.replace('-', '–')} replicas"


def _by_day(report: Report) -> Markup:
    most = max((row.deleted_p99_ms or 0 for row in report.slo.shown), default=0)

    def bar(row: DailySlo) -> Markup:
        return charts.share_bar(row.deleted_p99_ms or 0, most, duration(row.deleted_p99_ms), "h-deleted")

    columns: list[Column[DailySlo]] = [
        Column("Day", "name", lambda row: cells.day(row.day)),
        Column("Deletions", "number", lambda row: cells.number(row.deletions)),
        Column("Done", "number", lambda row: cells.number(row.done)),
        Column("Open", "number", lambda row: cells.number(row.open)),
        Column("Let go", "number", lambda row: cells.number(row.let_go)),
        Column("Vanished", "number", lambda row: cells.number(row.vanished)),
        Column("Deleted, 99 %", "plot", bar),
        Column("Deleted 50 %", "number", lambda row: cells.duration(row.deleted_p50_ms)),
        Column("99 %", "number", lambda row: cells.duration(row.deleted_p99_ms)),
        Column("Last byte 50 %", "number", lambda row: cells.duration(row.reclaimed_p50_ms)),
        Column("99 %", "number", lambda row: cells.duration(row.reclaimed_p99_ms)),
        Column("Held", "number", lambda row: cells.duration(row.held_ms)),
        Column("Waited", "number", lambda row: cells.duration(row.waited_ms)),
    ]
    caption = "By the day of the mark (UTC), newest first"
    return table(caption, columns, report.slo, "day", "the newest", is_long=True)


# --- reclaimed ----------------------------------------------------------------------------------------------------


def reclaimed(report: Report) -> Section:
    bars, step, words = _bars(report)
    if not bars:
        return Section("reclaimed", "Reclaimed", None, empty_note("No bytes were reclaimed yet."))
    per_day = step >= MS_PER_DAY
    most = max(bar.size_bytes for bar in bars)
    columns: list[Column[FreedBytes]] = [
        Column("Day" if per_day else "From (UTC)", "name", lambda bar: Cell(_bar_label(bar, step), bar.at)),
        Column("", "plot", lambda bar: charts.share_bar(bar.size_bytes, most, size(bar.size_bytes))),
        Column("Reclaimed", "number", lambda bar: cells.size(bar.size_bytes)),
    ]
    if not per_day:
        columns.append(Column("Topics", "number", lambda bar: cells.number(bar.topics)))
    numbers = table(f"Reclaimed {words}", columns, Rows.of(bars), class_=COMPACT, is_long=True)
    chart = charts.bytes_over_time(bars, step)
    parts = [figure(chart, numbers, has_scale=True)]
    if report.reclaim_by_broker.total:
        parts.append(_by_broker(report.reclaim_by_broker))
    lead = (
        "Bytes by the day on which their directories were removed (UTC)."
        if per_day
        else "Bytes of a topic count from the removal of its last directory (UTC)."
    )
    return Section("reclaimed", "Reclaimed", lead, stack(*parts), size(reclaimed_bytes(report)))


def _bars(report: Report) -> tuple[Sequence[FreedBytes], int, str]:
    """Return bars by day if there are several days, from brokers' reports; else within the day, by topic."""
    days = [row for row in report.reclaim_by_day.shown if row.day is not None]
    if len(days) > 1 or not report.deletions.freed:
        in_order = sorted(days, key=lambda row: row.day.toordinal() if row.day else 0)
        bars = [
            FreedBytes((row.day.toordinal() - 719_163) * MS_PER_DAY, row.size_bytes, 0)
            for row in in_order
            if row.day is not None
        ]
        return bars, MS_PER_DAY, "by day"
    step = report.deletions.freed_step_ms
    return report.deletions.freed, step, "by minute" if step == 60_000 else f"in steps of {step_words(step)}"


def _bar_label(bar: FreedBytes, step: int) -> str:
    return instant(bar.at)[:10] if step >= MS_PER_DAY else clock(bar.at, min(step, 60_000))


def _by_broker(brokers: Rows[Reclaim]) -> Markup:
    most = max((row.size_bytes for row in brokers.shown), default=0)
    columns: list[Column[Reclaim]] = [
        Column("Broker", "name", _broker),
        Column("", "plot", lambda row: charts.share_bar(row.size_bytes, most, size(row.size_bytes))),
        Column("Reclaimed", "number", lambda row: cells.size(row.size_bytes)),
        Column("Directories", "number", lambda row: cells.number(row.directories)),
        Column("Files", "number", lambda row: cells.number(row.files)),
        Column("Failed", "number", _failed),
    ]
    return table("By broker, as each agent reported", columns, brokers, "broker", "those that reclaimed most")


def _broker(row: Reclaim) -> Cell:
    return Cell("unknown" if row.broker is None else f"broker {row.broker}", row.broker)


def _failed(row: Reclaim) -> Cell:
    failed = row.failed_directories
    return Cell(badge(number(failed), "attention") if failed else "0", failed)
