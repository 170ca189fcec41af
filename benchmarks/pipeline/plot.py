"""docs/benchmarks-pipeline.svg: time by number of lines, with the linear growth for comparison."""

from __future__ import annotations

from typing import Final

from benchmarks.documents import Document, read
from benchmarks.pipeline import results
from benchmarks.svg import INK, picture

WIDTH: Final = 760
HEIGHT: Final = 360
LEFT: Final = 80
RIGHT: Final = 40
TOP: Final = 30
BOTTOM: Final = 60


def generated() -> str:
    """Return the plot of the stored results."""
    return svg(read(results.JSON))


def svg(found: Document) -> str:
    """Return the plot as text."""
    points = [(run["lines"] / 1e6, run["seconds"] / 60) for run in found["runs"]]
    most_x = max((x for x, _ in points), default=1.0)
    most_y = max((y for _, y in points), default=1.0) * 1.1

    def place(x: float, y: float) -> tuple[float, float]:
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + wide * x / most_x, HEIGHT - BOTTOM - high * y / most_y

    origin_x, origin_y = place(0, 0)
    end_x, _ = place(most_x, 0)
    body = [
        f'<path d="M{origin_x:.0f} {TOP}V{origin_y:.0f}H{end_x:.0f}" fill="none" stroke="{INK}"/>',
        _text((origin_x + end_x) / 2, HEIGHT - 15, "million lines"),
        _text(origin_x, TOP - 10, "minutes"),
    ]
    if points:
        per_line = points[0][1] / points[0][0]
        line_x, line_y = place(most_x, min(per_line * most_x, most_y))
        line = f"M{origin_x:.1f} {origin_y:.1f}L{line_x:.1f} {line_y:.1f}"
        body.append(f'<path d="{line}" stroke="#8a8f98" stroke-dasharray="5 4"/>')
        body.append(_text(line_x - 90, max(line_y - 8, TOP + 10), "as the smallest"))
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in (place(*point) for point in points))
    body.append(f'<path d="M{path}" fill="none" stroke="#2f6fb0" stroke-width="2"/>')
    for lines, minutes in points:
        x, y = place(lines, minutes)
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#2f6fb0"/>')
        body.append(_text(x, y + 20, f"{minutes:.1f}"))
        body.append(_text(x, origin_y + 18, f"{lines:,.0f}"))
    return picture(WIDTH, HEIGHT, body)


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" fill="{INK}">{text}</text>'
