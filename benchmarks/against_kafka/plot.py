"""docs/benchmarks.svg: median times as bars on a logarithmic scale, with the ratio beside each pair."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from benchmarks.against_kafka import results
from benchmarks.against_kafka.contestants import CONTESTANTS, KAFKA
from benchmarks.against_kafka.page import NAMES
from benchmarks.documents import Document, read
from benchmarks.svg import picture, text

WIDTH: Final = 860
LEFT: Final = 230
RIGHT: Final = 150
TOP: Final = 56
BAR: Final = 16
PAIR: Final = 52
COLOURS: Final = {KAFKA: "#8a8f98", CONTESTANTS[1]: "#2f6fb0"}
_FAINT: Final = "#d0d7de"


def generated() -> str:
    """Return the plot of the stored results."""
    return svg(read(results.JSON))


def svg(found: Document) -> str:
    """Return the plot as text."""
    pairs = [(workload, phase) for workload in results.workloads(found) for phase in results.phases(found, workload)]
    seconds = [
        row.seconds for pair in pairs for name in CONTESTANTS if (row := results.row(found, *pair, name)) is not None
    ]
    low = 10 ** math.floor(math.log10(min(seconds)))
    high = 10 ** math.ceil(math.log10(max(seconds)))
    height = TOP + PAIR * len(pairs) + 40
    body = [*_axis(low, high, height - 40), *_legend()]
    for number, pair in enumerate(pairs):
        body += _pair(found, *pair, TOP + PAIR * number, low, high)
    return picture(WIDTH, height, body)


def _x(seconds: float, low: float, high: float) -> float:
    share = math.log10(max(seconds, low) / low) / math.log10(high / low)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _axis(low: float, high: float, bottom: int) -> Iterator[str]:
    tick = low
    while tick <= high * 1.001:
        x = _x(tick, low, high)
        yield f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}" stroke="{_FAINT}"/>'
        yield text(x, bottom + 20, f"{tick:g} s", anchor="middle")
        tick *= 10


def _legend() -> Iterator[str]:
    for number, name in enumerate(CONTESTANTS):
        x = LEFT + 110 * number
        yield f'<rect x="{x}" y="16" width="14" height="14" fill="{COLOURS[name]}"/>'
        yield text(x + 20, 28, NAMES[name])
    yield text(WIDTH - 12, 28, "median, logarithmic scale", anchor="end")


def _pair(found: Document, workload: str, phase: str, top: float, low: float, high: float) -> Iterator[str]:
    yield text(LEFT - 12, top + 15, phase, anchor="end", weight="bold")
    yield text(LEFT - 12, top + 32, workload, anchor="end")
    for number, name in enumerate(CONTESTANTS):
        row = results.row(found, workload, phase, name)
        if row is None:
            continue
        y = top + number * (BAR + 2)
        end = _x(row.seconds, low, high)
        yield f'<rect x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{BAR}" fill="{COLOURS[name]}"/>'
        yield text(end + 6, y + 13, f"{row.seconds:.2f} s" if row.seconds < 10 else f"{row.seconds:.0f} s")
    if (ratio := results.ratio(found, workload, phase)) is not None:
        yield text(WIDTH - 12, top + 24, f"{ratio:.1f}×", anchor="end", weight="bold", colour=COLOURS[CONTESTANTS[1]])
