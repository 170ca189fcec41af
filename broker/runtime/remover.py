"""Remove directories that were renamed for deletion: in the background, paced, on a thread of its own.

The pace counts files, because unlinking loads the disk. A round runs in slices: each removes the allowance of a
twentieth of a second, then the thread rests, so that other disk work and the end of the process wait briefly. The next
start finds unfinished directories by their names.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

from lethe.broker.core.effects import DirectoryRef
from lethe.broker.core.inputs import RemovalOutcome
from lethe.broker.runtime.log_dirs import LogDirs

SLICES_PER_SECOND: Final = 20
UNLIMITED_SLICE_FILES: Final = 1_000


class _Slice(NamedTuple):
    outcomes: list[RemovalOutcome]
    """Outcomes of the finished directories, in order."""
    files: int
    unfinished: RemovalOutcome
    """Progress on the next directory."""


class Remover:
    """Performs RemoveDirectories."""

    def __init__(
        self,
        log_dirs: LogDirs,
        executor: Executor,
        files_per_second: int,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._log_dirs = log_dirs
        self._executor = executor
        self._files_per_second = files_per_second
        self._rest = rest

    async def remove(self, directories: Sequence[DirectoryRef]) -> tuple[RemovalOutcome, ...]:
        """Remove all directories; one outcome each."""
        allowance = max(1, self._files_per_second // SLICES_PER_SECOND) if self._files_per_second else 0
        outcomes: list[RemovalOutcome] = []
        begun = RemovalOutcome(None)
        while len(outcomes) < len(directories):
            started_s = time.monotonic()
            done = await asyncio.get_running_loop().run_in_executor(
                self._executor, self._remove_slice, directories[len(outcomes) :], allowance, begun
            )
            outcomes += done.outcomes
            begun = done.unfinished
            if self._files_per_second:
                spent_s = time.monotonic() - started_s
                await self._rest(max(0.0, done.files / self._files_per_second - spent_s))
        return tuple(outcomes)

    def _remove_slice(self, directories: Sequence[DirectoryRef], allowance: int, begun: RemovalOutcome) -> _Slice:
        """Remove directories until the allowance is used up. Runs on the thread."""
        left = allowance or UNLIMITED_SLICE_FILES
        outcomes: list[RemovalOutcome] = []
        files = 0
        for directory in directories:
            removed = self._log_dirs.remove(directory, left)
            # A directory costs as much as a file.
            cost = removed.files + (1 if removed.finished else 0)
            files += cost
            left -= cost
            size_bytes, count = begun.size_bytes + removed.size_bytes, begun.files + removed.files
            if not removed.finished and removed.error is None:
                return _Slice(outcomes, files, RemovalOutcome(None, size_bytes, count))
            outcomes.append(RemovalOutcome(removed.error, size_bytes, count, removed.log_dir_failed))
            begun = RemovalOutcome(None)
            if left <= 0:
                break
        return _Slice(outcomes, files, begun)
