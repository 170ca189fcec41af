"""What the benchmarks with rounds have in common: the order within a round, and lines of progress."""

from __future__ import annotations

import time
from typing import TypeVar

T = TypeVar("T")


def by_turns(each: tuple[T, ...], number: int) -> tuple[T, ...]:
    """Return them in order in odd rounds, and the other way round in even ones."""
    return each if number % 2 else tuple(reversed(each))


class Progress:
    """Prints lines with the time since it was made."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def tell(self, text: str) -> None:
        """Print a line of progress."""
        minutes, seconds = divmod(int(self.elapsed_s), 60)
        print(f"[{minutes:02d}:{seconds:02d}] {text}", flush=True)
