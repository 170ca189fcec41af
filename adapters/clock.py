"""The one clock of a daemon: wall-clock milliseconds that never go back.

Core rules get `now_ms` as an argument and write it into znodes and the journal, so it must look like wall-clock time;
they also subtract two of them, so it must not jump when somebody sets the machine's clock. Both hold when the wall
clock is read once and the monotonic clock carries it on.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where a runtime has its time from; tests hand in one of their own."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, never less than what an earlier call returned."""
        ...


class SystemClock:
    """Wall-clock time anchored once, when the object is made, to the monotonic clock."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (self._offset_ns + time.monotonic_ns()) // 1_000_000
