"""What a lake says of itself in the names and small files of its directory: read without its tables, and without Spark.

lake.json, _lake.json          the Kafka cluster
bronze/surveys/_delta_log      the files of a table, and so its days
_pending/2026-01-02            days whose tables must still be recomputed
_audited/1767398400000.json    what of each day was audited
"""

from __future__ import annotations

import datetime
from collections.abc import Collection
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from lethe.adapters.table_logs import DAMAGED
from lethe.pipeline.io import audit_notes
from lethe.pipeline.io.audit_notes import AuditNotes
from lethe.pipeline.io.files import FileStatus, FileSystemError
from lethe.pipeline.io.local_files import LocalFiles
from lethe.pipeline.io.table_log import ENDING, TableFile, TableLog, day_of, place_problem
from lethe.pipeline.tables import AUDITED, TABLES, Table
from lethe.protocol.lake import IDENTITY, LOG, cluster_of, has_logs

TEMPORARY_IDENTITY: Final = f"_{IDENTITY}"
"""Written first and then renamed. After a crash between the two, it identifies the lake."""
PENDING: Final = "_pending"


class LakeUnusable(Exception):
    """The directory is no lake, or one of a later version or another cluster; the message says which and what to do."""


class ReadableFiles(Protocol):
    """What is read of a file system (`pipeline.io.files`, `pipeline.io.local_files`)."""

    @property
    def root(self) -> str: ...
    @property
    def local_root(self) -> Path | None: ...
    def exists(self, path: str) -> bool: ...
    def list_directory(self, path: str) -> list[FileStatus]: ...
    def read_text(self, path: str) -> str: ...


class WritableFiles(ReadableFiles, Protocol):
    """What is changed of one."""

    def make_directory(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def write_text(self, path: str, text: str) -> None: ...


Files = TypeVar("Files", bound=ReadableFiles)


class LakeState(Generic[Files]):
    """The state of the lake below the root of `files`, which need not exist. Raises LakeUnusable; methods raise
    FileSystemError."""

    def __init__(self, files: Files) -> None:
        if problem := place_problem(files.root):
            raise LakeUnusable(problem)
        self._files = files
        # Through the JVM each name of a long listing is asked for by itself.
        self._names: ReadableFiles = files if files.local_root is None else LocalFiles(str(files.local_root))
        self._cluster_id = self._read_identity()

    @property
    def root(self) -> str:
        """The root with its scheme: `file:/lake`."""
        return self._files.root

    @property
    def files(self) -> Files:
        """The file system of the lake."""
        return self._files

    @property
    def cluster_id(self) -> str | None:
        """The Kafka cluster of the lake; None until it is known."""
        return self._cluster_id

    @property
    def has_logs(self) -> bool:
        """Return whether the tables have logs; if not, the next writer gives them some."""
        other = f"{self.root}/{TEMPORARY_IDENTITY}"
        path = next((path for path in (f"{self.root}/{IDENTITY}", other) if self._is_identity(path)), None)
        return path is None or has_logs(self._files.read_text(path))

    def files_of(self, table: Table) -> tuple[TableFile, ...]:
        """Return the files that have the table's rows, by path."""
        return self._logged_files(table) or ()

    def days(self, table: Table) -> list[datetime.date]:
        """Return the days that have rows."""
        return sorted({file.day for file in self.files_of(table) if file.day is not None})

    def count_files(self, table: Table, day: datetime.date) -> int:
        """Return the number of files of a day."""
        return sum(file.day == day for file in self.files_of(table))

    def has(self, table: Table) -> bool:
        """Return True if the table was written."""
        return self._logged_files(table) is not None

    def audited(self) -> AuditNotes:
        """Return what of each day was audited."""
        place = f"{self.root}/{audit_notes.PLACE}"
        name = audit_notes.newest_notes(item.name for item in self._names.list_directory(place))
        return {} if name is None else audit_notes.decode_notes(self._names.read_text(f"{place}/{name}"))

    def unaudited_days(self, written: Collection[Table] = AUDITED) -> set[datetime.date]:
        """Return the days of these tables that have changed since they were audited, or were never audited."""
        return audit_notes.unaudited(self.audited(), {table.name: self.files_of(table) for table in written})

    def written_tables(self) -> list[Table]:
        """Return the tables that were written."""
        return [table for table in TABLES.values() if self.has(table)]

    def pending_days(self) -> list[datetime.date]:
        """Return the days whose tables must still be recomputed."""
        return [datetime.date.fromisoformat(item.name) for item in self._names.list_directory(f"{self.root}/{PENDING}")]

    def _logged_files(self, table: Table) -> tuple[TableFile, ...] | None:
        found = TableLog(self.root, table).files()
        place = f"{self.root}/{table.path}"
        if found is None and self.has_logs and table_files_below(self._names, place):
            raise FileSystemError(f"the table has files and no log ({LOG}): {place}: {DAMAGED}")
        return found

    def _read_identity(self) -> str | None:
        path, other = f"{self.root}/{IDENTITY}", f"{self.root}/{TEMPORARY_IDENTITY}"
        if not self._files.exists(path):
            return cluster_of(self._files.read_text(other)) if self._is_identity(other) else None
        try:
            return cluster_of(self._files.read_text(path))
        except ValueError as error:
            raise LakeUnusable(f"{path}: {error}") from error

    def _is_identity(self, path: str) -> bool:
        if not self._files.exists(path):
            return False
        try:
            cluster_of(self._files.read_text(path))
        except ValueError:
            return False
        return True


def table_files_below(files: ReadableFiles, place: str) -> list[TableFile]:
    """Return the Parquet files of the directory and of its partitions, by path."""
    paths = {
        one.path.removeprefix(f"{place}/"): one.size_bytes
        for item in files.list_directory(place)
        for one in (files.list_directory(item.path) if item.is_directory else [item])
    }
    return [TableFile(path, day_of(path), size) for path, size in sorted(paths.items()) if path.endswith(ENDING)]
