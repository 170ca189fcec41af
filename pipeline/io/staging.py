"""The staging area: files are written where no reader looks, and then enter their table in one change.

    _work/run-000001/new/debts/day=2026-01-02/...    1. written by Spark
    silver/debts/day=2026-01-02/...                  2. each renamed to the table's directory; its name is unique
    silver/debts/_delta_log/...                      3. one entry of the table's log adds them: the change

Before step 3 nothing has happened, whenever the process dies. What it leaves is removed: in `_work` by the next writer,
and beside a table's files by the next vacuum.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lethe.pipeline.io.lake_state import WritableFiles, table_files_below
from lethe.pipeline.io.table_log import Batch, TableFile, TableLog
from lethe.pipeline.tables import Table

WORK: Final = "_work"


class Staging:
    """The staging area of one change. `name` is unique in the lake. Methods raise FileSystemError."""

    def __init__(self, files: WritableFiles, name: str) -> None:
        self._files = files
        self._place = f"{files.root}/{WORK}/{name}"

    @property
    def new(self) -> str:
        """The directory for new files."""
        return f"{self._place}/new"

    def commit(
        self, table: Table, staged: str, removed: Collection[TableFile] = (), batch: Batch | None = None
    ) -> None:
        """Add the files below the directory `staged` to the table and remove others from it, in one change."""
        target = f"{self._files.root}/{table.path}"
        log = TableLog(self._files.root, table)
        # First, because a table that has files and no log has lost its log.
        log.create()
        added = table_files_below(self._files, staged)
        for directory in dict.fromkeys(file.path.rpartition("/")[0] for file in added):
            self._files.make_directory(f"{target}/{directory}".rstrip("/"))
        for file in added:
            self._files.rename(f"{staged}/{file.path}", f"{target}/{file.path}")
        log.change(added, removed, batch)
        self.discard()

    def discard(self) -> None:
        """Remove the staged files."""
        self._files.remove(self._place)


def discard_all(files: WritableFiles) -> None:
    """Remove what writers that died have left in the staging area."""
    for item in files.list_directory(f"{files.root}/{WORK}"):
        files.remove(item.path)
