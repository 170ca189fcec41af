"""The core's timers, on the asyncio event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lethe.adapters.clock import Clock
from lethe.controller.core.effects import Timer
from lethe.controller.core.events import TimerFired


class Timers:
    """Posts `TimerFired` when a timer is due. Setting an equal timer replaces the earlier one."""

    def __init__(self, clock: Clock, post: Callable[[TimerFired], None]) -> None:
        self._clock = clock
        self._post = post
        self._set: dict[Timer, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._set)

    def set(self, timer: Timer, at_ms: int) -> None:
        """Fire at `at_ms`, or at once where that time has passed."""
        self._cancel(timer)
        delay_s = max(0, at_ms - self._clock.now_ms()) / 1000
        self._set[timer] = asyncio.get_running_loop().call_later(delay_s, self._fire, timer, at_ms)

    def clear(self) -> None:
        """Cancel all timers."""
        for timer in list(self._set):
            self._cancel(timer)

    def _cancel(self, timer: Timer) -> None:
        handle = self._set.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, timer: Timer, at_ms: int) -> None:
        if self._clock.now_ms() < at_ms:
            # Some event loops round to whole milliseconds. The core expects no timer before its time.
            self.set(timer, at_ms)
            return
        del self._set[timer]
        self._post(TimerFired(timer))
