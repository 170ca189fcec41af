"""How many multis of plans may be unanswered: fewer while ZooKeeper is slow. Pure: latencies are arguments.

Theory of operation. ZooKeeper carries the requests of all sessions out in one order, and writes are forced to the disk
before anything behind them is answered. So a client that sends many multis at once delays the brokers' pings. A
session's multis of plans share one window, which opens by one after a whole window of quick answers and closes to the
half after a slow one. What was sent before it closed says nothing of what the smaller window does, so it neither opens
nor closes it:

    window 10   multis 1 to 10 are sent; 1 takes 900 ms      window 5, at once
                multis 2 to 10 were sent before that         window 5
                multi 11 takes 600 ms                        window 2
                multis 12 and 13 take 80 ms                  window 3

At least one multi may always be sent. A lost answer counts neither as quick nor as slow.
"""

from __future__ import annotations

from typing import Final


class WriteWindow:
    """The window of one session: at most `most` multis, fewer where answers take longer than `target_ms`."""

    def __init__(self, most: int, target_ms: float) -> None:
        self.most: Final = most
        self._target_ms = target_ms
        self.size = most
        """Number of multis that may be unanswered, from 1 to `most`."""
        self.unanswered = 0
        self.closed = 0
        """Times that the window was closed to the half."""
        self._sent = 0
        self._closed_at = 0
        """The number of multis sent when the window was last closed."""
        self._quick = 0
        """Quick answers since the window last changed."""

    @property
    def has_room(self) -> bool:
        """Return whether another multi may be sent."""
        return self.unanswered < self.size

    def send(self) -> int:
        """Count a multi as sent and return its number. Raises ValueError without room."""
        if not self.has_room:
            raise ValueError(f"{self.unanswered} multis are unanswered, and the window has {self.size}")
        self.unanswered += 1
        self._sent += 1
        return self._sent

    def settle(self, number: int, latency_ms: float | None) -> None:
        """Take the latency of the multi with that number from `send`; None if it has no answer."""
        self.unanswered -= 1
        if latency_ms is None or number <= self._closed_at:
            return
        if latency_ms > self._target_ms:
            self._quick = 0
            if self.size > 1:
                self.size = max(1, self.size // 2)
                self._closed_at = self._sent
                self.closed += 1
            return
        self._quick += 1
        if self._quick >= self.size:
            self._quick = 0
            self.size = min(self.most, self.size + 1)
