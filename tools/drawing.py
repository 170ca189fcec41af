"""Boxes, arrows and words of an SVG, for the pictures that docs/ draws from what the program runs on.

Pictures bring their own light ground, so that they can be read on a dark page too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

INK: Final = "#24292f"
FAINT: Final = "#57606a"
LINE: Final = "#6e7781"
GROUND: Final = "#ffffff"
EDGE: Final = "#d0d7de"
_FONT: Final = 'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="14"'


class Point(NamedTuple):
    x: float
    y: float


class Box(NamedTuple):
    """A rectangle with round corners, by its middle."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "#f6f8fa"
    stroke: str = LINE

    def border(self, towards: Point, start: Point | None = None) -> Point:
        """Where a line from `start` (the middle, where not given), which lies inside, leaves towards that point."""
        begin = Point(self.x, self.y) if start is None else start
        dx, dy = towards.x - begin.x, towards.y - begin.y
        reach_x = math.inf if dx == 0 else ((self.x + math.copysign(self.width / 2, dx)) - begin.x) / dx
        reach_y = math.inf if dy == 0 else ((self.y + math.copysign(self.height / 2, dy)) - begin.y) / dy
        share = min(reach_x, reach_y)
        return Point(begin.x + share * dx, begin.y + share * dy)


def picture(width: int, height: int, title: str, body: Iterable[str]) -> str:
    """The whole document; the title is for those who cannot see it."""
    marker = (
        '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="{LINE}"/></marker>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    return "\n".join(
        [
            head + f'role="img" {_FONT}>',
            f"<title>{escape(title)}</title>",
            f"<defs>{marker}</defs>",
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="{GROUND}" stroke="{EDGE}"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def rectangle(box: Box, dashed: bool = False) -> str:
    """The box itself, without words."""
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y - box.height / 2:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="7" fill="{box.fill}" stroke="{box.stroke}"{dashes}/>'
    )


def text(
    x: float, y: float, words: str, *, anchor: str = "middle", bold: bool = False, colour: str = INK, size: int = 14
) -> str:
    """One line whose base is at that height."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}"{weight}>'
        f"{escape(words)}</text>"
    )


def code(x: float, y: float, words: str, *, anchor: str = "middle", colour: str = INK, size: int = 13) -> str:
    """The same in a typewriter's letters."""
    family = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}" '
        f'font-family="{family}">{escape(words)}</text>'
    )


def arrow(points: Sequence[Point], *, dashed: bool = False, both: bool = False) -> str:
    """A line through these points with a head at its end, and at its beginning too where `both`."""
    way = " ".join(f"{'L' if number else 'M'}{point.x:.1f},{point.y:.1f}" for number, point in enumerate(points))
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    start = ' marker-start="url(#head)"' if both else ""
    return f'<path d="{way}" fill="none" stroke="{LINE}" stroke-width="1.5" marker-end="url(#head)"{dashes}{start}/>'


def between(source: Box, target: Box, aside: float = 0.0) -> list[Point]:
    """From border to border, moved aside, as seen in its direction, by so much: so that there and back are two."""
    dx, dy = target.x - source.x, target.y - source.y
    length = math.hypot(dx, dy)
    shift_x, shift_y = dy / length * aside, -dx / length * aside
    start = Point(source.x + shift_x, source.y + shift_y)
    end = Point(target.x + shift_x, target.y + shift_y)
    return [source.border(end, start), target.border(start, end)]


def loop(box: Box, above: bool) -> str:
    """From the box to itself."""
    sign = -1 if above else 1
    y = box.y + sign * box.height / 2
    far = y + sign * 34
    return (
        f'<path d="M{box.x - 16:.1f},{y:.1f} C{box.x - 28:.1f},{far:.1f} {box.x + 28:.1f},{far:.1f} '
        f'{box.x + 16:.1f},{y:.1f}" fill="none" stroke="{LINE}" stroke-width="1.5" marker-end="url(#head)"/>'
    )
