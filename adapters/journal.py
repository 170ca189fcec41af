"""The journal's files: facts go in on the event loop, lines come out on a thread of their own.

A full disk or a slow one must neither block nor stop a controller, so `record` only puts the fact into a bounded queue.
What does not fit into the queue, cannot be written or cannot be encoded is counted, and the loss becomes a line itself
with the next line that can be written: a GAP fact with the number of facts lost, the times of the first and the last,
and the reason.

Files are `<name>-00000001.jsonl`, `<name>-00000002.jsonl`, …; the one with the highest number is written. It is closed
when it is full, and the oldest are removed, so that all of them together stay below `max_files * max_bytes`. A process
that starts goes on in the newest file; where its last line was cut off, it begins with a newline.

Flush policy: each batch is handed to the operating system with one write as soon as the thread gets at it, so that what
was written survives the death of the process. A file is synced to disk when it is full and when the journal is closed;
a power failure may cost the lines since.
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from adapters.clock import Clock
from protocol.journal import Entry, Fact, FactType, UnencodableFact, encode, time_to_text

logger = logging.getLogger(__name__)

_BATCH_FACTS: Final = 1_000
_MAX_LOSSES: Final = 16
"""Different reasons that are kept apart; more than that, and the count goes to the last one."""
_NUMBER: Final = re.compile(r"-(\d{8,})\.jsonl\Z")


class Sink(Protocol):
    """An open journal file; tests hand in one that fails."""

    def write(self, data: bytes) -> int:
        """Append, and say how many bytes were taken. Raises OSError."""
        ...

    def size(self) -> int: ...
    def ends_in_newline(self) -> bool:
        """True also for an empty file."""
        ...

    def close(self) -> None:
        """Sync to disk and close. Raises OSError."""
        ...


class FileSink:
    """A file opened for appending, unbuffered."""

    __slots__ = ("_file",)

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab+", buffering=0)

    def write(self, data: bytes) -> int:
        return self._file.write(data) or 0

    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def ends_in_newline(self) -> bool:
        size = self.size()
        return size == 0 or os.pread(self._file.fileno(), 1, size - 1) == b"\n"

    def close(self) -> None:
        try:
            os.fsync(self._file.fileno())
        finally:
            self._file.close()


@dataclass(frozen=True, slots=True)
class JournalConfig:
    directory: Path
    name: str
    """First part of the file names; one per daemon, as two daemons may share the directory."""
    source: str
    """CloudEvents source: `/lethe/controller/1001`."""
    max_bytes: int = 64 * 1024 * 1024
    """Of one file."""
    max_files: int = 8
    max_queued: int = 50_000
    """Facts that may wait for the thread."""
    retry_ms: int = 1_000
    """Time between two attempts while writing fails; what comes in between is lost and counted."""


@dataclass(slots=True)
class JournalCounts:
    """What metrics show of a journal. Written by its thread and by `record`, read by anybody."""

    written: int = 0
    written_bytes: int = 0
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


_Stamped = tuple[int, Fact]


class _Files:
    """The numbered files of one journal; used by one thread."""

    def __init__(self, config: JournalConfig, open_sink: Callable[[Path], Sink]) -> None:
        self._config = config
        self._open_sink = open_sink
        self._sink: Sink | None = None
        self._size = 0
        self._mid_line = False

    def write(self, lines: Sequence[bytes]) -> tuple[int, OSError | None]:
        """Append the lines; how many went in whole, and what stopped the others."""
        done = 0
        try:
            while done < len(lines):
                sink, room = self._sink_with_room_for(len(lines[done]))
                count, size = 1, len(lines[done])
                while done + count < len(lines) and size + len(lines[done + count]) <= room:
                    size += len(lines[done + count])
                    count += 1
                written, error = self._append(sink, b"".join(lines[done : done + count]))
                done += written
                if error is not None:
                    return done, error
        except OSError as error:
            return done, error
        return done, None

    def _append(self, sink: Sink, chunk: bytes) -> tuple[int, OSError | None]:
        taken = 0
        try:
            if self._mid_line:
                self._size += sink.write(b"\n")
                self._mid_line = False
            while taken < len(chunk):
                accepted = sink.write(chunk[taken:])
                if not accepted:
                    raise OSError(errno.EIO, "nothing was accepted")
                taken += accepted
                self._size += accepted
                self._mid_line = chunk[taken - 1 : taken] != b"\n"
        except OSError as error:
            return chunk.count(b"\n", 0, taken), error
        return chunk.count(b"\n"), None

    def _sink_with_room_for(self, wanted: int) -> tuple[Sink, int]:
        sink = self._sink
        if sink is None:
            numbers = self._numbers()
            sink = self._open(numbers[-1] if numbers else 1)
        if self._size and self._size + wanted > self._config.max_bytes:
            self.close()
            sink = self._open(self._numbers()[-1] + 1)
        return sink, self._config.max_bytes - self._size

    def _open(self, number: int) -> Sink:
        sink = self._open_sink(self._path(number))
        self._sink = sink
        self._size = sink.size()
        self._mid_line = not sink.ends_in_newline()
        for old in self._numbers()[: -self._config.max_files]:
            try:
                self._path(old).unlink(missing_ok=True)
            except OSError as error:
                logger.warning("an old journal file cannot be removed: %s", error)
        return sink

    def _path(self, number: int) -> Path:
        return self._config.directory / f"{self._config.name}-{number:08d}.jsonl"

    def _numbers(self) -> list[int]:
        """Numbers of the files that are there, rising; a file of another journal is none of ours."""
        directory, name = self._config.directory, self._config.name
        found = directory.iterdir() if directory.is_dir() else ()
        matches = ((path.name, _NUMBER.search(path.name)) for path in found)
        return sorted(int(match[1]) for text, match in matches if match and text[: match.start()] == name)

    def close(self) -> None:
        """Sync and close the open file, if any. Raises OSError; the file counts as closed all the same."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()


