"""Charts as SVG: places in percent, type in pixels, so that a chart is as sharp and as legible on a phone.

A chart is a picture with a title and a description for who cannot see it; the numbers are always in a table beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.pipeline.report.axes import Scale
from lethe.pipeline.report.markup import Child, Markup, el, join

LABELS_PX: Final = 18
"""Height of the labels under a chart."""


def percent(value: float) -> str:
    """`12.34%`, without needless digits."""
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


def picture(title: str, description: str, height: int, *children: Child, class_: str = "chart") -> Markup:
    """The chart as a whole."""
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
    """x and width in percent, y and height in pixels."""
    inside = None if title is None else el("title", title)
    return el("rect", inside, x=percent(x), width=percent(width), y=f"{y:g}", height=f"{height:g}", class_=class_)


def vertical(x: float, y1: float, y2: float, class_: str) -> Markup:
    place = percent(x)
    return el("line", x1=place, x2=place, y1=f"{y1:g}", y2=f"{y2:g}", class_=class_)


def horizontal(y: float, class_: str) -> Markup:
    return el("line", x1="0", x2="100%", y1=f"{y:g}", y2=f"{y:g}", class_=class_)


def text(x: float, y: float, words: str, class_: str) -> Markup:
    """x in percent, y in pixels: of the base line. Near an edge the text stays within the chart."""
    anchor = "start" if x < 4 else "end" if x > 96 else "middle"
    return el("text", words, x=percent(x), y=f"{y:g}", class_=class_, text_anchor=anchor)


def bottom_axis(scale: Scale, height: int, *, labels: bool = True) -> Markup:
    """Lines through the chart at its ticks, and their labels below."""
    parts: list[Markup] = []
    for tick in scale.ticks:
        minor = " minor" if tick.is_minor else ""
        parts.append(vertical(tick.place, 0, height, f"grid{minor}"))
        if labels:
            parts.append(text(tick.place, height + 13, tick.label, f"tick{minor}"))
    return join(parts)


def left_axis(scale: Scale, height: int) -> Markup:
    """Lines across the chart, their labels before them: the page leaves room for these at the left."""
    parts: list[Markup] = []
    for tick in scale.ticks:
        y = height - tick.place * height / 100
        parts.append(horizontal(y, "base" if tick.place == 0 else "grid"))
        parts.append(el("text", tick.label, x=0, dx=-8, y=f"{y + 4:g}", class_="tick", text_anchor="end"))
    return join(parts)


def steps(values: Sequence[float], highest: float, height: int, class_: str) -> Markup:
    """A line that rises in steps, each as wide as the others."""
    path = [f"M0 {_down(values[0], highest)}"]
    last = values[0]
    for number, value in enumerate(values):
        if value != last:
            path.append(f"H{number}V{_down(value, highest)}")
            last = value
    path.append(f"H{len(values)}")
    line = el("path", d="".join(path), class_=class_, vector_effect="non-scaling-stroke")
    return el(
        "svg",
        line,
        x="0",
        y="0",
        width="100%",
        height=height,
        viewBox=f"0 0 {len(values)} 1000",
        preserveAspectRatio="none",
        class_="lines",
    )


def _down(value: float, highest: float) -> str:
    return f"{1000 - 1000 * value / highest:.0f}" if highest else "1000"
