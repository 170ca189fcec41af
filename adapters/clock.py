"""Clock of a daemon: wall-clock milliseconds that never go back.

Core rules get `now_ms` as an argument. They write it into znodes and the journal, so it must look like wall-clock time.
They also subtract two values, so it must not jump when the machine's clock is set. So the wall clock is read once, and
the monotonic clock continues it.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A runtime's source of time; tests provide their own."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC, never less than an earlier call."""
        ...


class SystemClock:
    """Wall-clock time, read once at creation and continued by the monotonic clock."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (self._offset_ns + time.monotonic_ns()) // 1_000_000
