"""One way that the journal's lines go: facts go in on the event loop, lines come out on a thread of their own.

A full disk or a broker that does not answer must neither block nor stop a daemon, so `record` only puts the fact into a
bounded queue. What does not fit into the queue, cannot be written or cannot be encoded is counted, and the loss becomes
a line itself as soon as lines can be written again, though no further fact comes: a GAP fact with the number of facts
lost, the times of the first and the last, and the reason.

Where there are two ways, the second takes the very lines that the first has made, also those that the first could not
write. Each has losses of its own, which are told on that way alone: what the second tells of its losses is numbered
apart (`…-t1`), so that the numbers of the first have no holes but its own.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from lethe.adapters.clock import Clock
from lethe.protocol.journal import Entry, Fact, FactType, UnencodableFact, encode, time_to_text

logger = logging.getLogger(__name__)

_BATCH_FACTS: Final = 1_000
_MAX_LOSSES: Final = 16
"""Different reasons that are kept apart; more than that, and the count goes to the last one."""


class Outlet(Protocol):
    """Where lines go in the end; used by one thread, but for `hasten`."""

    def write(self, lines: Sequence[bytes]) -> tuple[int, Exception | None]:
        """Write the lines in order; how many went in whole, and what stopped the others. May block."""
        ...

    def hasten(self) -> None:
        """Called on any thread, perhaps during `write`: the journal is being closed, nothing may take long any more."""
        ...

    def close(self) -> None:
        """Come to an end in good order. Raises OSError."""
        ...


class Lines:
    """Makes lines of facts, numbered in the order in which they are made; used by one thread."""

    def __init__(self, source: str, run: str, mark: str = "") -> None:
        self.source = source
        self._prefix = f"{run}-{mark}"
        self._made = 0

    def make(self, time_ms: int, fact: Fact) -> bytes:
        """The next line. Raises UnencodableFact, and then uses no number up."""
        line = encode(Entry(f"{self._prefix}{self._made + 1}", self.source, time_ms, fact))
        self._made += 1
        return line


class Stamped(NamedTuple):
    """A fact and when it was; or the line that was made of it on the way before."""

    time_ms: int
    what: Fact | bytes


@dataclass(slots=True)
class JournalCounts:
    """What metrics show of one way. Written by its thread and by `record`, read by anybody."""

    written: int = 0
    lost: int = 0
    failing: str | None = None
    """Why nothing can be written at present; None where it can."""


@dataclass(slots=True)
class _Loss:
    """Facts that will never be lines, not yet told."""

    reason: str
    count: int
    first_ms: int
    last_ms: int

    def add(self, time_ms: int) -> None:
        self.count += 1
        self.last_ms = time_ms

    def fact(self, source: str) -> Fact:
        return Fact(
            FactType.GAP,
            source.removeprefix("/lethe/"),
            {
                "count": self.count,
                "first": time_to_text(self.first_ms),
                "last": time_to_text(self.last_ms),
                "reason": self.reason,
            },
        )


class JournalSink:
    """Takes facts to an outlet; the module says what happens where that is not possible.

    `record` never blocks and never raises. The thread starts with the object and ends with `close`.
    """

    def __init__(
        self,
        name: str,
        outlet: Outlet,
        lines: Lines,
        clock: Clock,
        *,
        max_queued: int,
        retry_ms: int,
        onward: JournalSink | None = None,
    ) -> None:
        self.counts = JournalCounts()
        self._name = name
        self._clock = clock
        self._max_queued = max_queued
        self._retry_ms = retry_ms
        self._queue: queue.SimpleQueue[Stamped | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._overflow: _Loss | None = None
        self._closed = False
        self._outlet = outlet
        self._onward = onward
        # The rest belongs to the thread.
        self._lines = lines
        self._losses: list[_Loss] = []
        self._retry_at_s = 0.0
        self._thread = threading.Thread(target=self._work, name=f"journal-{name}", daemon=True)
        self._thread.start()

    # --- any thread -----------------------------------------------------------------------------------------------

    def record(self, stamped: Stamped) -> None:
        """Have it written."""
        with self._lock:
            if self._closed:
                self.counts.lost += 1
            elif self._queue.qsize() >= self._max_queued:
                self.counts.lost += 1
                if self._overflow is None:
                    reason = "facts came faster than they could be written"
                    self._overflow = _Loss(reason, 0, stamped.time_ms, stamped.time_ms)
                self._overflow.add(stamped.time_ms)
            else:
                self._queue_overflow(stamped.time_ms)
                self._queue.put(stamped)

    def hasten(self) -> None:
        """Let nothing take long any more."""
        self._outlet.hasten()

    def end(self) -> None:
        """Write what is queued, soon, and end the thread; does not wait for that."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue_overflow(self._clock.now_ms())
            self._queue.put(None)
        self.hasten()

    def join(self, limit_s: float) -> None:
        """Wait for the end of the thread, which `end` has asked for."""
        self._thread.join(limit_s)
        if self._thread.is_alive():
            logger.warning("the journal %s could not be written to its end in the time allowed", self._name)

    def _queue_overflow(self, now_ms: int) -> None:
        """Put the gap where it happened: behind what was queued before it, before what comes after it."""
        if self._overflow is not None:
            loss, self._overflow = self._overflow, None
            self._queue.put(Stamped(now_ms, loss.fact(self._lines.source)))

    # --- the thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        ended = False
        while not ended:
            batch, ended = self._next_batch()
            self._deliver(batch, at_once=ended)
        try:
            self._outlet.close()
        except OSError as error:
            logger.warning("the journal %s could not be synced at the end: %s", self._name, error)

    def _next_batch(self) -> tuple[list[Stamped], bool]:
        """Whatever waits, at least one fact unless it is the end or the losses are to be told without any; and whether
        that was the end."""
        batch: list[Stamped] = []
        try:
            item = self._queue.get(timeout=self._until_losses_s())
        except queue.Empty:
            return batch, False
        while item is not None:
            batch.append(item)
            if len(batch) >= _BATCH_FACTS:
                return batch, False
            with self._lock:
                if self._queue.empty():
                    self._queue_overflow(self._clock.now_ms())
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _until_losses_s(self) -> float | None:
        """How long losses wait for a fact to be told with; None where there are none."""
        return max(0.0, self._retry_at_s - time.monotonic()) if self._losses else None

    def _deliver(self, batch: list[Stamped], at_once: bool) -> None:
        if self.counts.failing is not None and time.monotonic() < self._retry_at_s and not at_once:
            self._lose([stamped.time_ms for stamped in batch], self.counts.failing)
            if self._onward is not None:
                self._pass_on(self._made(batch))
            return
        lines = self._made(batch)
        if self._onward is not None:
            self._pass_on(lines)
        now_ms = self._clock.now_ms()
        gaps = self._made([Stamped(now_ms, loss.fact(self._lines.source)) for loss in self._losses])
        everything = [line for _, line in (*gaps, *lines)]
        if not everything:
            return
        done, problem = self._outlet.write(everything)
        self.counts.written += done
        del self._losses[: min(done, len(gaps))]
        if problem is not None:
            self._fail(problem)
            self._lose([time_ms for time_ms, _ in lines[max(done - len(gaps), 0) :]], str(self.counts.failing))
        elif self.counts.failing is not None:
            self.counts.failing = None
            logger.warning("the journal %s can be written again", self._name)

    def _made(self, batch: Sequence[Stamped]) -> list[tuple[int, bytes]]:
        """The lines, with their times; without what cannot be a line, which is lost."""
        lines = []
        for time_ms, what in batch:
            try:
                lines.append((time_ms, what if isinstance(what, bytes) else self._lines.make(time_ms, what)))
            except UnencodableFact as error:
                logger.warning("a fact will be missing in the journal: %s", error)
                self._lose([time_ms], f"{_kind(what)}: data is not JSON")
        return lines

    def _pass_on(self, lines: Sequence[tuple[int, bytes]]) -> None:
        assert self._onward is not None
        for time_ms, line in lines:
            self._onward.record(Stamped(time_ms, line))

    def _fail(self, error: Exception) -> None:
        words = error.strerror if isinstance(error, OSError) else None
        if self.counts.failing is None:
            logger.warning("the journal %s cannot be written, its facts are lost for now: %s", self._name, error)
        self.counts.failing = f"writing failed: {words or error}"
        self._retry_at_s = time.monotonic() + self._retry_ms / 1000

    def _lose(self, stamps: Sequence[int], reason: str) -> None:
        if not stamps:
            return
        with self._lock:
            self.counts.lost += len(stamps)
        if not self._losses or self._losses[-1].reason != reason:
            if len(self._losses) >= _MAX_LOSSES:
                reason = self._losses[-1].reason
            else:
                self._losses.append(_Loss(reason, 0, stamps[0], stamps[0]))
        for stamp in stamps:
            self._losses[-1].add(stamp)


def _kind(what: Fact | bytes) -> str:
    return what.type if isinstance(what, Fact) else "line"
