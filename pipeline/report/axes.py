"""Scales: the position of a value on an axis, in percent of its length, and which values have a label."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple

from lethe.pipeline.report.formatting import MS_PER_DAY, clock, number, round_size, step_words

_S: Final = 1000
_MIN: Final = 60 * _S
_H: Final = 60 * _MIN
_TIME_STEPS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(_S, 2 * _S, 5 * _S, 10 * _S, 15 * _S, 30 * _S),
    *(_MIN, 2 * _MIN, 5 * _MIN, 10 * _MIN, 15 * _MIN, 30 * _MIN),
    *(_H, 2 * _H, 3 * _H, 6 * _H, 12 * _H),
    *(days * MS_PER_DAY for days in (1, 2, 5, 7, 14, 28, 56, 91, 182, 364)),
)
LOG_TICKS: Final = (1, 10, 100, _S, 10 * _S, _MIN, 10 * _MIN, _H, 6 * _H, MS_PER_DAY, 7 * MS_PER_DAY, 30 * MS_PER_DAY)
FINE_LOG_TICKS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(_S, 2 * _S, 5 * _S, 10 * _S, 20 * _S, 30 * _S),
    *(_MIN, 2 * _MIN, 5 * _MIN, 10 * _MIN, 20 * _MIN, 30 * _MIN),
    *(_H, 2 * _H, 6 * _H, 12 * _H),
    *(MS_PER_DAY, 2 * MS_PER_DAY, 7 * MS_PER_DAY, 14 * MS_PER_DAY, 30 * MS_PER_DAY),
)
"""For an axis with too few of the other ticks."""


_YEAR: Final = 350
"""Days, beyond which a day and a month are ambiguous."""
_HEADROOM: Final = 1.06
"""Length of an axis of amounts, relative to the largest amount."""
_AMOUNTS: Final = 4
"""About how many ticks such an axis has."""


class Tick(NamedTuple):
    """`place` in percent. The labels of minor ticks are hidden where space is short."""

    place: float
    label: str
    is_minor: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to percent: linear, or logarithmic from 1 ms on."""

    start: float
    end: float
    ticks: tuple[Tick, ...] = ()
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return the value's position, from 0 to 100."""
        low, high, here = self.start, self.end, value
        if self.is_log:
            low, high, here = (math.log10(max(each, 1)) for each in (low, high, here))
        if high <= low:
            return 0.0
        return min(max((here - low) / (high - low), 0.0), 1.0) * 100


def clock_scale(start: int, end: int, *, wanted: int = 6) -> Scale:
    """Return a scale of instants, with the time of day or the date at round ones."""
    step = time_step(end - start, wanted)
    first = -(-start // step) * step
    label = _with_dates(start, end) if step < MS_PER_DAY else clock
    return _linear(start, end, first, step, lambda value: label(int(value), step))


def elapsed_scale(end: float, *, wanted: int = 6) -> Scale:
    """Return a linear scale of elapsed time, from 0 to `end` milliseconds."""
    step = time_step(end, wanted)
    return _linear(0, max(end, 1), 0, step, lambda value: step_words(value) if value else "0")


def log_scale(start: float, end: float) -> Scale:
    """Return a logarithmic scale of elapsed time, in milliseconds."""
    scale = Scale(max(start, 1), max(end, 10), is_log=True)
    values = [each for each in LOG_TICKS if scale.start <= each <= scale.end]
    if len(values) < 3:
        values = [each for each in FINE_LOG_TICKS if scale.start <= each <= scale.end]
    ticks = tuple(Tick(scale.at(each), step_words(each)) for each in values)
    return Scale(scale.start, scale.end, _with_minor_ticks(ticks), is_log=True)


def count_scale(most: float) -> Scale:
    """Return a scale of whole numbers, from 0."""
    return diverging_scale(most, 0)


def size_scale(most: float) -> Scale:
    """Return a scale of bytes, from 0."""
    return diverging_scale(most, 0, lambda value: round_size(value) if value else "0")


def diverging_scale(up: float, down: float, label: Callable[[float], str] = number) -> Scale:
    """Return a scale from `down` below zero to `up` above it, labelled without a sign."""
    step = max(round_step(max(up + down, 1) / _AMOUNTS), 1)
    low, high = -down * _HEADROOM, max(up, 0 if down else 1) * _HEADROOM
    first = -math.floor(down / step) * step
    return _linear(low, high, first, step, lambda value: label(abs(value)))


def period_scale(days: Sequence[date]) -> Scale:
    """Return a scale of periods of equal length that begin on these days: the first is from 0 to 1. Some have a label,
    with the year where a day and a month are ambiguous."""
    has_year = len(days) > 1 and (days[-1] - days[0]).days > _YEAR
    every = -(-len(days) // (4 if has_year else 6))
    scale = Scale(0, max(len(days), 1))
    labels = ((place, _day_label(days[place], has_year)) for place in range(0, len(days), every))
    ticks = tuple(Tick(scale.at(place), label, nth % 2 == 1) for nth, (place, label) in enumerate(labels))
    return Scale(scale.start, scale.end, ticks)


def _day_label(value: date, has_year: bool) -> str:
    return value.isoformat() if has_year else f"{value:%d %b}".lstrip("0")


def time_step(extent: float, wanted: int) -> int:
    """Return a round distance between ticks, in milliseconds, that gives about `wanted` ticks at most."""
    for step in _TIME_STEPS:
        if extent / step <= wanted:
            return step
    return _TIME_STEPS[-1] * math.ceil(extent / _TIME_STEPS[-1] / wanted)


def round_step(about: float) -> float:
    """Return the least of 1, 2, 5 times a power of ten that is not less than `about`."""
    if about <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(about))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= about * 0.999999), 10 * power)


def _linear(start: float, end: float, first: float, step: float, label: Callable[[float], str]) -> Scale:
    scale = Scale(start, max(end, start + 1))
    count = math.floor((end - first) / step + 1e-9) + 1
    ticks = tuple(
        Tick(scale.at(first + number * step), label(first + number * step), number % 2 == 1)
        for number in range(max(count, 0))
    )
    return Scale(scale.start, scale.end, ticks)


def _with_minor_ticks(ticks: tuple[Tick, ...]) -> tuple[Tick, ...]:
    """Return the ticks; one that is close to the labelled tick before it becomes minor."""
    kept, last = [], -100.0
    for tick in ticks:
        is_minor = tick.place - last < 18
        kept.append(tick._replace(is_minor=is_minor))
        last = last if is_minor else tick.place
    return tuple(kept)


def _with_dates(start: int, end: int) -> Callable[[int, int], str]:
    """Return a label function: times of day, and at midnight the date if there are several days."""
    if start // MS_PER_DAY == end // MS_PER_DAY:
        return clock
    return lambda ms, step: clock(ms, MS_PER_DAY if ms % MS_PER_DAY == 0 else step)
