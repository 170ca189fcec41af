"""Charts of the trends: one column per period, on the same axis of days.

A period without a value is never drawn as zero. It has a ground of its own over the whole height, with the reason as
its tooltip:

    UNSEEN    hatched    no journal or no survey, or a survey that did not see everything
    NOTHING   flat       the journal was read, and has nothing to measure

What was found is drawn over the ground: a survey of half the disks may find something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.pipeline.outcomes import DONE, LET_GO, OPEN, VANISHED
from lethe.pipeline.report import svg
from lethe.pipeline.report.axes import (
    Scale,
    count_scale,
    diverging_scale,
    elapsed_scale,
    log_scale,
    period_scale,
    size_scale,
)
from lethe.pipeline.report.formatting import count, cut, day, duration, number, size
from lethe.pipeline.report.markup import Markup, el
from lethe.pipeline.report.values_trends import Period

UNSEEN: Final = "t-unseen"
NOTHING: Final = "t-nothing"
MOST_CAUSES: Final = 5
"""Causes with a colour of their own; the others are one."""
OTHERS: Final = "other causes"
_PX: Final = 120
_BAR: Final = 0.8
"""Part of a period's width that its bar has."""
_OUTCOMES: Final = ((DONE, "t-done"), (LET_GO, "t-let-go"), (VANISHED, "t-vanished"), (OPEN, "t-open"))
_QUANTILES: Final = (("median", "t-p50"), ("95 %", "t-p95"))

Key = tuple[str, str, str | None]


class Absence(NamedTuple):
    """The ground of a period without a value: class, reason, and how many things are meant."""

    class_: str
    why: str
    number: str = ""


