"""Remove directories that were renamed for deletion: in the background, paced, on a thread of its own.

The pace counts files, because unlinking loads the disk, and bytes. A round runs in slices: each removes the allowance
of a twentieth of a second, then the thread rests, so that other disk work and the end of the process wait briefly.
Under a limit on bytes files go one by one; one that is larger than the allowance makes the rest longer. The next
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
from lethe.broker.runtime.removal_pace import RemovalLimits

SLICES_PER_SECOND: Final = 20
UNLIMITED_SLICE_FILES: Final = 1_000


class _Slice(NamedTuple):
    outcomes: list[RemovalOutcome]
    """Outcomes of the finished directories, in order."""
    files: int
    size_bytes: int
    unfinished: RemovalOutcome
    """Progress on the next directory."""


class Remover:
    """Performs RemoveDirectories."""

    def __init__(
        self,
        log_dirs: LogDirs,
        executor: Executor,
        limits: Callable[[], RemovalLimits],
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._log_dirs = log_dirs
        self._executor = executor
        self._limits = limits
        self._rest = rest

    async def remove(self, directories: Sequence[DirectoryRef]) -> tuple[RemovalOutcome, ...]:
        """Remove all directories; one outcome each."""
        outcomes: list[RemovalOutcome] = []
        begun = RemovalOutcome(None)
        while len(outcomes) < len(directories):
            limits = self._limits()
            started_s = time.monotonic()
            done = await asyncio.get_running_loop().run_in_executor(
                self._executor, self._remove_slice, directories[len(outcomes) :], limits, begun
            )
            outcomes += done.outcomes
            begun = done.unfinished
            if any(limits):
                spent_s = time.monotonic() - started_s
                await self._rest(max(0.0, _takes_s(done, limits) - spent_s))
        return tuple(outcomes)

    def _remove_slice(
        self, directories: Sequence[DirectoryRef], limits: RemovalLimits, begun: RemovalOutcome
    ) -> _Slice:
        """Remove directories until the allowance is used up. Runs on the thread."""
        left = max(1, limits.files // SLICES_PER_SECOND) if limits.files else UNLIMITED_SLICE_FILES
        room = max(1, limits.bytes // SLICES_PER_SECOND) if limits.bytes else None
        outcomes: list[RemovalOutcome] = []
        files = size = 0
        for directory in directories:
            while True:
                removed = self._log_dirs.remove(directory, left if room is None else 1)
                # A directory costs as much as a file.
                cost = removed.files + (1 if removed.finished else 0)
                files, left, size = files + cost, left - cost, size + removed.size_bytes
                begun = RemovalOutcome(None, begun.size_bytes + removed.size_bytes, begun.files + removed.files)
                is_over = left <= 0 or (room is not None and size >= room)
                if removed.finished or removed.error is not None:
                    break
                if is_over or not removed.files:
                    return _Slice(outcomes, files, size, begun)
            outcomes.append(RemovalOutcome(removed.error, begun.size_bytes, begun.files, removed.log_dir_failed))
            begun = RemovalOutcome(None)
            if is_over:
                break
        return _Slice(outcomes, files, size, begun)


def _takes_s(done: _Slice, limits: RemovalLimits) -> float:
    """Return the time that the limits give to what was removed."""
    files_s = done.files / limits.files if limits.files else 0.0
    return max(files_s, done.size_bytes / limits.bytes if limits.bytes else 0.0)
