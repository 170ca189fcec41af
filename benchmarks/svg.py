"""What the plots have in common: frame, font and texts of an SVG picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from xml.sax.saxutils import escape

INK: Final = "#24292f"
_FONT: Final = 'font-family="system-ui, sans-serif" font-size="13"'


def picture(width: int, height: int, elements: Iterable[str]) -> str:
    """Return the picture of these elements on white, as text."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_FONT}>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *elements,
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal", colour: str = INK) -> str:
    """Return the element that shows the words."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">'
        f"{escape(words)}</text>"
    )
