"""Number of deletions that have ended in the last minute. Pure: times are arguments, in milliseconds.

Counts are kept per second, so the memory is bounded at any rate.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

WINDOW_S: Final = 60


@dataclass(slots=True)
class _Second:
    number: int
    topics: int = 0
    partitions: int = 0


class Pace:
    """Counts topics and their partitions."""

    def __init__(self) -> None:
        self._seconds: deque[_Second] = deque(maxlen=WINDOW_S + 1)

    def note(self, partitions: int, now_ms: int) -> None:
        """Count a topic whose deletion has ended."""
        number = now_ms // 1000
        if not self._seconds or self._seconds[-1].number != number:
            self._seconds.append(_Second(number))
        self._seconds[-1].topics += 1
        self._seconds[-1].partitions += partitions

    def clear(self) -> None:
        """Clear the counts: another term begins."""
        self._seconds.clear()

    def last_minute(self, now_ms: int) -> tuple[int, int]:
        """Return the number of topics and partitions of the last `WINDOW_S` seconds."""
        first = now_ms // 1000 - WINDOW_S
        recent = [second for second in self._seconds if second.number > first]
        return sum(second.topics for second in recent), sum(second.partitions for second in recent)
