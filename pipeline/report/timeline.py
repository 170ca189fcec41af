"""Timelines: one row per deletion, with a bar of its phases and, below it, its waits.

the deletions shown                         axis
all marked in one burst                     time of day; elections are drawn across the rows
at different times                          time since each row's mark
one takes more than 40 times the median     the same, logarithmic; the page says so
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.pipeline.outcomes import ENDED_AT, LET_GO, VANISHED
from lethe.pipeline.report import svg
from lethe.pipeline.report.axes import Scale, clock_scale, elapsed_scale, log_scale
from lethe.pipeline.report.formatting import duration, instant
from lethe.pipeline.report.markup import Markup, el, join
from lethe.pipeline.report.values import DeletionSpan, Interval, Tenure

ROW_PX: Final = 20
BAR: Final = (3.0, 9.0)
"""Top and height of a bar, in pixels."""
WAIT: Final = (14.0, 3.0)
"""Top and height of the line for a wait."""
OPEN_CLASS: Final = "p-open"
WAIT_CLASS: Final = "p-wait"
_BURST: Final = 3
"""The spans are one burst if together they last at most this many times the longest of them."""
_SKEWED: Final = 40
"""The axis is logarithmic if the longest span exceeds this multiple of the median."""


class Phase(NamedTuple):
    """A part of a bar: from the time of `column` to the next known time."""

    column: str
    class_: str
    name: str | None = None
    """The legend's text; None if the part before has the same colour."""
    explains: str | None = None


PHASES: Final = (
    Phase("marked_at", "p-held", "Held", "marked, not queued yet"),
    Phase("queued_at", "p-started", "Queued, started", "brokers are asked, and told that it goes"),
    Phase("started_at", "p-started"),
    Phase("tombstoned_at", "p-told", "Tombstoned", "live brokers' caches have dropped it"),
    Phase("acknowledged_at", "p-acked", "Acknowledged", "every replica has acknowledged"),
    Phase("znodes_gone_at", "p-gone", "Znodes gone", "its bytes go when brokers come to it"),
)
"""In the usual order. A controller sends the tombstone and the requests at the same time, so acknowledgements may come
first: the parts of a bar are in order of time."""


class Part(NamedTuple):
    """A rectangle of a row; x and width in percent."""

    class_: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class TimelinePlan:
    """How rows are drawn. With `is_clock`, the scale has instants, otherwise the time since the mark."""

    scale: Scale
    is_clock: bool
    changes: tuple[tuple[float, str], ...] = ()
    """Positions of elections on the scale, and their texts."""

    def at(self, begin_ms: int, ms: int) -> float:
        """Return the place of an instant in the row of a span with that begin."""
        return self.scale.at(ms if self.is_clock else ms - begin_ms)


def begin(span: DeletionSpan) -> int | None:
    """Return the span's first known instant."""
    return min(_known(span), default=None)


def end(span: DeletionSpan) -> int | None:
    """Return the span's last known instant."""
    return max(_known(span), default=None)


