"""The section with a row for each deletion: a table of the first of them, and the data of all for the page's script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from lethe.pipeline.outcomes import ENDED_AT, OPEN, VANISHED
from lethe.pipeline.report import cells, deletion_data, timeline
from lethe.pipeline.report.components import (
    Section,
    badge,
    code,
    command,
    details,
    empty_note,
    legend,
    sentences,
    stack,
)
from lethe.pipeline.report.deletion_data import PackedDeletions, pack
from lethe.pipeline.report.formatting import count, number
from lethe.pipeline.report.html_table import Cell, Column, left_out_note, table
from lethe.pipeline.report.markup import Markup, el, join
from lethe.pipeline.report.summary import is_surveyed_since
from lethe.pipeline.report.values import DeletionSpan, Interval, Report, Rows
from lethe.protocol.shell_words import option

WITHOUT_SCRIPT: Final = 200
"""Maximum rows where the page's script does not run."""
LINES: Final = 1000
"""Maximum lines of the journal that the command prints; a deletion has some dozens."""
_FIRST: Final = "those still open, then those that took longest"
_SHOWN: Final = "those still open, the slowest, and the newest"
DELETED: Final = "from the mark until its znodes were gone"
RECLAIMED: Final = "from the mark until the last directory was removed"


def timelines(report: Report) -> Section:
    deletions = report.deletions
    spans = deletions.shown
    tally = number(deletions.total)
    if not spans:
        return Section("timelines", "Timelines", None, empty_note("No deletion was recorded."), tally)
    plan = timeline.plan(spans, report.tenures.shown)
    ordered = sorted(spans, key=lambda span: (span.outcome in ENDED_AT, -_length(span), span.topic or ""))
    packed = pack(ordered, deletions, plan, _lines_command(report))
    first = ordered[:WITHOUT_SCRIPT]
    body = stack(
        timeline.shared(plan),
        legend(_keys(report, plan)),
        table(
            "Each deletion by its phases, those still open first, then the longest first",
            _columns(plan),
            Rows.of(first),
            class_="timelines",
            is_long=True,
        ),
        el("script", packed.text, type="text/plain", id="deletion-data"),
        el("p", _axis_note(plan), class_="left-out"),
        _without_script(len(first), packed, deletions.total),
        _beyond_the_page(report, packed),
        _vanished(report),
        details(
            "All times of " + ("this deletion" if len(first) == 1 else f"these {count(len(first), 'deletion')}"),
            _times(first),
            class_="without-script",
        ),
    )
    lead = (
        "One row per deletion: each part of a bar begins when the deletion reached that phase. "
        "The line below a bar is the time in which replicas waited for a broker."
    )
    return Section("timelines", "Timelines", lead, body, tally)


def _columns(plan: timeline.TimelinePlan) -> list[Column[DeletionSpan]]:
    return [
        Column("Topic", "name", lambda span: cells.topic(span.topic)),
        Column(timeline.axis(plan), "plot", lambda span: Cell(timeline.bar(plan, span), timeline.begin(span))),
        Column("Deleted after", "number", lambda span: cells.duration(span.deleted_ms), DELETED),
        Column("Bytes gone after", "number", lambda span: cells.duration(span.reclaimed_ms), RECLAIMED),
        Column("Waited", "number", lambda span: cells.duration(span.waited_ms or None), "for brokers"),
        Column("Replicas", "number", lambda span: cells.number(span.replicas)),
        Column("Freed", "number", lambda span: cells.size(span.freed_bytes)),
        Column("Outcome", "text", _outcome),
    ]


def _keys(report: Report, plan: timeline.TimelinePlan) -> list[tuple[str, str, str | None]]:
    keys: list[tuple[str, str, str | None]] = [
        (phase.class_, phase.name, phase.explains) for phase in timeline.PHASES if phase.name is not None
    ]
    keys += [(timeline.WAIT_CLASS, "Waited for a broker", None)]
    keys += [(timeline.OPEN_CLASS, "Open", "not over")] if report.deletions.open else []
    keys += [("k-change", "Controller elected", None)] if plan.changes else []
    return keys


def _lines_command(report: Report) -> str:
    return f"lethe pipeline show controller_events {option('--lake', report.lake)} --limit {LINES}"


def _without_script(shown: int, packed: PackedDeletions, total: int) -> Markup | None:
    """Return the note of a page whose script does not run."""
    if shown >= packed.deletions:
        return None
    whole = "all" if packed.deletions >= total else number(packed.deletions)
    note = left_out_note(shown, total, "deletion", _FIRST)
    return el("p", note, f" With JavaScript the page shows {whole}.", class_="left-out without-script")


def _beyond_the_page(report: Report, packed: PackedDeletions) -> Markup | None:
    """Return how many deletions the page does not have, and where they are."""
    total = report.deletions.total
    which = _SHOWN if packed.deletions == len(report.deletions.shown) else _FIRST
    note = left_out_note(packed.deletions, total, "deletion", which)
    if note is None:
        return None
    words = f" The lake has the other {number(total - packed.deletions)}: choose days with --from and --to, or "
    all_of_them = f"lethe pipeline show deletion_spans {option('--lake', report.lake)} --limit {total}"
    return el("p", note, words, command(all_of_them), class_="left-out")


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


def _outcome(span: DeletionSpan) -> Cell:
    outcome = span.outcome or OPEN
    title = f"last phase: {span.phase}" if span.phase else None
    if outcome == VANISHED:
        title = "another process removed its znodes; bytes may remain on disks"
    return Cell(badge(outcome, deletion_data.OUTCOME_CLASSES.get(outcome, "attention")), outcome, title)


def _times(spans: Sequence[DeletionSpan]) -> Markup:
    def reached(place: int, span: DeletionSpan) -> Cell:
        return cells.elapsed(timeline.milestones(span)[place][1], timeline.begin(span))

    phases = enumerate(name for name, _ in timeline.milestones(spans[0]))

    columns: list[Column[DeletionSpan]] = [
        Column("Topic", "name", lambda span: cells.topic(span.topic)),
        Column("Topic id", "code", lambda span: code(span.topic_id)),
        Column("Marked (UTC)", "time", lambda span: cells.instant(span.marked_at)),
        *(Column(f"{name.capitalize()} after", "number", partial(reached, place)) for place, name in phases),
        Column("Acknowledged replicas", "number", _acknowledged),
        Column("Held by", "text", lambda span: _said(span.held, deletion_data.held)),
        Column("Waited for", "text", lambda span: _said(span.waited_for, deletion_data.waited)),
        Column("Controllers", "text", lambda span: ", ".join(map(str, span.controllers[:6]))),
    ]
    return table("When each deletion reached each phase", columns, Rows.of(spans), is_long=True)


def _acknowledged(span: DeletionSpan) -> Cell:
    return Cell(f"{number(span.acked_replicas)} of {number(span.replicas)}", span.acked_replicas)


def _said(intervals: Sequence[Interval], words: Callable[[Interval], str]) -> Markup | None:
    return sentences(map(words, intervals), 3) if intervals else None


def _length(span: DeletionSpan) -> int:
    return (timeline.end(span) or 0) - (timeline.begin(span) or 0)
