"""Exponential back-off between attempts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackOff:
    """Waits that double from one attempt to the next."""

    min_ms: int
    max_ms: int

    @property
    def first_longest(self) -> int:
        """The first attempt with the longest wait."""
        return ((self.max_ms - 1) // max(self.min_ms, 1)).bit_length() + 1

    def wait_ms(self, attempt: int) -> int:
        """Return the wait before attempt 1, 2, …; 0 for attempt 0."""
        return 0 if attempt <= 0 else min(self.max_ms, self.min_ms << min(attempt - 1, 30))