class Block(NamedTuple):
    """A part of a stacked bar."""

    class_: str
    amount: float
    words: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart with its title; `chart` is None if no period has a value, and `note` says so."""

    title: str
    explains: str
    chart: Markup | None
    keys: tuple[Key, ...] = ()
    note: str | None = None


def panels(periods: Sequence[Period]) -> tuple[Panel, ...]:
    """Return the charts of two or more periods."""
    return (
        _time_to_delete(periods),
        _waits(periods),
        _deletions(periods),
        _reclaimed(periods),
        _owed(periods),
        _found_and_gone(periods),
    )


def pattern() -> Markup:
    """Return the hatching of UNSEEN, once for the page."""
    return svg.definitions(svg.hatching("unseen", el("path", d="M0 6L6 0", class_="unseen-line")))


def name(period: Period) -> str:
    """Return the day of a period, or its first and last."""
    return day(period.first) if period.days == 1 else f"{day(period.first)} to {day(period.last)}"


def no_deletions(period: Period) -> Absence | None:
    """Return why the period has no deletion, or None if it has one."""
    if period.deletions:
        return None
    return Absence(NOTHING, "no deletion was marked") if period.days_recorded else Absence(UNSEEN, "no journal")


def no_durations(period: Period) -> Absence | None:
    """Return why no duration of the period is known, or None."""
    if period.measured:
        return None
    return no_deletions(period) or Absence(NOTHING, "no deletion is done yet", f" ({number(period.deletions)} marked)")


def no_bytes(period: Period) -> Absence | None:
    """Return why it is unknown how many bytes were reclaimed, or None."""
    if period.reclaimed_bytes is not None:
        return None
    return Absence(NOTHING, "no removal was reported") if period.days_recorded else Absence(UNSEEN, "no journal")


def no_debts(period: Period) -> Absence | None:
    """Return why it is unknown how many bytes were owed, or None."""
    if period.owed_bytes is not None:
        return None
    if period.debts:
        return Absence(UNSEEN, "debts of unknown size", f" ({number(period.debts)})")
    return Absence(NOTHING, "no debt was recorded") if period.days_recorded else Absence(UNSEEN, "no journal")


def not_surveyed(period: Period) -> Absence | None:
    """Return why leftovers of the period may be unseen, or None."""
    if not period.surveys.surveys:
        return Absence(UNSEEN, "no survey")
    return None if period.surveys.saw_everything else Absence(UNSEEN, "not every disk or place was seen")


# --- panels -------------------------------------------------------------------------------------------------------


def _time_to_delete(periods: Sequence[Period]) -> Panel:
    title, explains = "Time to delete", "from the mark to done, logarithmic; by the day of the mark"
    known = [value for each in periods for value in (each.p50_ms, each.p95_ms) if value is not None]
    if not known:
        return Panel(title, explains, None, note="No deletion of these days is done.")
    vertical = log_scale(min(known) / 2, max(known) * 2)
    scale = period_scale([each.first for each in periods])
    marks: list[Markup] = []
    for which, ((words, class_), values) in enumerate(
        zip(_QUANTILES, ([each.p50_ms for each in periods], [each.p95_ms for each in periods]), strict=True)
    ):
        points = [
            None if value is None else (scale.at(place + 0.5), round(_PX - vertical.at(value) * _PX / 100, 1))
            for place, value in enumerate(values)
        ]
        marks.append(svg.broken_line(points, _PX, class_))
        for period, value, point in zip(periods, values, points, strict=True):
            if point is not None:
                is_whole = not period.outcomes.get(OPEN)
                said = f"{name(period)}: {words} {duration(value)}{_of(period, which)}"
                marks.append(svg.dot(*point, class_ if is_whole else f"{class_} t-hollow", said))
    keys: list[Key] = [(class_, words, None) for words, class_ in _QUANTILES]
    if any(each.measured and each.outcomes.get(OPEN) for each in periods):
        keys.append(("t-p50 t-hollow", "Some still open: may rise", "open deletions have no duration yet"))
    return _panel(title, explains, periods, vertical, marks, no_durations, keys)


def _of(period: Period, which: int) -> str:
    if which:
        return ""
    rest = period.deletions - period.measured
    return f" of {count(period.measured, 'deletion')}" + (f"; {number(rest)} without a duration" if rest else "")


def _waits(periods: Sequence[Period]) -> Panel:
    title, explains = "Causes of waiting", "all deletions' waits added up, by the day of the mark"
    sums: Counter[str] = Counter()
    for each in periods:
        sums.update(each.waits_ms)
    unmeasured = sum(each.unmeasured_waits for each in periods)
    if not sums:
        said = "No wait that is over was recorded." if any(each.deletions for each in periods) else "No deletions."
        more = f" {count(unmeasured, 'deletion')} with a wait that lasts." if unmeasured else ""
        return Panel(title, explains, None, note=said + more)
    first = [cause for cause, _ in sorted(sums.items(), key=lambda item: (-item[1], item[0]))][:MOST_CAUSES]
    classes = {cause: f"t-c{place + 1}" for place, cause in enumerate(first)}

    def blocks(period: Period) -> Iterable[Block]:
        for cause in first:
            yield Block(classes[cause], period.waits_ms.get(cause, 0), cut(cause, 80))
        rest = sum(ms for cause, ms in period.waits_ms.items() if cause not in classes)
        yield Block("t-others", rest, OTHERS)

    most = max(sum(each.waits_ms.values()) for each in periods)
    vertical = elapsed_scale(most * 1.06, wanted=4)
    keys: list[Key] = [(classes[cause], cut(cause, 40), None) for cause in first]
    keys += [("t-others", OTHERS, None)] if len(sums) > len(first) else []
    marks = _bars(periods, vertical, blocks, duration)
    if unmeasured:
        keys.append(("t-still", "A wait lasts: not in the bar", "or its end was not recorded"))
    marks += _marked(periods, _unmeasured)
    return _panel(title, explains, periods, vertical, marks, no_deletions, keys)


def _unmeasured(period: Period) -> str | None:
    many = period.unmeasured_waits
    return f"{count(many, 'deletion')} with a wait of unknown length" if many else None


def _deletions(periods: Sequence[Period]) -> Panel:
    title, explains = "Deletions", "by the day of the mark, and by what became of them"
    if not any(each.deletions for each in periods):
        return Panel(title, explains, None, note="No deletion was recorded on these days.")
    vertical = count_scale(max(each.deletions for each in periods))
    there = [(outcome, class_) for outcome, class_ in _OUTCOMES if any(each.outcomes.get(outcome) for each in periods)]

    def blocks(period: Period) -> Iterable[Block]:
        return (Block(class_, period.outcomes.get(outcome, 0), outcome) for outcome, class_ in there)

    marks = _bars(periods, vertical, blocks, number)
    keys: list[Key] = [(class_, outcome.capitalize(), None) for outcome, class_ in there]
    return _panel(title, explains, periods, vertical, marks, no_deletions, keys)


def _reclaimed(periods: Sequence[Period]) -> Panel:
    title, explains = "Bytes reclaimed", "by the day of their removal, as agents report it"
    if all(each.reclaimed_bytes is None for each in periods):
        return Panel(title, explains, None, note="No removal was reported on these days.")
    vertical = size_scale(max(each.reclaimed_bytes or 0 for each in periods))

    def blocks(period: Period) -> Iterable[Block]:
        yield Block("b-bytes", period.reclaimed_bytes or 0, "reclaimed")

    return _panel(title, explains, periods, vertical, _bars(periods, vertical, blocks, size), no_bytes)


def _owed(periods: Sequence[Period]) -> Panel:
    title, explains = "Bytes owed", "by absent brokers, at the end of the period"
    if all(each.debts is None for each in periods):
        return Panel(title, explains, None, note="No debt was recorded on these days, or before.")
    vertical = size_scale(max(each.owed_bytes or 0 for each in periods))

    def blocks(period: Period) -> Iterable[Block]:
        yield Block("t-owed", period.owed_bytes or 0, f"owed, {count(period.debts or 0, 'debt')}")

    bars, marked = _bars(periods, vertical, blocks, size), _marked(periods, _unsized)
    keys: list[Key] = [("t-still", "At least: some debts have no known size", None)] if marked else []
    return _panel(title, explains, periods, vertical, [*bars, *marked], no_debts, keys)


def _unsized(period: Period) -> str | None:
    is_part = period.unsized_debts and period.owed_bytes is not None
    return f"at least: {count(period.unsized_debts, 'debt')} of unknown size" if is_part else None


def _found_and_gone(periods: Sequence[Period]) -> Panel:
    title, explains = "Leftovers found and gone", "up: first seen by a survey; down: no longer there"
    if not any(each.surveys.surveys for each in periods):
        return Panel(title, explains, None, note="No survey was taken on these days: what is left over is unseen.")
    up = max(each.surveys.found or 0 for each in periods)
    down = max(each.surveys.gone or 0 for each in periods)
    vertical = diverging_scale(up, down)
    scale = period_scale([each.first for each in periods])
    zero = round(_PX - vertical.at(0) * _PX / 100, 1)
    marks = [svg.horizontal(zero, "base")]
    for place, period in enumerate(periods):
        for many, class_, words in (
            (period.surveys.found, "t-found", "found"),
            (-(period.surveys.gone or 0), "t-gone", "gone"),
        ):
            if many:
                y = round(_PX - vertical.at(many) * _PX / 100, 1)
                said = f"{name(period)}: {number(abs(many))} {words}"
                marks.append(_bar(scale, place, min(y, zero), abs(zero - y), class_, said))
    keys: list[Key] = [("t-found", "Found", None), ("t-gone", "Gone", None)]
    return _panel(title, explains, periods, vertical, marks, not_surveyed, keys)


# --- parts --------------------------------------------------------------------------------------------------------


def _panel(
    title: str,
    explains: str,
    periods: Sequence[Period],
    vertical: Scale,
    marks: Sequence[Markup],
    absent: Callable[[Period], Absence | None],
    keys: Sequence[Key] = (),
) -> Panel:
    scale = period_scale([each.first for each in periods])
    found = [(place, period, absence) for place, period in enumerate(periods) if (absence := absent(period))]
    grounds = [
        svg.rect(
            scale.at(place),
            scale.at(place + 1) - scale.at(place),
            0,
            _PX,
            absence.class_,
            f"{name(period)}: {absence.why}{absence.number}",
        )
        for place, period, absence in found
    ]
    reasons: dict[str, dict[str, None]] = {}
    for _, _, absence in found:
        reasons.setdefault(absence.class_, {})[absence.why] = None
    chart = svg.picture(
        title,
        f"{explains}. {len(periods)} periods from {name(periods[0])} to {name(periods[-1])}; {len(found)} of them "
        "without a value, or with a value that is not whole. The table has the numbers.",
        _PX + svg.LABELS_PX,
        *grounds,
        svg.left_axis(vertical, _PX),
        svg.bottom_axis(scale, _PX),
        *marks,
    )
    grounds_keys = [(class_, _first_upper(", ".join(why)), None) for class_, why in reasons.items()]
    return Panel(title, explains, chart, (*keys, *grounds_keys))


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _bars(
    periods: Sequence[Period],
    vertical: Scale,
    blocks: Callable[[Period], Iterable[Block]],
    words: Callable[[float | None], str],
) -> list[Markup]:
    """Draw the blocks of each period on each other, the first at the bottom."""
    scale = period_scale([each.first for each in periods])
    made = []
    for place, period in enumerate(periods):
        below = 0.0
        for block in blocks(period):
            if block.amount <= 0:
                continue
            top = _PX - vertical.at(below + block.amount) * _PX / 100
            tall = max(_PX - vertical.at(below) * _PX / 100 - top, 1.0)
            said = f"{name(period)}: {words(block.amount)} {block.words}"
            made.append(_bar(scale, place, top, tall, block.class_, said))
            below += block.amount
    return made


def _bar(scale: Scale, place: int, top: float, tall: float, class_: str, words: str) -> Markup:
    left, right = scale.at(place), scale.at(place + 1)
    inset = (right - left) * (1 - _BAR) / 2
    return svg.rect(left + inset, (right - left) * _BAR, round(top, 1), round(max(tall, 1), 1), class_, words)


def _marked(periods: Sequence[Period], words: Callable[[Period], str | None]) -> list[Markup]:
    """Draw a mark at the top of the periods that have words."""
    scale = period_scale([each.first for each in periods])
    return [
        svg.dot(scale.at(place + 0.5), 4, "t-still", f"{name(period)}: {said}")
        for place, period in enumerate(periods)
        if (said := words(period)) is not None
    ]
