"""Sections about deletions: progress, timelines, durations, reclaimed bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.pipeline.outcomes import DONE, ENDED_AT, LET_GO, OPEN, VANISHED
from lethe.pipeline.report import charts, timeline
from lethe.pipeline.report.axes import Scale, time_step
from lethe.pipeline.report.components import (
    Section,
    badge,
    bytes_cell,
    code,
    details,
    duration_cell,
    elapsed_cell,
    empty_note,
    figure,
    instant_cell,
    legend,
    number_cell,
    sentences,
    stack,
    topic_cell,
)
from lethe.pipeline.report.formatting import MS_PER_DAY, clock, count, day, duration, instant, number, size, step_words
from lethe.pipeline.report.html_table import Cell, CellContent, Column, left_out_note, table
from lethe.pipeline.report.markup import Markup, el, join
from lethe.pipeline.report.summary import is_surveyed_since, latency, reclaimed_bytes
from lethe.pipeline.report.values import Deletions, DeletionSpan, FreedBytes, Interval, Latency, Reclaim, Report, Rows

MEASURES: Final = (
    ("deleted", "From the mark to deleted", "h-deleted", "every replica acknowledged, the topic's znodes gone"),
    ("reclaimed", "From the mark to the last byte", "h-reclaimed", "deleted, and every directory removed"),
)
_CLASSES: Final = {DONE: "good", LET_GO: "quiet"}
_WHICH: Final = "those still open, the slowest, and the newest"


# --- progress -----------------------------------------------------------------------------------------------------


def progress(report: Report) -> Section:
    deletions = report.deletions
    if deletions.progress is None:
        return Section("progress", "Progress", None, empty_note("No deletion was recorded."))
    chart = charts.progress_chart(deletions.progress, deletions.total)
    keys = legend((class_, name, None) for _, name, class_ in charts.PROGRESS_LINES)
    lead = (
        "How many deletions had reached each phase, over time (UTC). The area between two lines shows the deletions "
        "between these phases."
    )
    return Section("progress", "Progress", lead, figure(chart, _progress_table(deletions), keys, has_scale=True))


def _progress_table(deletions: Deletions) -> Markup:
    found = deletions.progress
    assert found is not None
    steps = len(found.reached[charts.PROGRESS_LINES[0][0]])
    extent = steps * found.step_ms
    width = max(time_step(extent, 9), found.step_ms)
    ends = range(found.start // width * width + width, found.start + extent + width, width)
    rows = []
    for end in ends:
        place = min((end - found.start) // found.step_ms, steps) - 1
        values = [found.reached[column][max(place, 0)] for column, _, _ in charts.PROGRESS_LINES]
        rows.append([Cell(_label(end, width), end), *(number_cell(value) for value in values)])
    columns = [Column("By", "name"), *(Column(name, "number") for _, name, _ in charts.PROGRESS_LINES)]
    return table("Deletions that had reached each phase", columns, rows, class_="compact")


def _label(ms: int, step_ms: int) -> str:
    return clock(ms, step_ms) if step_ms >= MS_PER_DAY or ms % MS_PER_DAY else clock(ms, MS_PER_DAY)


# --- timelines ----------------------------------------------------------------------------------------------------


def timelines(report: Report) -> Section:
    deletions = report.deletions
    spans = deletions.shown
    tally = number(deletions.total)
    if not spans:
        return Section("timelines", "Timelines", None, empty_note("No deletion was recorded."), tally)
    plan = timeline.plan(spans, report.tenures.shown)
    ordered = sorted(spans, key=lambda span: (span.outcome in ENDED_AT, -_length(span), span.topic))
    rows = [_timeline_row(plan, span) for span in ordered]
    columns = [
        Column("Topic", "name"),
        Column(timeline.axis(plan), "plot"),
        Column("Deleted after", "number", "from the mark until its znodes were gone"),
        Column("Bytes gone after", "number", "from the mark until the last directory was removed"),
        Column("Waited", "number", "for brokers"),
        Column("Replicas", "number"),
        Column("Freed", "number"),
        Column("Outcome"),
    ]
    keys: list[tuple[str, str, str | None]] = [
        (phase.class_, phase.name, phase.explains) for phase in timeline.PHASES if phase.name is not None
    ]
    keys += [("p-wait", "Waited for a broker", None)]
    keys += [("p-open", "Open", "not over")] if deletions.open else []
    keys += [("k-change", "Controller elected", None)] if plan.changes else []
    notes = join(
        (
            left_out_note(len(spans), deletions.total, "deletion", _WHICH),
            _axis_note(plan),
        ),
        " ",
    )
    body = stack(
        timeline.shared(plan),
        legend(keys),
        table(
            "Each deletion by its phases, those still open first, then the longest first",
            columns,
            rows,
            class_="timelines",
            is_long=True,
        ),
        el("p", notes, class_="left-out"),
        _vanished(report),
        details(
            "All times of " + ("this deletion" if len(spans) == 1 else f"these {count(len(spans), 'deletion')}"),
            _times(ordered),
        ),
    )
    lead = (
        "One row per deletion: each part of a bar begins when the deletion reached that phase. "
        "The line below a bar is the time in which replicas waited for a broker."
    )
    return Section("timelines", "Timelines", lead, body, tally)


def _vanished(report: Report) -> Markup | None:
    many, last = report.deletions.vanished, report.deletions.last_vanished_at
    if not many:
        return None
    ended = count(many, "deletion has", "deletions have")
    if is_surveyed_since(report, last):
        where: Markup = join(
            ("What the newest survey found of that is under ", el("a", "Left over", href="#leftovers"), ".")
        )
    else:
        where = join(
            ("No survey has looked since: ", el("code", "lethe survey --out"), " on every broker's host finds them.")
        )
    return el(
        "p",
        f"{ended} vanished: another process removed the topic's znodes, and the controller sends brokers no further "
        "requests. Bytes may remain on disks. ",
        where,
    )


def _axis_note(plan: timeline.TimelinePlan) -> str:
    if plan.is_clock:
        return "All rows have one clock, UTC."
    if plan.scale.is_log:
        return "Each row begins at its own mark. The axis is logarithmic: a few took very much longer than the rest."
    return "Each row begins at its own mark."


def _timeline_row(plan: timeline.TimelinePlan, span: DeletionSpan) -> list[CellContent]:
    return [
        topic_cell(span.topic),
        Cell(timeline.bar(plan, span), timeline.begin(span)),
        duration_cell(span.deleted_ms),
        duration_cell(span.reclaimed_ms),
        duration_cell(span.waited_ms or None),
        number_cell(span.replicas),
        bytes_cell(span.freed_bytes),
        _outcome(span),
    ]


def _outcome(span: DeletionSpan) -> Cell:
    outcome = span.outcome or OPEN
    title = f"last phase: {span.phase}" if span.phase else None
    if outcome == VANISHED:
        title = "another process removed its znodes; bytes may remain on disks"
    return Cell(badge(outcome, _CLASSES.get(outcome, "attention")), outcome, title)


def _times(spans: Sequence[DeletionSpan]) -> Markup:
    names = [name for name, _ in timeline.milestones(spans[0])] if spans else []
    columns = [
        Column("Topic", "name"),
        Column("Topic id", "code"),
        Column("Marked (UTC)", "time"),
        *(Column(name.capitalize() + " after", "number") for name in names),
        Column("Acknowledged replicas", "number"),
        Column("Held by"),
        Column("Waited for"),
        Column("Controllers"),
    ]
    rows = [
        [
            topic_cell(span.topic),
            code(span.topic_id),
            instant_cell(span.marked_at),
            *(elapsed_cell(ms, timeline.begin(span)) for _, ms in timeline.milestones(span)),
            Cell(f"{number(span.acked_replicas)} of {number(span.replicas)}", span.acked_replicas),
            sentences((_held(each) for each in span.held), 3) if span.held else None,
            sentences((_waited(each) for each in span.waited_for), 3) if span.waited_for else None,
            ", ".join(map(str, span.controllers[:6])),
        ]
        for span in spans
    ]
    return table("When each deletion reached each phase", columns, rows, is_long=True)


def _held(each: Interval) -> str:
    return f"{each.why}, {'still' if each.until is None else duration(each.ms)}"


def _waited(each: Interval) -> str:
    who = "" if each.broker is None else f"broker {each.broker}, "
    replicas = "" if each.replicas is None else f", {count(each.replicas, 'replica')}"
    return f"{who}{each.why}{replicas}, {'still' if each.until is None else duration(each.ms)}"


def _length(span: DeletionSpan) -> int:
    return (timeline.end(span) or 0) - (timeline.begin(span) or 0)


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
    rows: list[list[CellContent]] = [
        [
            each.size_class if each.size_class.isalpha() else f"{each.size_class.replace('-', '–')} replicas",
            Cell(charts.sparkline(each, scale, class_)),
            number_cell(each.deletions),
            *(duration_cell(value) for value in (each.p50, each.p90, each.p99, each.max)),
        ]
        for each in known
    ]
    columns = [Column("Size", "name"), Column("", "plot"), Column("Count", "number")]
    columns += [Column(name, "number") for name in ("50 %", "90 %", "99 %", "Max")]
    return table(f"{title}, by size of the topic", columns, rows, class_="compact")


def _by_day(report: Report) -> Markup:
    most = max((row.deleted_p99_ms or 0 for row in report.slo.shown), default=0)
    rows = [
        [
            Cell(day(row.day), day(row.day)),
            *(number_cell(each) for each in (row.deletions, row.done, row.open, row.let_go, row.vanished)),
            Cell(charts.share_bar(row.deleted_p99_ms or 0, most, duration(row.deleted_p99_ms), "h-deleted")),
            *(
                duration_cell(each)
                for each in (row.deleted_p50_ms, row.deleted_p99_ms, row.reclaimed_p50_ms, row.reclaimed_p99_ms)
            ),
            *(duration_cell(each) for each in (row.held_ms, row.waited_ms)),
        ]
        for row in report.slo.shown
    ]
    columns = [
        Column("Day", "name"),
        *(Column(name, "number") for name in ("Deletions", "Done", "Open", "Let go", "Vanished")),
        Column("Deleted, 99 %", "plot"),
        *(Column(name, "number") for name in ("Deleted 50 %", "99 %", "Last byte 50 %", "99 %", "Held", "Waited")),
    ]
    note = left_out_note(len(report.slo.shown), report.slo.total, "day", "the newest")
    return table("By the day of the mark (UTC), newest first", columns, rows, left_out=note, is_long=True)


# --- reclaimed ----------------------------------------------------------------------------------------------------


def reclaimed(report: Report) -> Section:
    bars, step, words = _bars(report)
    if not bars:
        return Section("reclaimed", "Reclaimed", None, empty_note("No bytes were reclaimed yet."))
    per_day = step >= MS_PER_DAY
    most = max(bar.size_bytes for bar in bars)
    rows = [
        [
            Cell(_bar_label(bar, step), bar.at),
            Cell(charts.share_bar(bar.size_bytes, most, size(bar.size_bytes))),
            bytes_cell(bar.size_bytes),
            *([] if per_day else [number_cell(bar.topics)]),
        ]
        for bar in bars
    ]
    columns = [Column("Day" if per_day else "From (UTC)", "name"), Column("", "plot"), Column("Reclaimed", "number")]
    if not per_day:
        columns.append(Column("Topics", "number"))
    numbers = table(f"Reclaimed {words}", columns, rows, class_="compact", is_long=True)
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
    rows = [
        [
            Cell("unknown" if row.broker is None else f"broker {row.broker}", row.broker),
            Cell(charts.share_bar(row.size_bytes, most, size(row.size_bytes))),
            bytes_cell(row.size_bytes),
            *(number_cell(value) for value in (row.directories, row.files)),
            Cell(
                badge(number(row.failed_directories), "attention") if row.failed_directories else "0",
                row.failed_directories,
            ),
        ]
        for row in brokers.shown
    ]
    columns = [Column("Broker", "name"), Column("", "plot")]
    columns += [Column(name, "number") for name in ("Reclaimed", "Directories", "Files", "Failed")]
    note = left_out_note(len(brokers.shown), brokers.total, "broker", "those that reclaimed most")
    return table("By broker, as each agent reported", columns, rows, left_out=note)
