"""Numbers in front of their noun, in the right form: `0 topics`, `1 topic`, `2 topics`."""

from __future__ import annotations


def counted(number: float, one: str, many: str | None = None) -> str:
    """The number and its noun: `1 topic`, `1,500 topics`, `2.5 days`.

    `one` may carry more words that change with the number, and `many` is needed where it is not `one` with an `s`:
    `counted(n, "topic is", "topics are")`, `counted(n, "directory", "directories")`.
    """
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {plural(number, one, many)}"


def plural(number: float, one: str, many: str | None = None) -> str:
    """The noun alone, as the number requires it, where the number stands elsewhere or is written otherwise."""
    return one if number == 1 else many or f"{one}s"