class Journal:
    """Writes facts; the module says what happens where that is not possible.

    `record` never blocks and never raises. The thread starts with the object and ends with `close`.
    """

    def __init__(self, config: JournalConfig, clock: Clock, open_sink: Callable[[Path], Sink] = FileSink) -> None:
        self.counts = JournalCounts()
        self._config = config
        self._clock = clock
        self._queue: queue.SimpleQueue[_Stamped | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._overflow: _Loss | None = None
        self._closed = False
        # The rest belongs to the thread.
        self._files = _Files(config, open_sink)
        self._losses: list[_Loss] = []
        self._retry_at_s = 0.0
        self._run = f"{clock.now_ms():x}"
        self._sequence = 0
        self._thread = threading.Thread(target=self._work, name=f"journal-{config.name}", daemon=True)
        self._thread.start()

    # --- any thread -----------------------------------------------------------------------------------------------

    def record(self, fact: Fact) -> None:
        """Have the fact written, stamped with the present time."""
        now_ms = self._clock.now_ms()
        with self._lock:
            if self._closed:
                self.counts.lost += 1
            elif self._queue.qsize() >= self._config.max_queued:
                self.counts.lost += 1
                if self._overflow is None:
                    self._overflow = _Loss("facts came faster than they could be written", 0, now_ms, now_ms)
                self._overflow.add(now_ms)
            else:
                self._queue_overflow(now_ms)
                self._queue.put((now_ms, fact))

    def close(self, limit_s: float = 2.0) -> None:
        """Write what is queued, as far as that is possible within the limit, and end the thread."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue_overflow(self._clock.now_ms())
                self._queue.put(None)
        self._thread.join(limit_s)
        if self._thread.is_alive():
            logger.warning("the journal %s could not be written to its end within %s s", self._config.name, limit_s)

    def _queue_overflow(self, now_ms: int) -> None:
        """Put the gap where it happened: behind what was queued before it, before what comes after it."""
        if self._overflow is not None:
            loss, self._overflow = self._overflow, None
            self._queue.put((now_ms, loss.fact(self._config.source)))

    # --- the thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        ended = False
        while not ended:
            batch, ended = self._next_batch()
            self._deliver(batch, at_once=ended)
        try:
            self._files.close()
        except OSError as error:
            logger.warning("the journal %s could not be synced at the end: %s", self._config.name, error)

    def _next_batch(self) -> tuple[list[_Stamped], bool]:
        """At least one fact, unless it is the end, and whatever else waits; and whether that was the end."""
        batch: list[_Stamped] = []
        item = self._queue.get()
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

    def _deliver(self, batch: list[_Stamped], at_once: bool) -> None:
        if self.counts.failing is not None and time.monotonic() < self._retry_at_s and not at_once:
            self._lose([time_ms for time_ms, _ in batch], self.counts.failing)
            return
        lines = [(time_ms, line) for time_ms, fact in batch if (line := self._line(time_ms, fact))]
        now_ms = self._clock.now_ms()
        gaps = [(now_ms, line) for loss in self._losses if (line := self._line(now_ms, loss.fact(self._config.source)))]
        everything = [line for _, line in (*gaps, *lines)]
        if not everything:
            return
        done, problem = self._files.write(everything)
        self.counts.written += done
        self.counts.written_bytes += sum(map(len, everything[:done]))
        del self._losses[: min(done, len(gaps))]
        if problem is not None:
            self._fail(problem)
            self._lose([time_ms for time_ms, _ in lines[max(done - len(gaps), 0) :]], str(self.counts.failing))
        elif self.counts.failing is not None:
            self.counts.failing = None
            logger.warning("the journal %s can be written again", self._config.name)

    def _line(self, time_ms: int, fact: Fact) -> bytes | None:
        try:
            line = encode(Entry(f"{self._run}-{self._sequence + 1}", self._config.source, time_ms, fact))
        except UnencodableFact as error:
            logger.warning("a fact will be missing in the journal: %s", error)
            self._lose([time_ms], f"{fact.type}: data is not JSON")
            return None
        self._sequence += 1
        return line

    def _fail(self, error: OSError) -> None:
        reason = f"writing failed: {error.strerror or error}"
        if self.counts.failing is None:
            logger.warning("the journal %s cannot be written, its facts are lost for now: %s", self._config.name, error)
        self.counts.failing = reason
        self._retry_at_s = time.monotonic() + self._config.retry_ms / 1000

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
