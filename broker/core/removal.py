"""The queue of renamed directories that wait for their removal.

A directory is due a delay after its rename, as in Kafka; one found at start, a delay after the start, because its
rename time is unknown. Due directories are removed in rounds, one round at a time. A failed removal is repeated with a
growing delay, without end: the removal of acknowledged bytes is owed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from lethe.broker.core.effects import DirectoryRef
from lethe.broker.core.inputs import RemovalOutcome
from lethe.protocol.vocabulary import TopicId

MAX_DIRECTORIES_PER_ROUND: Final = 256
FIRST_RETRY_MS: Final = 1_000
MAX_RETRY_MS: Final = 300_000


class PendingRemoval(NamedTuple):
    size_bytes: int
    files: int
    attempts: int = 0
    error: str | None = None
    """Of the last attempt."""
    topic_id: TopicId | None = None
    """The incarnation of the bytes; None if the directory has no id."""


@dataclass(slots=True)
class RemovalQueue:
    pending: dict[DirectoryRef, PendingRemoval] = field(default_factory=dict)
    """All owed removals, the round in flight included."""
    due: list[tuple[int, int, DirectoryRef]] = field(default_factory=list)
    """Heap of (due_ms, order, directory); entries that are not pending any more are skipped."""
    in_flight: tuple[DirectoryRef, ...] = ()
    in_flight_ids: tuple[TopicId | None, ...] = ()
    """The incarnations of those directories, also of those in a log directory that has failed meanwhile."""
    scheduled: int = 0
    pending_bytes: int = 0
    freed_bytes: int = 0
    freed_files: int = 0
    removed_directories: int = 0
    failed_attempts: int = 0
    failing: int = 0
    """Directories that are owed and whose last attempt failed."""

    def copy(self) -> RemovalQueue:
        return replace(self, pending=dict(self.pending), due=list(self.due))

    def add(self, directory: DirectoryRef, removal: PendingRemoval, due_ms: int) -> None:
        """Owe the removal of this directory from `due_ms` on."""
        if before := self.pending.get(directory):
            self._discount(before)
        self.pending[directory] = removal
        self.pending_bytes += removal.size_bytes
        self.failing += removal.error is not None
        self.scheduled += 1
        heapq.heappush(self.due, (due_ms, self.scheduled, directory))

    def next_due_ms(self) -> int | None:
        """When the next round may start; None while one is in flight or nothing is owed."""
        if self.in_flight:
            return None
        while self.due and self.due[0][2] not in self.pending:
            heapq.heappop(self.due)
        return self.due[0][0] if self.due else None

    def start_round(self, now_ms: int) -> tuple[DirectoryRef, ...]:
        """The directories to remove now; empty while a round is in flight or nothing is due."""
        if self.in_flight:
            return ()
        chosen: list[DirectoryRef] = []
        while self.due and self.due[0][0] <= now_ms and len(chosen) < MAX_DIRECTORIES_PER_ROUND:
            directory = heapq.heappop(self.due)[2]
            if directory in self.pending:
                chosen.append(directory)
        self.in_flight = tuple(chosen)
        self.in_flight_ids = tuple(self.pending[directory].topic_id for directory in chosen)
        return self.in_flight

    def finish_round(self, outcomes: Iterable[RemovalOutcome], now_ms: int) -> None:
        """Apply the outcomes: removed directories are no longer owed, failed ones are due again later."""
        for directory, outcome in zip(self.in_flight, outcomes, strict=True):
            self.freed_bytes += outcome.size_bytes
            self.freed_files += outcome.files
            removal = self.pending.pop(directory, None)
            if removal is None:
                continue
            self._discount(removal)
            if outcome.error is None:
                self.removed_directories += 1
                continue
            self.failed_attempts += 1
            left = removal._replace(
                size_bytes=max(0, removal.size_bytes - outcome.size_bytes),
                files=max(0, removal.files - outcome.files),
                attempts=removal.attempts + 1,
                error=outcome.error,
            )
            delay_ms = min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** min(removal.attempts, 20))
            self.add(directory, left, now_ms + delay_ms)
        self.in_flight = ()
        self.in_flight_ids = ()

    def drop_log_dir(self, log_dir: str) -> None:
        """Drop the removals in a failed log directory: a restart finds those directories again."""
        for directory in [d for d in self.pending if d.log_dir == log_dir]:
            self._discount(self.pending.pop(directory))

    def _discount(self, removal: PendingRemoval) -> None:
        self.pending_bytes -= removal.size_bytes
        self.failing -= removal.error is not None
