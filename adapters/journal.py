"""Journal of a daemon: writes event records as lines into files, into a Kafka topic, or into both.

An event record has the same bytes in both, so a reader of both recognizes it by source and id. Neither blocks the
daemon, and the topic never blocks the files: see `adapters.journal_sink`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lethe.adapters.clock import Clock
from lethe.adapters.journal_files import AppendableFile, JournalFiles, UnbufferedFile
from lethe.adapters.journal_sink import JournalCounts, JournalDestination, JournalSink, LineEncoder, TimedRecord
from lethe.protocol.journal import EventRecord

__all__ = ["AppendableFile", "Journal", "JournalConfig", "JournalCounts", "UnbufferedFile"]


@dataclass(frozen=True, slots=True)
class JournalConfig:
    directory: Path | None
    """None for no files."""
    name: str
    """First part of the file names, unique per daemon, because daemons may share the directory."""
    source: str
    """CloudEvents source: `/lethe/controller/1001`."""
    max_bytes: int = 64 * 1024 * 1024
    """Limit per file."""
    max_files: int = 8
    max_queued: int = 50_000
    """Limit of event records that wait for the thread of each sink."""
    retry_ms: int = 1_000
    """Time between two attempts while writing fails; event records in between are lost and counted."""


class Journal:
    """Writes event records. `record` never blocks or raises; threads start with the object and end with `close`."""

    def __init__(
        self,
        config: JournalConfig,
        clock: Clock,
        open_sink: Callable[[Path], AppendableFile] = UnbufferedFile,
        *,
        topic: JournalDestination | None = None,
    ) -> None:
        run = f"{clock.now_ms():x}"
        sink = functools.partial(JournalSink, clock=clock, max_queued=config.max_queued, retry_ms=config.retry_ms)
        has_files = config.directory is not None
        self._clock = clock
        self._topic: JournalSink | None = None
        self._files: JournalSink | None = None
        if topic is not None:
            lines = LineEncoder(config.source, run, "t" if has_files else "")
            self._topic = sink(f"{config.name} in its topic", topic, lines)
        if config.directory is not None:
            files = JournalFiles(config.directory, config.name, config.max_bytes, config.max_files, open_sink)
            lines = LineEncoder(config.source, run)
            self._files = sink(config.name, files, lines, onward=self._topic)
        self._first = self._files or self._topic

    @property
    def has_files(self) -> bool:
        return self._files is not None

    @property
    def counts(self) -> JournalCounts:
        """Counts of the files; all zero without files."""
        return JournalCounts() if self._files is None else self._files.counts

    @property
    def topic_counts(self) -> JournalCounts | None:
        """Counts of the topic; None without a topic."""
        return None if self._topic is None else self._topic.counts

    def record(self, record: EventRecord) -> None:
        """Write the event record with the present time."""
        if self._first is not None:
            self._first.record(TimedRecord(self._clock.now_ms(), record))

    def close(self, limit_s: float = 2.0) -> None:
        """Write queued event records as far as possible within the limit, and end the threads."""
        deadline_s = time.monotonic() + limit_s
        if self._topic is not None:
            self._topic.hasten()
        for sink in (self._files, self._topic):
            if sink is not None:
                sink.end()
                sink.join(max(0.0, deadline_s - time.monotonic()))
