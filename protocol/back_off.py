"""How long to wait before something is tried again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackOff:
    """Waits that double from one attempt to the next."""

    min_ms: int
    max_ms: int

    def wait_ms(self, attempt: int) -> int:
        """The wait before attempt 1, 2, …; attempt 0 waits for nothing."""
        return 0 if attempt <= 0 else min(self.max_ms, self.min_ms << min(attempt - 1, 30))