def plan(spans: Sequence[DeletionSpan], tenures: Sequence[Tenure] = ()) -> TimelinePlan:
    """Return the scale that fits these deletions."""
    lengths = [(end(span) or 0) - (begin(span) or 0) for span in spans]
    longest = max(lengths, default=0)
    first = min((b for span in spans if (b := begin(span)) is not None), default=0)
    last = max((e for span in spans if (e := end(span)) is not None), default=0)
    if last - first <= _BURST * max(longest, 1000):
        margin = max((last - first) // 50, 1)
        scale = clock_scale(first, last + margin)
        return TimelinePlan(scale, is_clock=True, changes=tuple(_changes(scale, tenures)))
    if longest > _SKEWED * statistics.median(lengths):
        return TimelinePlan(log_scale(1, longest), is_clock=False)
    return TimelinePlan(elapsed_scale(longest * 1.02), is_clock=False)


def axis(plan: TimelinePlan) -> Markup:
    """Return the axis labels, for the column head."""
    marks = join(
        el("g", el("title", words), svg.vertical(place, 15, 20, "change"), class_="changes")
        for place, words in plan.changes
    )
    title = "Time of day, UTC" if plan.is_clock else "Time since the mark"
    return svg.picture(title, "", ROW_PX, svg.tick_labels(plan.scale, 12), marks, class_="axis")


def shared(plan: TimelinePlan) -> Markup:
    """Return the background of all rows, which each row refers to."""
    lines = [svg.vertical(tick.place, 0, ROW_PX + 8, "grid") for tick in plan.scale.ticks]
    lines += [svg.vertical(place, 0, ROW_PX + 8, "change") for place, _ in plan.changes]
    ground = el("rect", width=6, height=6, class_="hatch-ground")
    hatch = svg.hatching("hatch", ground, el("path", d="M0 6L6 0", class_="hatch-line"))
    symbol = el("symbol", *lines, id="rows-behind", overflow="visible")
    return svg.definitions(hatch, symbol)


def bar(plan: TimelinePlan, span: DeletionSpan) -> Markup:
    """Draw one row."""
    drawn = [
        svg.rect(part.x, part.width, *(WAIT if part.class_ == WAIT_CLASS else BAR), part.class_)
        for part in parts(plan, span)
    ]
    behind = el("use", href="#rows-behind", width="100%", height="100%")
    return svg.picture(describe(span), "", ROW_PX, behind, *drawn, class_="row")


def parts(plan: TimelinePlan, span: DeletionSpan) -> list[Part]:
    """Return the parts of a row: the phases, then the waits."""
    times = _known(span)
    if not times:
        return []
    first, last = min(times), max(times)
    found: list[Part] = []
    reached = [(getattr(span, phase.column), place) for place, phase in enumerate(PHASES)]
    known = sorted((ms, place) for ms, place in reached if ms is not None)
    for number, (ms, place) in enumerate(known):
        until = known[number + 1][0] if number + 1 < len(known) else last
        if until > ms:
            start = plan.at(first, ms)
            found.append(Part(PHASES[place].class_, start, max(plan.at(first, until) - start, 0.2)))
    is_open = span.outcome not in ENDED_AT
    if is_open:
        start = plan.at(first, last)
        found.append(Part(OPEN_CLASS, start, 100 - start))
    lasts_until = None if is_open else last
    return found + [_wait(plan, first, each, lasts_until) for each in span.waited_for if each.since is not None]


def describe(span: DeletionSpan) -> str:
    """Return the row as text."""
    start = begin(span)
    if start is None:
        return "no time is known"
    words = [f"marked {instant(span.marked_at)}"]
    for name, ms in milestones(span):
        if ms is not None:
            words.append(f"{name} after {duration(ms - start)}")
    words += [f"waited for {_who(each)} {duration(each.ms)}".rstrip(" –") for each in span.waited_for]
    return "; ".join(words)


def milestones(span: DeletionSpan) -> tuple[tuple[str, int | None], ...]:
    """Return the phases and outcomes of the span, each with its time."""
    return (
        ("queued", span.queued_at),
        ("started", span.started_at),
        ("tombstoned", span.tombstoned_at),
        ("acknowledged", span.acknowledged_at),
        ("znodes gone", span.znodes_gone_at),
        ("bytes gone", span.bytes_gone_at),
        (LET_GO, span.let_go_at),
        (VANISHED, span.vanished_at),
    )


def _wait(plan: TimelinePlan, first: int, each: Interval, lasts_until: int | None) -> Part:
    """Return the line of a wait; one that lasts goes on to `lasts_until`, or to the edge."""
    assert each.since is not None
    start = plan.at(first, each.since)
    ends = lasts_until if each.until is None else each.until
    stop = 100.0 if ends is None else plan.at(first, ends)
    return Part(WAIT_CLASS, start, max(stop - start, 0.4))


def _who(each: Interval) -> str:
    return "brokers" if each.broker is None else f"broker {each.broker}"


def _changes(scale: Scale, tenures: Sequence[Tenure]) -> list[tuple[float, str]]:
    """Return the elections within the scale."""
    return [
        (scale.at(row.elected_at), f"controller {row.controller} elected, epoch {row.epoch}, {instant(row.elected_at)}")
        for row in sorted(tenures, key=lambda row: row.elected_at or 0)
        if row.elected_at is not None and scale.start < row.elected_at < scale.end
    ]


def _known(span: DeletionSpan) -> list[int]:
    found = [span.marked_at, *(ms for _, ms in milestones(span)), span.last_ack_at, span.done_at]
    return [ms for ms in found if ms is not None]
