"""Waits until a count is full, and shows the progress."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from lethe.cli.render import note

POLL_MS: Final = 200

Poll = Callable[[], Awaitable[int]]
"""Returns the number of settled items."""
Display = Callable[[int, float], None]
"""Shows the number of settled items after so many seconds."""


async def wait_for_all(
    poll: Poll, total: int, what: str, *, timeout_ms: int, quiet: bool, poll_ms: int = POLL_MS, from_last: bool = False
) -> bool:
    """Poll every `poll_ms` until `total` are settled (True) or the time is over (False). The time counts from the
    start, or (`from_last`) from the last progress.

    The pause is at least as long as the last poll took.
    """
    began = counted_from = time.monotonic()
    most = 0
    with _display(what, total, quiet=quiet) as display:
        while True:
            look_began = time.monotonic()
            settled = await poll()
            now = time.monotonic()
            display(settled, now - began)
            if settled >= total:
                return True
            if from_last and settled > most:
                counted_from, most = now, settled
            left_s = counted_from + timeout_ms / 1000 - now
            if left_s <= 0:
                return False
            await asyncio.sleep(min(max(poll_ms / 1000, now - look_began), left_s))


def _display(what: str, total: int, *, quiet: bool) -> AbstractContextManager[Display]:
    if quiet:
        return _silence()
    return _bar(what, total) if sys.stderr.isatty() else _changes(what, total)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how many items of a long work are done: a bar on a terminal, lines elsewhere."""
    began = time.monotonic()
    with _display(what, total, quiet=False) as display:
        yield lambda done: display(done, time.monotonic() - began)


@contextmanager
def _silence() -> Iterator[Display]:
    yield lambda _settled, _elapsed_s: None


@contextmanager
def _changes(what: str, total: int) -> Iterator[Display]:
    """For a log: write a line after each change."""
    last = -1

    def display(settled: int, elapsed_s: float) -> None:
        nonlocal last
        if settled != last:
            note(f"{elapsed_s:6.1f} s  {what}: {settled}/{total}")
            last = settled

    yield display


@contextmanager
def _bar(what: str, total: int) -> Iterator[Display]:
    """For a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(what, total=total)
        yield lambda settled, _elapsed_s: bars.update(task, completed=settled)
