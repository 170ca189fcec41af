"""Formats numbers and instants for people: with units, in UTC, the same everywhere on the page."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final

from lethe.protocol.counting import plural

NONE: Final = "–"
_BYTES: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
MS_PER_DAY: Final = 86_400_000


def number(value: float | None) -> str:
    """Return `12 345`, with narrow no-break spaces."""
    return NONE if value is None else f"{value:,.0f}".replace(",", "\u202f")


def count(value: int, one: str, many: str | None = None) -> str:
    """Return `1 topic`, `2 topics`."""
    return f"{number(value)} {plural(value, one, many)}"


def size(value: float | None) -> str:
    """Return `6.42 MB`: decimal units, three digits."""
    if value is None:
        return NONE
    amount, unit = float(value), 0
    while abs(amount) >= 999.5 and unit < len(_BYTES) - 1:
        amount, unit = amount / 1000, unit + 1
    digits = 0 if unit == 0 or abs(amount) >= 99.95 else 1 if abs(amount) >= 9.995 else 2
    return f"{amount:.{digits}f}\u00a0{_BYTES[unit]}"


def round_size(value: float) -> str:
    """Return the size at an axis tick, without trailing zeros: `5 MB`."""
    amount, _, unit = size(value).partition("\u00a0")
    return f"{amount.rstrip('0').rstrip('.') if '.' in amount else amount}\u00a0{unit}"


def duration(ms: float | None) -> str:
    """Return `340 ms`, `4.2 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if ms is None:
        return NONE
    if ms < 999.5:
        return f"{ms:.0f}\u00a0ms"
    seconds = ms / 1000
    if seconds < 9.995:
        return f"{seconds:.2f}\u00a0s"
    if seconds < 99.95:
        return f"{seconds:.1f}\u00a0s"
    whole = round(seconds)
    for big, small, big_unit, small_unit in ((86_400, 3_600, "d", "h"), (3_600, 60, "h", "min"), (60, 1, "min", "s")):
        if whole >= big:
            rest = whole % big // small
            return f"{whole // big}\u00a0{big_unit}" + (f"\u00a0{rest}\u00a0{small_unit}" if rest else "")
    return f"{whole}\u00a0s"


def step_words(ms: float) -> str:
    """Return a round duration in the largest unit that divides it: `500 ms`, `10 s`, `1 min`."""
    for length, unit in ((MS_PER_DAY, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms % length == 0:
            return f"{ms // length:.0f}\u00a0{unit}"
    return duration(ms)


def instant(ms: int | None) -> str:
    """Return `2026-11-21 18:44:28.123`, UTC."""
    return NONE if ms is None else f"{_utc(ms):%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}"


def minute(ms: int | None) -> str:
    """Return `2026-11-21 18:44`, UTC."""
    return NONE if ms is None else f"{_utc(ms):%Y-%m-%d %H:%M}"


def clock(ms: int, step_ms: int) -> str:
    """Return an axis label for the instant, as precise as the distance of ticks requires."""
    if step_ms >= MS_PER_DAY:
        return f"{_utc(ms):%d %b}".lstrip("0")
    if step_ms >= 60_000:
        return f"{_utc(ms):%H:%M}"
    if step_ms >= 1000:
        return f"{_utc(ms):%H:%M:%S}"
    return f"{_utc(ms):%H:%M:%S}.{ms % 1000:03d}"


def day(value: date | None) -> str:
    return NONE if value is None else value.isoformat()


def cut(text: str, limit: int = 300) -> str:
    """Return the text, shortened to `limit` characters with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _utc(ms: int) -> datetime:
    # Instants that no calendar has (a broken clock wrote them) are shown as the nearest that it has.
    return datetime.fromtimestamp(min(max(ms, -62_135_596_800_000), 253_402_300_799_000) // 1000, UTC)
