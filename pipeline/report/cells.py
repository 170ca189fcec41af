"""Cells of tables: a value with its unit, and what it is sorted by."""

from __future__ import annotations

from datetime import date
from typing import Final

from lethe.pipeline.report import formatting
from lethe.pipeline.report.html_table import Cell
from lethe.pipeline.report.markup import el

TOPIC_FITS: Final = 12
"""Length of a topic name that always fits its cell."""


def topic(name: str | None) -> Cell:
    """Return a topic name; a name that may be cut has a tooltip."""
    shown = formatting.cut(name or "")
    return Cell(el("span", shown), title=shown if len(shown) > TOPIC_FITS else None)


def instant(ms: int | None) -> Cell:
    """Return an instant, sorted by time."""
    return Cell(None if ms is None else el("time", formatting.instant(ms), datetime=_rfc3339(ms)), ms)


def duration(ms: float | None) -> Cell:
    exactly = None if ms is None else f"{formatting.number(ms)} ms"
    return Cell(None if ms is None else formatting.duration(ms), ms, exactly)


def elapsed(ms: int | None, start: int | None) -> Cell:
    """Return the time since the start."""
    return duration(None if ms is None or start is None else ms - start)


def day(value: date) -> Cell:
    return Cell(formatting.day(value), formatting.day(value))


def size(value: int | None) -> Cell:
    exactly = None if value is None else formatting.count(value, "byte")
    return Cell(None if value is None else formatting.size(value), value, exactly)


def number(value: float | None) -> Cell:
    return Cell(None if value is None else formatting.number(value), value)


def _rfc3339(ms: int) -> str:
    return formatting.instant(ms).replace(" ", "T") + "Z" if abs(ms) < 100_000 * formatting.MS_PER_DAY else ""
