"""The clock, the heap, the only source of randomness, and the trace.

Theory of operation. Everything that happens is an action on one heap, ordered by (time, sequence). An action runs to
its end and may put further actions on the heap; nothing happens in any other way. What an action did is noted in the
trace, whose running hash is the digest of the run: two runs with one seed are the same run, in every process and under
every PYTHONHASHSEED. All randomness comes from one generator, so that adding a draw changes the run of every seed: a
seed reproduces a run of one version of the simulator only.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Final

Action = Callable[[], None]

START_MS: Final = 1_000_000
LINES_KEPT: Final = 60


class Violation(Exception):
    """An invariant does not hold: which one, and a sentence that says what is wrong."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule
        self.what = what


class Scheduled:
    """An action on the heap, for those who may have to take it back."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        """It does not happen any more; nothing where it has happened."""
        self.action = None


class World:
    """Time, order and chance."""

    def __init__(self, seed: int, *, keep_trace: bool = False, traced: bool = True) -> None:
        self.seed = seed
        self.traced = traced
        """False: nothing is noted, and there is no digest: in a large cluster the trace costs more than the cores."""
        self.random = random.Random(seed)
        self.now_ms = START_MS
        self.events = 0
        self.lines: deque[str] = deque(maxlen=None if keep_trace else LINES_KEPT)
        self.after_event: Action = lambda: None
        self._hash = hashlib.blake2b(digest_size=16)
        self._heap: list[tuple[int, int, Scheduled]] = []
        self._sequence = 0

    # --- time ------------------------------------------------------------------------------------------------------

    def after(self, delay_ms: int, action: Action) -> Scheduled:
        """Have it happen after a delay; what is due at the same time happens in the order of these calls."""
        scheduled = Scheduled(action)
        self._sequence += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._sequence, scheduled))
        return scheduled

    def run_until(self, end_ms: int, max_events: int) -> None:
        """Everything that is due before `end_ms`; then it is that time. Raises Violation where it is too much."""
        heap = self._heap
        while heap and heap[0][0] < end_ms:
            self._next(max_events)
        self.now_ms = max(self.now_ms, end_ms)

    def run_until_quiet(self, limit_ms: int, max_events: int) -> None:
        """Everything, until nothing is left to happen. Raises Violation where that takes longer than `limit_ms`."""
        end_ms = self.now_ms + limit_ms
        while self._heap:
            if self._heap[0][0] > end_ms and self._heap[0][2].action is not None:
                raise Violation("quiet", f"{limit_ms} ms after the last fault something is still going on")
            self._next(max_events)

    def _next(self, max_events: int) -> None:
        at_ms, _, scheduled = heapq.heappop(self._heap)
        action = scheduled.action
        if action is None:
            return
        self.now_ms = at_ms
        self.events += 1
        if self.events > max_events:
            raise Violation("quiet", f"more than {max_events} events: something goes round in circles")
        action()
        self.after_event()

    # --- chance ----------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def between(self, low: int, high: int) -> int:
        """Both ends included."""
        return low + int(self.random.random() * (high - low + 1))

    # --- trace -----------------------------------------------------------------------------------------------------

    def note(self, who: str, what: str | Callable[[], str]) -> None:
        """Add a line to the trace; what is long is made only where it is noted."""
        if not self.traced:
            return
        line = f"{self.now_ms} {who} {what if isinstance(what, str) else what()}"
        self._hash.update(line.encode())
        self.lines.append(line)

    @property
    def digest(self) -> str:
        """Of everything noted so far."""
        return self._hash.hexdigest()


class Pipe:
    """One direction of a connection: what goes in comes out later, in the same order."""

    __slots__ = ("_high_ms", "_last_ms", "_low_ms", "_world")

    def __init__(self, world: World, latency_ms: tuple[int, int]) -> None:
        self._world = world
        self._low_ms, self._high_ms = latency_ms
        self._last_ms = 0

    def send(self, action: Action) -> None:
        """The action happens at the other end."""
        world = self._world
        at_ms = max(self._last_ms, world.now_ms + world.between(self._low_ms, self._high_ms))
        self._last_ms = at_ms
        world.after(at_ms - world.now_ms, action)


# --- names --------------------------------------------------------------------------------------------------------

FIRST_CONTROLLER: Final = 1000
CONTROLLER_IDS: Final = range(FIRST_CONTROLLER, FIRST_CONTROLLER + 10)


def is_controller(broker: int) -> bool:
    """The id is that of a controller: what is placed there is nowhere."""
    return broker in CONTROLLER_IDS


def agent_ids(count: int) -> tuple[int, ...]:
    """Return the ids of so many agents: 1 and on, without those of controllers."""
    return tuple(number for number in range(1, count + len(CONTROLLER_IDS) + 1) if not is_controller(number))[:count]
