"""Numbers with their noun in the right form: `0 topics`, `1 topic`, `2 topics`."""

from __future__ import annotations


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
