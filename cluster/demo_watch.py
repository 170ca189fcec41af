"""The demo's progress as values for a watcher, which decides how to show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ProgressBar(NamedTuple):
    """Progress of one thing."""

    label: str
    done: int
    total: int
    is_bytes: bool = False


class ProgressWatcher(Protocol):
    """Receives the progress while the demo runs; must not block."""

    def note(self, text: str) -> None:
        """Report one event."""
        ...

    def stage(self, title: str) -> None:
        """Start the next part of the demo; the bars of the previous one are final."""
        ...

    def bars(self, bars: Sequence[ProgressBar]) -> None:
        """Report the present stage's progress, with the same labels as the last time, or more."""
        ...


class SilentWatcher:
    """A watcher that ignores everything."""

    def note(self, text: str) -> None:
        del text

    def stage(self, title: str) -> None:
        del title

    def bars(self, bars: Sequence[ProgressBar]) -> None:
        del bars
