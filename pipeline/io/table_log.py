"""The log of a table, in Delta Lake's format: which files have its rows, now and before.

    silver/debts/_delta_log/00000000000000000007.json     one change: the files that it adds and those that it removes
    silver/debts/day=2026-01-02/part-....parquet          a file; nobody reads it before a change has added it

Spark writes the files, and delta-rs the log: a change costs no Spark job, and other programs read the tables by their
log. A file that was removed from the table stays on the disk for those who read, or will read, an earlier state
(`TableLog.vacuum`).
"""

from __future__ import annotations

import contextlib
import datetime
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from lethe.adapters import table_logs
from lethe.adapters.table_logs import LogUnusable, open_log, refusal
from lethe.pipeline.io.files import FileSystemError
from lethe.pipeline.io.local_files import local_path
from lethe.pipeline.tables import Table

DAY: Final = "day"
ENDING: Final = ".parquet"
_PARTITION: Final = f"{DAY}="
_LOG_DAYS: Final = 2
KEPT_MS: Final = _LOG_DAYS * 86_400_000
"""For so long, logs say what the tables had."""
_KEPT_HOURS: Final = 1
"""How long a file stays that left its table: reading takes less."""
_SETTINGS: Final = {
    "delta.deletedFileRetentionDuration": f"interval {_KEPT_HOURS} hours",
    # Each change lists the log. A stream makes three thousand changes a day.
    "delta.logRetentionDuration": f"interval {_LOG_DAYS} days",
}
_STRANGE: Final = re.compile(r"[^\w.:/@=+~,-]|[^\x00-\x7f]")
"""Such letters delta-rs escapes in the names of remote directories, or takes for the end of the path."""


class TableFile(NamedTuple):
    """A file of a table: `path` is below the table's directory; `day` is None in a table without days."""

    path: str
    day: datetime.date | None
    size_bytes: int


class Batch(NamedTuple):
    """A micro-batch of a stream: a change that names it is made once."""

    stream_id: str
    number: int


def place_problem(root: str) -> str | None:
    """Return why logs cannot be below this root, else None."""
    if (local := local_path(root)) is not None:
        return table_logs.place_problem(local)
    if not (strange := _STRANGE.search(root)):
        return None
    return f"{root}: a lake that is not on a local disk has no {strange[0]!r} in its path: name another directory"


