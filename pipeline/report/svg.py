"""Charts as SVG: positions in percent, type in pixels, so that a chart is legible on any screen.

A chart has a title and a description for screen readers; a table beside it has the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.pipeline.report.axes import Scale
from lethe.pipeline.report.markup import Child, Markup, el, join

LABELS_PX: Final = 18
"""Height of the labels under a chart."""


def percent(value: float) -> str:
    """Return `12.34%`, without trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


def picture(title: str, description: str, height: int, *children: Child, class_: str = "chart") -> Markup:
    """Return the whole chart."""
    return el(
        "svg",
        el("title", title),
        el("desc", description) if description else None,
        *children,
        class_=class_,
        role="img",
        width="100%",
        height=height,
    )


def rect(x: float, width: float, y: float, height: float, class_: str, title: str | None = None) -> Markup:
    """Return a rectangle: x and width in percent, y and height in pixels."""
    inside = None if title is None else el("title", title)
    return el("rect", inside, x=percent(x), width=percent(width), y=f"{y:g}", height=f"{height:g}", class_=class_)


def vertical(x: float, y1: float, y2: float, class_: str) -> Markup:
    place = percent(x)
    return el("line", x1=place, x2=place, y1=f"{y1:g}", y2=f"{y2:g}", class_=class_)


def horizontal(y: float, class_: str) -> Markup:
    return el("line", x1="0", x2="100%", y1=f"{y:g}", y2=f"{y:g}", class_=class_)


def text(x: float, y: float, words: str, class_: str) -> Markup:
    """Return text: x in percent, y of the base line in pixels. Near an edge the text stays within the chart."""
    anchor = "start" if x < 4 else "end" if x > 96 else "middle"
    return el("text", words, x=percent(x), y=f"{y:g}", class_=class_, text_anchor=anchor)


def tick_labels(scale: Scale, y: float) -> Markup:
    """Return the labels of the ticks."""
    return join(text(tick.place, y, tick.label, "tick minor" if tick.is_minor else "tick") for tick in scale.ticks)


def definitions(*parts: Markup) -> Markup:
    """Return what other charts of the page refer to; it is not drawn."""
    return el("svg", el("defs", *parts), width=0, height=0, class_="shared", aria_hidden="true")


def hatching(id_: str, *parts: Markup) -> Markup:
    """Return a pattern with diagonal lines, for `definitions`."""
    return el("pattern", *parts, id=id_, width=6, height=6, patternUnits="userSpaceOnUse")


def bottom_axis(scale: Scale, height: int) -> Markup:
    """Return vertical grid lines at the ticks, with labels below."""
    grid = (vertical(tick.place, 0, height, "grid minor" if tick.is_minor else "grid") for tick in scale.ticks)
    return join((*grid, tick_labels(scale, height + 13)))


def left_axis(scale: Scale, height: int) -> Markup:
    """Return horizontal grid lines, with labels at the left, where the page leaves room."""
    parts: list[Markup] = []
    for tick in scale.ticks:
        y = height - tick.place * height / 100
        parts.append(horizontal(y, "base" if tick.place == 0 else "grid"))
        parts.append(el("text", tick.label, x=0, dx=-8, y=f"{y + 4:g}", class_="tick", text_anchor="end"))
    return join(parts)


def steps(values: Sequence[float], highest: float, height: int, class_: str) -> Markup:
    """Return a line that changes in steps of equal width."""
    path = [f"M0 {_down(values[0], highest)}"]
    last = values[0]
    for number, value in enumerate(values):
        if value != last:
            path.append(f"H{number}V{_down(value, highest)}")
            last = value
    path.append(f"H{len(values)}")
    return _stretched("".join(path), len(values), height, class_)


def dot(x: float, y: float, class_: str, title: str) -> Markup:
    """Return a point: x in percent, y in pixels."""
    return el("circle", el("title", title), cx=percent(x), cy=f"{y:g}", r=3, class_=class_)


def broken_line(points: Sequence[tuple[float, float] | None], height: int, class_: str) -> Markup:
    """Return a line through the points, x in percent and y in pixels, with a gap at each None."""
    path, is_down = [], False
    for point in points:
        if point is not None:
            path.append(f"{'L' if is_down else 'M'}{point[0] * 10:.0f} {point[1] * 1000 / height:.0f}")
        is_down = point is not None
    return _stretched("".join(path), 1000, height, class_)


def _stretched(path: str, width: int, height: int, class_: str) -> Markup:
    """Return a path in a box of `width` times 1000, over the whole chart."""
    line = el("path", d=path, class_=class_, vector_effect="non-scaling-stroke")
    return el(
        "svg",
        line,
        x="0",
        y="0",
        width="100%",
        height=height,
        viewBox=f"0 0 {width} 1000",
        preserveAspectRatio="none",
        class_="lines",
    )


def _down(value: float, highest: float) -> str:
    return f"{1000 - 1000 * value / highest:.0f}" if highest else "1000"
