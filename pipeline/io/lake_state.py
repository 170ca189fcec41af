"""What a lake says of itself in the names and small files of its directory: read without its tables, and without Spark.

lake.json, _lake.json              the Kafka cluster
bronze/surveys/day=2026-01-02      the days of a table
_pending/2026-01-02                days whose tables must still be recomputed
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from lethe.pipeline.io.files import FileStatus
from lethe.pipeline.io.local_files import LocalFiles
from lethe.pipeline.tables import TABLES, Table
from lethe.protocol.lake import IDENTITY, cluster_of

TEMPORARY_IDENTITY: Final = f"_{IDENTITY}"
"""Written first and then renamed. After a crash between the two, it identifies the lake."""
PENDING: Final = "_pending"
DAY: Final = "day"
_PARTITION: Final = f"{DAY}="


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

    def days(self, table: Table) -> list[datetime.date]:
        """Return the days that have a partition, which may be empty."""
        return days_below(self._names, f"{self.root}/{table.path}")

    def last_written_ms(self, table: Table) -> dict[datetime.date, int]:
        """Return the time of the last file change of each of the table's days, in milliseconds; 0 for an object store,
        which has no such time."""
        return {
            day: item.modified_ms
            for item in self._names.list_directory(f"{self.root}/{table.path}")
            if (day := _day_of(item)) is not None
        }

    def count_files(self, table: Table, day: datetime.date) -> int:
        """Return the number of Parquet files of a day."""
        found = self._names.list_directory(f"{self.root}/{table.path}/{_PARTITION}{day}")
        return sum(item.name.endswith(".parquet") for item in found)

    def has(self, table: Table) -> bool:
        """Return True if the table was written."""
        return self._names.exists(f"{self.root}/{table.path}")

    def written_tables(self) -> list[Table]:
        """Return the tables that were written."""
        return [table for table in TABLES.values() if self.has(table)]

    def pending_days(self) -> list[datetime.date]:
        """Return the days whose tables must still be recomputed."""
        return [datetime.date.fromisoformat(item.name) for item in self._names.list_directory(f"{self.root}/{PENDING}")]

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


def days_below(files: ReadableFiles, path: str) -> list[datetime.date]:
    """Return the days that have a directory below `path`."""
    return [day for item in files.list_directory(path) if (day := _day_of(item)) is not None]


def _day_of(item: FileStatus) -> datetime.date | None:
    is_partition = item.is_directory and item.name.startswith(_PARTITION)
    return datetime.date.fromisoformat(item.name.removeprefix(_PARTITION)) if is_partition else None
