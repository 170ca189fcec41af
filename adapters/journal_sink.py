"""A buffered sink of the journal: event records are queued on the event loop, and a separate thread writes them as
lines.

A full disk or a silent broker must neither block nor stop a daemon, so `record` only puts the event record into a
bounded queue. An event record that does not fit into the queue, or cannot be written or encoded, is counted as lost. As
soon as lines can be written again, the loss itself becomes a line, even without further event records: a GAP event
record with the number of lost event records, the times of the first and the last, and the reason.

With two sinks, the second one receives the lines that the first one has made, including those that the first could not
write. Each sink reports only its own losses. The second numbers its GAP lines separately (`…-t1`), so the numbers of
the first are complete except for its own losses.

    disk full for event records 3 to 5, topic works:    files 1 2 GAP(3 lost) 6    topic 1 2 3 4 5 6
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
from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, UnencodableRecord, encode, time_to_text

logger = logging.getLogger(__name__)

_BATCH_RECORDS: Final = 1_000
_MAX_LOSSES: Final = 16
"""Limit of separately counted reasons; beyond it, losses are added to the last reason."""


class JournalDestination(Protocol):
    """Destination of lines; used by one thread, except for `hasten`."""

    def write(self, lines: Sequence[bytes]) -> tuple[int, Exception | None]:
        """Write the lines in order; return how many were written completely, and the error that stopped the rest.

        May block.
        """
        ...

    def hasten(self) -> None:
        """Shorten the present and later calls of `write`, as the journal is being closed. Called on any thread."""
        ...

    def close(self) -> None:
        """Finish and release resources. Raises OSError."""
        ...


class LineEncoder:
    """Makes lines from event records, numbered in order; used by one thread."""

    def __init__(self, source: str, run: str, mark: str = "") -> None:
        self.source = source
        self._prefix = f"{run}-{mark}"
        self._made = 0

    def make(self, time_ms: int, record: EventRecord) -> bytes:
        """Return the next line. Raises UnencodableRecord; then the number is not used up."""
        line = encode(JournalEntry(f"{self._prefix}{self._made + 1}", self.source, time_ms, record))
        self._made += 1
        return line


class TimedRecord(NamedTuple):
    """An event record and its time; or the line that the first sink has made from it."""

    time_ms: int
    what: EventRecord | bytes


@dataclass(slots=True)
class JournalCounts:
    """Counts of one sink, for metrics. Written by its thread and by `record`, read by any thread."""

    written: int = 0
    lost: int = 0
    failing: str | None = None
    """Why writing fails at present; None if it works."""


@dataclass(slots=True)
class _Loss:
    """Lost event records that are not reported yet."""

    reason: str
    count: int
    first_ms: int
    last_ms: int

    def add(self, time_ms: int) -> None:
        self.count += 1
        self.last_ms = time_ms

    def record(self, source: str) -> EventRecord:
        return EventRecord(
            EventRecordType.GAP,
            source.removeprefix("/lethe/"),
            {
                "count": self.count,
                "first": time_to_text(self.first_ms),
                "last": time_to_text(self.last_ms),
                "reason": self.reason,
            },
        )


class JournalSink:
    """Queues event records and writes them to a destination. See the module for failures.

    `record` never blocks and never raises. The thread starts with the object and ends after `end`.
    """

    def __init__(
        self,
        name: str,
        destination: JournalDestination,
        lines: LineEncoder,
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
        self._queue: queue.SimpleQueue[TimedRecord | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._overflow: _Loss | None = None
        self._closed = False
        self._destination = destination
        self._onward = onward
        # The rest is used by the thread only.
        self._lines = lines
        self._losses: list[_Loss] = []
        self._retry_at_s = 0.0
        self._thread = threading.Thread(target=self._work, name=f"journal-{name}", daemon=True)
        self._thread.start()

    # --- any thread -----------------------------------------------------------------------------------------------

    def record(self, stamped: TimedRecord) -> None:
        """Queue the event record, or count it as lost if the queue is full."""
        with self._lock:
            if self._closed:
                self.counts.lost += 1
            elif self._queue.qsize() >= self._max_queued:
                self.counts.lost += 1
                if self._overflow is None:
                    reason = "event records came faster than they could be written"
                    self._overflow = _Loss(reason, 0, stamped.time_ms, stamped.time_ms)
                self._overflow.add(stamped.time_ms)
            else:
                self._queue_overflow(stamped.time_ms)
                self._queue.put(stamped)

    def hasten(self) -> None:
        """Make the destination finish soon."""
        self._destination.hasten()

    def end(self) -> None:
        """Write queued event records soon, then end the thread; does not wait."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue_overflow(self._clock.now_ms())
            self._queue.put(None)
        self.hasten()

    def join(self, limit_s: float) -> None:
        """Wait for the thread's end after `end`."""
        self._thread.join(limit_s)
        if self._thread.is_alive():
            logger.warning("the journal %s could not be written to its end in the time allowed", self._name)

    def _queue_overflow(self, now_ms: int) -> None:
        """Queue the GAP at its place: after the records before the loss, and before the records after it."""
        if self._overflow is not None:
            loss, self._overflow = self._overflow, None
            self._queue.put(TimedRecord(now_ms, loss.record(self._lines.source)))

    # --- the thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        ended = False
        while not ended:
            batch, ended = self._next_batch()
            self._deliver(batch, at_once=ended)
        try:
            self._destination.close()
        except OSError as error:
            logger.warning("the journal %s could not be synced at the end: %s", self._name, error)

    def _next_batch(self) -> tuple[list[TimedRecord], bool]:
        """Return waiting event records, and whether the end was reached.

        There is at least one event record, unless the end was reached or losses are to be reported without an event
        record.
        """
        batch: list[TimedRecord] = []
        try:
            item = self._queue.get(timeout=self._until_losses_s())
        except queue.Empty:
            return batch, False
        while item is not None:
            batch.append(item)
            if len(batch) >= _BATCH_RECORDS:
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
        """Return how long losses wait for a further event record before they are reported; None without losses."""
        return max(0.0, self._retry_at_s - time.monotonic()) if self._losses else None

    def _deliver(self, batch: list[TimedRecord], at_once: bool) -> None:
        if self.counts.failing is not None and time.monotonic() < self._retry_at_s and not at_once:
            self._lose([stamped.time_ms for stamped in batch], self.counts.failing)
            if self._onward is not None:
                self._pass_on(self._made(batch))
            return
        lines = self._made(batch)
        if self._onward is not None:
            self._pass_on(lines)
        now_ms = self._clock.now_ms()
        gaps = self._made([TimedRecord(now_ms, loss.record(self._lines.source)) for loss in self._losses])
        everything = [line for _, line in (*gaps, *lines)]
        if not everything:
            return
        done, problem = self._destination.write(everything)
        self.counts.written += done
        del self._losses[: min(done, len(gaps))]
        if problem is not None:
            self._fail(problem)
            self._lose([time_ms for time_ms, _ in lines[max(done - len(gaps), 0) :]], str(self.counts.failing))
        elif self.counts.failing is not None:
            self.counts.failing = None
            logger.warning("the journal %s can be written again", self._name)

    def _made(self, batch: Sequence[TimedRecord]) -> list[tuple[int, bytes]]:
        """Return the lines with their times. An event record that cannot be encoded is lost."""
        lines = []
        for time_ms, what in batch:
            try:
                lines.append((time_ms, what if isinstance(what, bytes) else self._lines.make(time_ms, what)))
            except UnencodableRecord as error:
                logger.warning("an event record will be missing in the journal: %s", error)
                self._lose([time_ms], f"{_kind(what)}: data is not JSON")
        return lines

    def _pass_on(self, lines: Sequence[tuple[int, bytes]]) -> None:
        assert self._onward is not None
        for time_ms, line in lines:
            self._onward.record(TimedRecord(time_ms, line))

    def _fail(self, error: Exception) -> None:
        words = error.strerror if isinstance(error, OSError) else None
        if self.counts.failing is None:
            logger.warning(
                "the journal %s cannot be written, its event records are lost for now: %s", self._name, error
            )
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


def _kind(what: EventRecord | bytes) -> str:
    return what.type if isinstance(what, EventRecord) else "line"
