"""Atomic changes of the lake: a change happens whole or not at all, whenever the process dies.

    _work/run-000001/new/...      1. write the new files, where no reader looks
    _work/run-000001/plan.json    2. write the list of moves under a temporary name, then rename it: the commit
    _work/run-000001/old-0        3. move each replaced file or directory here, and the new one to its target
                                  4. remove the plan, then the staging area

Before step 2 nothing has happened: the next writer discards the staged files. After it the change counts: the next
writer carries out the remaining moves. A move is repeatable. It is done if its source is no longer in the staging area.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lethe.pipeline.io.lake_state import WritableFiles

WORK: Final = "_work"
PLAN: Final = "plan.json"


@dataclass(frozen=True, slots=True)
class Move:
    """Replace `target` (below the lake) by `staged` (below the staging area's `new`); None: only remove `target`."""

    staged: str | None
    target: str


class Staging:
    """The staging area of one change. `name` is unique in the lake."""

    def __init__(self, files: WritableFiles, name: str) -> None:
        self._files = files
        self._place = f"{files.root}/{WORK}/{name}"

    @property
    def new(self) -> str:
        """The directory for new files."""
        return f"{self._place}/new"

    def commit(self, moves: Sequence[Move]) -> None:
        """Make the change. Raises FileSystemError; the next writer then completes or discards it."""
        plan = json.dumps([[move.staged, move.target] for move in moves])
        self._files.make_directory(self._place)
        self._files.write_text(f"{self._place}/{PLAN}.tmp", plan)
        self._files.rename(f"{self._place}/{PLAN}.tmp", f"{self._place}/{PLAN}")
        self._apply(moves)

    def discard(self) -> None:
        """Remove the staged files."""
        self._files.remove(self._place)

    def recover(self) -> bool:
        """Complete the change if its plan was committed, else discard it. Return True if it was completed."""
        if not self._files.exists(f"{self._place}/{PLAN}"):
            self.discard()
            return False
        self._apply(
            [Move(staged, target) for staged, target in json.loads(self._files.read_text(f"{self._place}/{PLAN}"))]
        )
        return True

    def _apply(self, moves: Sequence[Move]) -> None:
        for number, move in enumerate(moves):
            self._move(move, f"{self._place}/old-{number}")
        # The plan goes first: without it, an interrupted removal is not taken for a change to be made.
        self._files.remove(f"{self._place}/{PLAN}")
        self.discard()

    def _move(self, move: Move, old: str) -> None:
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


def recover_all(files: WritableFiles) -> int:
    """Complete or discard the changes of earlier writers, by name; return the number of completed changes."""
    return sum(Staging(files, item.name).recover() for item in files.list_directory(f"{files.root}/{WORK}"))
