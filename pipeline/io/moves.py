"""Changes of the lake that happen whole or not at all, whenever the process dies.

A change is staged first: its new files are written below `_work/<name>/new`, where nobody looks. Then the plan of the
change, a list of steps, is written beside them under a temporary name and renamed to `plan.json`. That rename decides.
Before it, nothing has happened, and what was staged is thrown away by the next writer. After it, the change has
happened, and the next writer carries out what is left of it. Every step can be carried out again: it moves something
out of the staging area, and has been done where that is no longer there. What a step replaces is moved to
`_work/<name>/old` and goes with the staging area.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lethe.pipeline.io.files import Files

WORK: Final = "_work"
PLAN: Final = "plan.json"


@dataclass(frozen=True, slots=True)
class Move:
    """Puts `staged` (below the staging area's `new`; None where nothing comes) in the place of what lies at `target`
    (below the lake)."""

    staged: str | None
    target: str


class Staging:
    """A place to prepare one change in. `name` is unique in the lake."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._place = f"{files.root}/{WORK}/{name}"

    @property
    def new(self) -> str:
        """Where new files are written."""
        return f"{self._place}/new"

    def carry_out(self, moves: Sequence[Move]) -> None:
        """Makes the change. Raises FileTrouble; the next writer then finishes it, or forgets it."""
        plan = json.dumps([[move.staged, move.target] for move in moves])
        self._files.make_directory(self._place)
        self._files.write_text(f"{self._place}/{PLAN}.tmp", plan)
        self._files.rename(f"{self._place}/{PLAN}.tmp", f"{self._place}/{PLAN}")
        self._go_on(moves)

    def forget(self) -> None:
        """Throws away what was staged."""
        self._files.remove(self._place)

    def settle(self) -> bool:
        """Finishes the change where its plan stands, else forgets it. True where it was finished."""
        if not self._files.exists(f"{self._place}/{PLAN}"):
            self.forget()
            return False
        self._go_on(
            [Move(staged, target) for staged, target in json.loads(self._files.read_text(f"{self._place}/{PLAN}"))]
        )
        return True

    def _go_on(self, moves: Sequence[Move]) -> None:
        for number, move in enumerate(moves):
            self._carry_out(move, f"{self._place}/old-{number}")
        # The plan goes first: without it, an interrupted removal is not taken for a change to be made.
        self._files.remove(f"{self._place}/{PLAN}")
        self.forget()

    def _carry_out(self, move: Move, old: str) -> None:
        files = self._files
        target = f"{files.root}/{move.target}"
        if move.staged is None:
            if files.exists(target):
                files.rename(target, old)
            return
        staged = f"{self.new}/{move.staged}"
        if not files.exists(staged):
            return
        if files.exists(target):
            files.rename(target, old)
        else:
            files.make_directory(target.rpartition("/")[0])
        files.rename(staged, target)


def settle_all(files: Files) -> int:
    """Finishes or forgets what earlier writers left, in the order of their names; how many changes were finished."""
    return sum(Staging(files, item.name).settle() for item in files.items(f"{files.root}/{WORK}"))
