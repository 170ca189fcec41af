"""docs/benchmarks-security.svg: connections accepted in a second, as bars."""

from __future__ import annotations

from typing import Final

from benchmarks.documents import Document, read
from benchmarks.security import results
from benchmarks.svg import picture, text

WIDTH: Final = 860
LEFT: Final = 270
RIGHT: Final = 80
TOP: Final = 48
BAR: Final = 18
ROW: Final = 30
COLOUR: Final = "#2f6fb0"


def generated() -> str:
    """Return the plot of the stored results."""
    return svg(read(results.JSON))


def svg(found: Document) -> str:
    """Return the plot as text."""
    rates = {kind: results.per_second(found, kind) for kind in results.kinds(found["accepted"])}
    most = max(rates.values(), default=1.0)
    height = TOP + ROW * len(rates) + 12
    body = [text(LEFT, 28, "connections accepted in a second, client on the same machine")]
    for number, (kind, rate) in enumerate(rates.items()):
        y, width = TOP + ROW * number, (WIDTH - LEFT - RIGHT) * rate / most
        body += [
            text(LEFT - 12, y + 14, kind, anchor="end"),
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{COLOUR}"/>',
            text(LEFT + width + 6, y + 14, f"{rate:,.0f}"),
        ]
    return picture(WIDTH, height, body)
