"""Lets the multis of all plans of a session through, in the order in which they ask, as the window allows.

It measures their latencies too. An answer that has come waits until the event loop reads it, and a controller's loop
may be busy for a second with the requests of brokers. That is not ZooKeeper's slowness, so `FreeTime` leaves it out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple

from lethe.adapters.zookeeper.write_window import WriteWindow

_TICK_S: Final = 0.02


class FreeTime:
    """A clock that stands still while the event loop is busy. It runs between `start` and `stop`.

    A timer ticks; the time from when it was due until it fires is not counted, be it read before or after it fires.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._busy_s = 0.0
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def now_s(self) -> float:
        """Seconds since a fixed time; to be compared only with other values of the same run."""
        return min(self._loop.time(), self._due_s) - self._busy_s

    def start(self) -> None:
        """Run; it may run already."""
        if self._timer is None:
            self._arm()

    def stop(self) -> None:
        """Run no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._due_s = self._loop.time() + _TICK_S
        self._timer = self._loop.call_at(self._due_s, self._tick)

    def _tick(self) -> None:
        self._busy_s += max(0.0, self._loop.time() - self._due_s)
        self._arm()


class Pass(NamedTuple):
    """What a multi enters with, and leaves with."""

    number: int
    entered_s: float


class WriteGate:
    """The gate of one session. `enter` before a multi is sent, `leave` once it is answered or was not sent."""

    def __init__(self, window: WriteWindow) -> None:
        self.window: Final = window
        self._clock = FreeTime()
        self._waiting: deque[asyncio.Future[Pass]] = deque()

    async def enter(self) -> Pass:
        """Wait for room. The multi counts as sent."""
        if self.window.has_room and not self._waiting:
            return self._admit()
        turn: asyncio.Future[Pass] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():
                self.leave(turn.result(), is_answered=False)
            raise

    def _admit(self) -> Pass:
        self._clock.start()
        return Pass(self.window.send(), self._clock.now_s)

    def leave(self, entered: Pass, *, is_answered: bool) -> None:
        """Make room, and let those in who wait for it."""
        latency_ms = (self._clock.now_s - entered.entered_s) * 1000
        self.window.settle(entered.number, latency_ms if is_answered else None)
        while self._waiting and self.window.has_room:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(self._admit())
        if not self.window.unanswered:
            self._clock.stop()