class TableLog:
    """The log of the table below a lake's root, which need not exist. Methods raise FileSystemError."""

    def __init__(self, root: str, table: Table) -> None:
        self._schema: Final = Schema.from_json(table.schema.json())
        self._partitions: Final = [DAY] if table.is_partitioned else []
        place = f"{root}/{table.path}"
        local = local_path(place)
        self._place: Final = local or place

    def files(self) -> tuple[TableFile, ...] | None:
        """Return the table's files by path; None if there is no log."""
        found = self._open()
        return None if found is None else _files_of(found)

    def files_at(self, moment: datetime.datetime) -> tuple[TableFile, ...] | None:
        """Return the files that the table had then; None if there was no table. They may have been removed since."""
        found = self._open()
        if found is None:
            return None
        with self._refusal("read"):
            changes = _changes(found)
            version = _version_at(changes, moment)
            if version is not None:
                found.load_as_version(version)
                return _files_of(found)
        if 0 in changes:
            return None
        raise FileSystemError(f"the log of the table does not reach back to {moment:%Y-%m-%d %H:%M}: {self._place}")

    def has_batch(self, batch: Batch) -> bool:
        """Return whether the change of this micro-batch, or of a later one of its stream, was made."""
        found = self._open()
        last = None if found is None else found.transaction_version(batch.stream_id)
        return last is not None and last >= batch.number

    def create(self, files: Collection[TableFile] = ()) -> None:
        """Make the log of a table that has these files, unless there is one."""
        if self._open() is not None:
            return
        with self._refusal("make"):
            create_table_with_add_actions(
                self._place,
                self._schema,
                _additions(files),
                mode="error",
                partition_by=self._partitions,
                configuration=_SETTINGS,
            )

    def change(
        self, added: Collection[TableFile], removed: Collection[TableFile] = (), batch: Batch | None = None
    ) -> None:
        """Add files, which exist below the table's directory, and remove others, at once."""
        found = self._open()
        if found is None:
            raise FileSystemError(f"{self._place} has no log")
        if not (added or removed or batch):
            return
        noted = [] if batch is None else [Transaction(batch.stream_id, batch.number)]
        with self._refusal("change"):
            _add_columns(found, self._schema)
            found.create_write_transaction(
                [*_additions(added), *_removals(removed)],
                "append",
                self._schema,
                partition_by=self._partitions,
                commit_properties=CommitProperties(app_transactions=noted),
            )

    def vacuum(self, now: datetime.datetime) -> None:
        """Remove files that no change has added, and those that left the table more than an hour ago, except of the
        states at the end of each of the last days."""
        found = self._open()
        if found is None:
            return
        today = now.astimezone(datetime.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        ends = [today - datetime.timedelta(days=days, microseconds=1) for days in range(_LOG_DAYS)]
        with self._refusal("vacuum"):
            changes = _changes(found)
            kept = {version for end in ends if (version := _version_at(changes, end)) is not None}
            found.vacuum(
                _KEPT_HOURS, dry_run=False, enforce_retention_duration=False, full=True, keep_versions=sorted(kept)
            )

    def _open(self) -> DeltaTable | None:
        with self._refusal("read"):
            return open_log(self._place)

    @contextlib.contextmanager
    def _refusal(self, what: str) -> Iterator[None]:
        try:
            with refusal(what, self._place):
                yield
        except LogUnusable as error:
            raise FileSystemError(str(error)) from error


def day_of(path: str) -> datetime.date | None:
    """Return the day of a file by its path below its table's directory: `day=2026-01-02/part-0.parquet`."""
    partition = path.partition("/")[0]
    is_day = partition.startswith(_PARTITION)
    return datetime.date.fromisoformat(partition.removeprefix(_PARTITION)) if is_day else None


def _changes(found: DeltaTable) -> dict[int, int]:
    """Return the times of the changes of which the log tells, in milliseconds, by version: as written in it, because
    the files of a copy have other times."""
    return {change["version"]: int(change["timestamp"]) for change in found.history() if "timestamp" in change}


def _version_at(changes: Mapping[int, int], moment: datetime.datetime) -> int | None:
    return max((version for version, at_ms in changes.items() if at_ms <= moment.timestamp() * 1000), default=None)


def _files_of(found: DeltaTable) -> tuple[TableFile, ...]:
    rows = pa.table(found.get_add_actions(flatten=True))
    days: Sequence[datetime.date | None] = [None] * rows.num_rows
    if f"partition.{DAY}" in rows.column_names:
        days = rows[f"partition.{DAY}"].to_pylist()
    return tuple(sorted(map(TableFile, rows["path"].to_pylist(), days, rows["size_bytes"].to_pylist())))


def _additions(files: Iterable[TableFile]) -> list[AddAction]:
    return [AddAction(file.path, file.size_bytes, _partition(file), _now_ms(), True, "{}") for file in files]


def _removals(files: Iterable[TableFile]) -> list[RemoveAction]:
    return [
        RemoveAction(
            path=file.path,
            deletion_timestamp=_now_ms(),
            data_change=True,
            partition_values=_partition(file),
            size=file.size_bytes,
        )
        for file in files
    ]


def _now_ms() -> int:
    return int(time.time() * 1000)


def _partition(file: TableFile) -> dict[str, str | None]:
    return {} if file.day is None else {DAY: str(file.day)}


def _add_columns(found: DeltaTable, schema: Schema) -> None:
    """Tell other readers of columns that an earlier version of Lethe did not write."""
    known = {field.name for field in found.schema().fields}
    if new := [field for field in schema.fields if field.name not in known]:
        found.alter.add_columns(new)
