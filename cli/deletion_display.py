"""Displays of the progress of deletions, for `topics delete --wait`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from lethe.admin.deletion_wait import DeletionWaitResult, Display, dirty_places
from lethe.cli.render import note


def progress_display(*, quiet: bool, total: int) -> AbstractContextManager[Display]:
    """Return bars for a terminal, lines for a log, or (quiet) nothing."""
    if quiet:
        return _silence()
    return _bars(total) if sys.stderr.isatty() else _changes(total)


@contextmanager
def _silence() -> Iterator[Display]:
    yield lambda _: None


@contextmanager
def _changes(total: int) -> Iterator[Display]:
    """For a log: write a line after each change."""
    last = ""

    def display(waited: DeletionWaitResult) -> None:
        nonlocal last
        text = ", ".join(f"{place} {clean}/{total}" for place, clean in _places(waited, total))
        if text != last:
            note(f"{waited.elapsed_ms / 1000:6.1f} s  clean: {text}")
            last = text

    yield display


@contextmanager
def _bars(total: int) -> Iterator[Display]:
    """For a terminal: a bar for ZooKeeper, and bars for the cache and the logs of each broker."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description:22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def display(waited: DeletionWaitResult) -> None:
            for place, clean in _places(waited, total):
                if place not in tasks:
                    tasks[place] = bars.add_task(place, total=total)
                bars.update(tasks[place], completed=clean)

        yield display


def _places(waited: DeletionWaitResult, total: int) -> list[tuple[str, int]]:
    """Return how many topics each place is clean of: ZooKeeper, if it is looked at, then each place of a broker that
    was ever not clean."""
    dirty = dict.fromkeys(waited.places, 0)
    for progress in waited.progress:
        for place in dirty_places(progress):
            dirty[place] += 1
    znodes = [("ZooKeeper", len(waited.zookeeper_ms))] if waited.has_znodes else []
    return [*znodes, *((place, total - dirty[place]) for place in sorted(dirty))]
