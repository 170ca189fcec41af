"""Numbers with their noun in the right form: `0 topics`, `1 topic`, `2 topics`; and the first of many names."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: float, one: str, many: str | None = None) -> str:
    """Return the number and its noun: `1 topic`, `1,500 topics`, `2.5 days`.

    `one` may contain further words that change with the number. `many` is required unless it is `one` plus `s`:
    `counted(n, "topic is", "topics are")`, `counted(n, "directory", "directories")`.
    """
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {plural(number, one, many)}"


def plural(number: float, one: str, many: str | None = None) -> str:
    """Return the noun alone, in the form that the number requires."""
    return one if number == 1 else many or f"{one}s"


def listed(values: Sequence[object], limit: int = 10, separator: str = ", ") -> str:
    """Return `a, b, c`, or the first `limit` values and the number of the others: `a, b and 3 more`."""
    shown, left = separator.join(map(str, values[:limit])), len(values) - limit
    return f"{shown}{separator.strip(', ')} and {left:,} more" if left > 0 else shown


def topics_listed(names: Sequence[str], limit: int = 5) -> str:
    """Return `topic a`, or `5 topics (a, b and 3 more)`."""
    return f"topic {names[0]}" if len(names) == 1 else f"{counted(len(names), 'topic')} ({listed(names, limit)})"
