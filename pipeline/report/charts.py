"""Charts: progress over time, distributions of durations, bytes over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from lethe.pipeline.report import svg
from lethe.pipeline.report.axes import Scale, clock_scale, count_scale, log_scale, size_scale
from lethe.pipeline.report.formatting import clock, count, duration, size, step_words
from lethe.pipeline.report.markup import Markup, el, join
from lethe.pipeline.report.read_spans import BINS_PER_DECADE
from lethe.pipeline.report.values import FreedBytes, Latency, PhaseProgress

PROGRESS_LINES: Final = (
    ("marked_at", "Marked", "l-marked"),
    ("tombstoned_at", "Tombstoned", "l-told"),
    ("acknowledged_at", "Acknowledged", "l-acked"),
    ("znodes_gone_at", "Znodes gone", "l-done"),
    ("bytes_gone_at", "Bytes gone", "l-gone"),
)
_CROWDED: Final = 90
"""Percent of an axis; lines further right have their labels at the left."""
_PROGRESS_PX: Final = 200
_DISTRIBUTION_PX: Final = 110
_BYTES_PX: Final = 160
_SPARK_PX: Final = 18


def progress_chart(progress: PhaseProgress, total: int) -> Markup:
    """Draw how many deletions had reached each phase, over time."""
    scale = clock_scale(progress.start, progress.end)
    vertical = count_scale(total)
    lines = [
        svg.steps(progress.reached[name], vertical.end, _PROGRESS_PX, class_) for name, _, class_ in PROGRESS_LINES
    ]
    return svg.picture(
        "Deletions by the phase that they had reached, over time",
        f"One line per phase, from {clock(int(scale.start), 1000)} to {clock(int(scale.end), 1000)} UTC; "
        f"each ends at the number of deletions that came so far, of {total}.",
        _PROGRESS_PX + svg.LABELS_PX,
        svg.bottom_axis(scale, _PROGRESS_PX),
        svg.left_axis(vertical, _PROGRESS_PX),
        *lines,
    )


def distribution_scale(latencies: Sequence[Latency]) -> Scale:
    """Return one scale for all of these distributions."""
    bins = [number for latency in latencies for number in latency.bins]
    return log_scale(bin_start_ms(min(bins, default=0)), bin_start_ms(max(bins, default=BINS_PER_DECADE) + 1))


def distribution(latency: Latency, scale: Scale, class_: str) -> Markup:
    """Draw a histogram of durations, with percentiles as lines."""
    most = max(latency.bins.values(), default=1)
    marks = [("p50", latency.p50, 12), ("p90", latency.p90, 24), ("p99", latency.p99, 36)]
    at_left = scale.at(latency.p99) > _CROWDED
    lines = [
        join(
            (
                svg.vertical(scale.at(value), y - 9, _DISTRIBUTION_PX, "quantile"),
                _label(scale.at(value), y, name, at_left),
            )
        )
        for name, value, y in marks
    ]
    return svg.picture(
        f"Distribution of the time from the mark to {latency.measure}",
        f"{count(latency.deletions, 'deletion')}: half within {duration(latency.p50)}, 99 % within "
        f"{duration(latency.p99)}; "
        f"the longest {duration(latency.max)}. The axis is logarithmic.",
        _DISTRIBUTION_PX + svg.LABELS_PX,
        svg.bottom_axis(scale, _DISTRIBUTION_PX),
        svg.horizontal(_DISTRIBUTION_PX, "base"),
        *_columns(latency.bins, scale, most, _DISTRIBUTION_PX - 40, _DISTRIBUTION_PX, class_),
        *lines,
    )


def sparkline(latency: Latency, scale: Scale, class_: str) -> Markup:
    """Draw the same histogram, small, for a table cell."""
    most = max(latency.bins.values(), default=1)
    return svg.picture(
        f"Distribution: {duration(latency.p50)} at the median",
        "",
        _SPARK_PX,
        svg.horizontal(_SPARK_PX - 0.5, "base"),
        *_columns(latency.bins, scale, most, _SPARK_PX - 1, _SPARK_PX - 1, class_),
        class_="row",
    )


def bin_start_ms(number: int) -> float:
    """Return where the bin begins, in milliseconds."""
    return math.pow(10, number / BINS_PER_DECADE)


def _columns(bins: Mapping[int, int], scale: Scale, most: int, room: int, base: int, class_: str) -> list[Markup]:
    found = []
    for number, many in bins.items():
        left, right = scale.at(bin_start_ms(number)), scale.at(bin_start_ms(number + 1))
        tall = max(room * many / most, 1.0)
        words = f"{duration(bin_start_ms(number))} to {duration(bin_start_ms(number + 1))}: {count(many, 'deletion')}"
        found.append(
            svg.rect(left, max(right - left - 0.15, 0.3), round(base - tall, 1), round(tall, 1), class_, words)
        )
    return found


def _label(place: float, y: float, words: str, at_left: bool) -> Markup:
    """Draw a percentile's name beside its line."""
    return el(
        "text",
        words,
        x=svg.percent(place),
        dx=-4 if at_left else 4,
        y=y,
        class_="quantile-name",
        text_anchor="end" if at_left else "start",
    )


def bytes_over_time(bars: Sequence[FreedBytes], step_ms: int) -> Markup:
    """Draw one bar per step of time."""
    first, last = bars[0].at, bars[-1].at + step_ms
    room = max(step_ms * 12 - (last - first), 0) // step_ms // 2 * step_ms
    scale = clock_scale(first - room, last + room)
    vertical = size_scale(max(bar.size_bytes for bar in bars))
    shown = [_bar(bar, step_ms, scale, vertical) for bar in bars]
    total = sum(bar.size_bytes for bar in bars)
    return svg.picture(
        "Bytes reclaimed over time",
        f"{size(total)} in all, in steps of {step_words(step_ms)}; the most in one step is "
        f"{size(max(bar.size_bytes for bar in bars))}.",
        _BYTES_PX + svg.LABELS_PX,
        svg.left_axis(vertical, _BYTES_PX),
        svg.bottom_axis(scale, _BYTES_PX),
        *shown,
    )


def _bar(bar: FreedBytes, step_ms: int, scale: Scale, vertical: Scale) -> Markup:
    left, right = scale.at(bar.at), scale.at(bar.at + step_ms)
    tall = max(vertical.at(bar.size_bytes) * _BYTES_PX / 100, 1 if bar.size_bytes else 0)
    topics = f", {count(bar.topics, 'topic')}" if bar.topics else ""
    words = (
        f"{clock(bar.at, min(step_ms, 60_000) if step_ms < 86_400_000 else step_ms)}: {size(bar.size_bytes)}{topics}"
    )
    width = max((right - left) * 0.86, 0.3)
    return svg.rect(left, width, round(_BYTES_PX - tall, 1), round(tall, 1), "b-bytes", words)


def share_bar(value: float, most: float, words: str, class_: str = "b-share") -> Markup:
    """Draw a bar in a table cell: the value relative to the largest."""
    part = 0.0 if most <= 0 or not math.isfinite(value) else 100 * value / most
    return svg.picture(words, "", 10, svg.rect(0, max(part, 0.5 if value else 0), 1, 8, class_), class_="row")
