"""How the demo tells what is going on: to whoever watches, as values; how that looks is the watcher's business."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Bar(NamedTuple):
    """How far something is."""

    label: str
    done: int
    total: int
    is_bytes: bool = False


class Watcher(Protocol):
    """Told while the demo runs; must not block."""

    def note(self, text: str) -> None:
        """Something has happened."""
        ...

    def stage(self, title: str) -> None:
        """What follows belongs to this part of the demo; the bars of the one before are settled."""
        ...

    def bars(self, bars: Sequence[Bar]) -> None:
        """How far the present stage is; the same labels as the last time, or more."""
        ...


class Silent:
    """Nobody watches."""

    def note(self, text: str) -> None:
        del text

    def stage(self, title: str) -> None:
        del title

    def bars(self, bars: Sequence[Bar]) -> None:
        del bars
