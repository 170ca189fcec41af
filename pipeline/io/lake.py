"""The lake: a directory with one directory per table, Parquet by day. All reads and writes of tables.

    lake.json                                       the Kafka cluster of the lake
    bronze/controller_events/_delta_log/            which of the files have the table's rows (`pipeline.io.table_log`)
    bronze/controller_events/day=2026-01-02/*.parquet
    gold/stuck_now/*.parquet                        tables without partitions are replaced as a whole
    _lock, _work/                                   the writer, and what it has staged (`pipeline.io.staging`)

A directory is a lake if it has `lake.json` (`protocol.lake`). A directory with other content is never written to: its
files may belong to somebody else.

The lake has one writer at a time (`pipeline.io.lock`). Each change of a table is atomic. Readers need no lock. A frame
has the rows of the moment when it was read: read the table again after a change.

A frame must have exactly its table's columns. Bronze tables are appended to; partitions of other tables are replaced.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Collection, Iterator
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from lethe.pipeline.io import audit_notes
from lethe.pipeline.io.files import FileSystem, escape_glob
from lethe.pipeline.io.frames import empty
from lethe.pipeline.io.lake_state import PENDING, TEMPORARY_IDENTITY, LakeState, table_files_below
from lethe.pipeline.io.lake_state import LakeUnusable as LakeUnusable
from lethe.pipeline.io.lock import LOCK, acquire_within, is_lock_text
from lethe.pipeline.io.staged_rows import KEPT_COLUMN, StagedRows, write_rows
from lethe.pipeline.io.staging import WORK, Staging, discard_all
from lethe.pipeline.io.table_log import DAY as DAY
from lethe.pipeline.io.table_log import KEPT_MS, Batch, TableLog
from lethe.pipeline.session import fit_shuffles
from lethe.pipeline.tables import AUDITED, TABLES, Layer, Table
from lethe.protocol.counting import listed
from lethe.protocol.lake import IDENTITY, encode_identity, is_begun

SHOWN_NAMES: Final = 5
_PLAN: Final = "plan.json"
"""Of an unfinished change, in lakes whose tables have no logs."""
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Of a partition whose column is null."""


class ColumnMismatch(TypeError):
    """A frame does not have its table's columns: a bug in the pipeline."""


class Lake(LakeState[FileSystem]):
    """The lake at `root`, which need not exist yet. Raises LakeUnusable; methods raise FileSystemError."""

    def __init__(self, spark: SparkSession, root: str, files: FileSystem | None = None) -> None:
        super().__init__(files or FileSystem(spark, root))
        self._spark = spark
        self._changes = 0
        self._writer: str | None = None

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, table: Table, days: Collection[datetime.date] | None = None) -> DataFrame:
        """Return the table with its columns in order, of these days or of all; empty if it does not exist yet."""
        path = f"{self.root}/{table.path}"
        files = [file.path for file in self.files_of(table) if days is None or file.day in days]
        if not files:
            return empty(self._spark, table.schema)
        places = [escape_glob(f"{path}/{file}") for file in files]
        frame = self._spark.read.schema(table.schema).option("basePath", path).parquet(*places)
        return frame.select(*table.schema.names)

    def has_batch(self, table: Table, batch: Batch) -> bool:
        """Return whether the change of this table by this micro-batch was made."""
        return TableLog(self.root, table).has_batch(batch)

    def fit_shuffles(self, days: Collection[datetime.date], staged: StagedRows | None = None) -> None:
        """Let the session's shuffles have partitions for the rows of bronze tables of these days, and for staged ones
        (`session.fit_shuffles`)."""

        def size_bytes() -> int:
            files = (file for table in TABLES.values() if table.layer is Layer.BRONZE for file in self.files_of(table))
            there = sum(file.size_bytes for file in files if file.day in days)
            return there + (0 if staged is None else staged.size_bytes())

        fit_shuffles(self._spark, size_bytes)

    # --- writing --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def writer(self, name: str, wait_s: float = 0.0, on_wait: Callable[[str], object] = str) -> Iterator[None]:
        """Make this process the lake's only writer, and discard what the last one has staged. `name` is unique among
        all runs.

        Waits at most `wait_s` seconds for another writer; `on_wait` receives its name. Raises Locked, and LakeUnusable
        if the directory holds something else than a lake.
        """
        self._require_lake_or_empty()
        self._files.make_directory(self.root)
        with acquire_within(self._files, name, wait_s, on_wait):
            # Another process may have written to it since it was read.
            self._cluster_id = self._read_identity()
            self._give_logs()
            discard_all(self._files)
            if not self._files.exists(f"{self.root}/{IDENTITY}"):
                self._write_identity()
            self._writer = name
            try:
                yield
            finally:
                self._writer = None

    def set_cluster_id(self, cluster_id: str) -> None:
        """Store the cluster of the lake. Raises LakeUnusable if the lake belongs to another one."""
        self._require_writer()
        if self._cluster_id == cluster_id:
            return
        if self._cluster_id is not None:
            raise LakeUnusable(
                f"the lake {self.root} is of the cluster {self._cluster_id}, not of {cluster_id}: use another directory"
            )
        self._cluster_id = cluster_id
        self._write_identity()

    def stage(
        self, table: Table, frame: DataFrame, decide: Callable[[DataFrame], DataFrame] | None = None
    ) -> StagedRows:
        """Write rows for a table to the staging area: they can be read, then committed or discarded.

        If the frame has the further column `kept`, rows with `kept` false are staged apart and are never added. Rows
        with `kept` null, if there are any, are replaced by what `decide` makes of them, with `kept`.
        """
        if KEPT_COLUMN not in frame.columns:
            staging, path = self._stage(table, frame)
            return StagedRows(self._spark, self._files, table, staging, path)
        staging, path = self._new_staging(table)

        def write(rows: DataFrame) -> None:
            columns = with_table_columns(table, rows.drop(KEPT_COLUMN)).columns
            write_rows(rows.select(*columns, KEPT_COLUMN), staging, path, [KEPT_COLUMN, DAY], table.order)

        write(frame)
        undecided = f"{path}/{KEPT_COLUMN}={_NO_VALUE}"
        if decide is not None and self._files.exists(undecided):
            rows = self._spark.read.schema(table.schema).parquet(escape_glob(undecided))
            # They are few, in as many files as the first query had tasks.
            write(decide(rows.coalesce(self._spark.sparkContext.defaultParallelism)))
        return StagedRows(self._spark, self._files, table, staging, f"{path}/{KEPT_COLUMN}=true")

    def append(self, table: Table, frame: DataFrame) -> None:
        """Add the rows to a table. Every task writes one file for each of its days."""
        self.stage(table, frame).commit()

    def replace_partitions(self, table: Table, frame: DataFrame, days: Collection[datetime.date]) -> None:
        """Replace the table's rows of these days by the frame, which has rows of no other day. Raises ValueError."""
        staging, path = self._stage(table, gathered(frame))
        written = {file.day for file in table_files_below(self._files, path)}
        if strange := sorted(map(str, written.difference(days))):
            staging.discard()
            raise ValueError(f"rows of {', '.join(strange)} among those that are to replace {sorted(map(str, days))}")
        staging.commit(table, path, [file for file in self.files_of(table) if file.day in days])

    def replace_table(self, table: Table, frame: DataFrame, batch: Batch | None = None) -> None:
        """Replace all rows of the table by the frame."""
        staging, path = self._stage(table, frame if table.is_partitioned else frame.hint("rebalance"))
        staging.commit(table, path, self.files_of(table), batch)

    def vacuum(self) -> None:
        """Remove the files of earlier states, except the last state of each day of which logs tell."""
        self._require_writer()
        now = datetime.datetime.now(datetime.UTC)
        for table in TABLES.values():
            TableLog(self.root, table).vacuum(now)
        place = f"{self.root}/{audit_notes.PLACE}"
        names = [item.name for item in self._names.list_directory(place)]
        for name in audit_notes.superseded(names, int(now.timestamp() * 1000), KEPT_MS):
            self._files.remove(f"{place}/{name}")

    def note_audited(self, days: Collection[datetime.date]) -> None:
        """Note that these days were audited as they are now."""
        self._require_writer()
        now = audit_notes.digests({table.name: self.files_of(table) for table in AUDITED})
        notes = {**self.audited(), **{day: now.get(day, {}) for day in days}}
        place = f"{self.root}/{audit_notes.PLACE}"
        had = [item.name for item in self._names.list_directory(place)]
        name = audit_notes.next_notes(had, int(time.time() * 1000))
        self._files.make_directory(place)
        self._files.write_text(f"{place}/.{name}", audit_notes.encode_notes(notes))
        self._files.rename(f"{place}/.{name}", f"{place}/{name}")

    # --- days that are owed -------------------------------------------------------------------------------------------

    def add_pending_days(self, days: Collection[datetime.date]) -> None:
        """Note that tables must be recomputed for these days, before bronze changes. The next run finds the note after
        a crash, even if the journal's files are gone by then."""
        self._require_writer()
        self._files.make_directory(f"{self.root}/{PENDING}")
        for day in sorted(days):
            self._files.write_text(f"{self.root}/{PENDING}/{day}", "")

    def remove_pending_days(self, days: Collection[datetime.date]) -> None:
        """Note that the tables of these days are recomputed."""
        self._require_writer()
        for day in sorted(days):
            self._files.remove(f"{self.root}/{PENDING}/{day}")

    # --- inside ---------------------------------------------------------------------------------------------------

    def _stage(self, table: Table, frame: DataFrame) -> tuple[Staging, str]:
        staging, path = self._new_staging(table)
        write_rows(with_table_columns(table, frame), staging, path, [DAY] if table.is_partitioned else [], table.order)
        if self._files.exists(f"{path}/{DAY}={_NO_VALUE}"):
            staging.discard()
            raise ValueError(f"rows for {table.name} without a day")
        return staging, path

    def _new_staging(self, table: Table) -> tuple[Staging, str]:
        self._require_writer()
        self.has(table)  # Raises FileSystemError if the table has lost its log.
        self._changes += 1
        staging = Staging(self._files, f"{self._writer}-{self._changes:06}")
        path = f"{staging.new}/{table.name}"
        self._files.make_directory(path)
        return staging, path

    def _require_writer(self) -> None:
        if self._writer is None:
            raise RuntimeError("a lake is changed inside `with lake.writer(...)`")

    def _require_lake_or_empty(self) -> None:
        """Raise LakeUnusable if the directory holds something else than a lake. Changes nothing."""
        items = self._files.list_directory(self.root)
        names = {item.name for item in items}
        other = f"{self.root}/{TEMPORARY_IDENTITY}"
        if IDENTITY in names or (TEMPORARY_IDENTITY in names and self._is_identity(other)):
            return
        if [item.path for item in items if not item.is_directory] == [self.root]:
            raise LakeUnusable(f"{self.root} is a file: a lake is a directory")
        # A first run that ended before it had written what the lake is leaves these two.
        left = ((LOCK, is_lock_text), (TEMPORARY_IDENTITY, is_begun))
        ours = {
            name for name, is_ours in left if name in names and is_ours(self._files.read_text(f"{self.root}/{name}"))
        }
        if strange := sorted(names - ours):
            raise LakeUnusable(
                f"{self.root} is no lake (it has no {IDENTITY}) and holds {listed(strange, SHOWN_NAMES)}, "
                "so nothing was written to it: name an empty directory, or one that does not exist"
            )

    def _give_logs(self) -> None:
        """Take over a lake whose tables are the files of their directories. After a crash this begins again."""
        if self.has_logs:
            return
        work = f"{self.root}/{WORK}"
        if any(self._files.exists(f"{item.path}/{_PLAN}") for item in self._files.list_directory(work)):
            raise LakeUnusable(
                f"the lake {self.root} is of an earlier version of Lethe and has an unfinished change ({work}): let "
                "that version finish it with `lethe pipeline run`, then run this one"
            )
        for table in TABLES.values():
            place = f"{self.root}/{table.path}"
            if self._files.exists(place) and not self.has(table):
                TableLog(self.root, table).create(table_files_below(self._files, place))
        self._write_identity()

    def _write_identity(self) -> None:
        temporary, path = f"{self.root}/{TEMPORARY_IDENTITY}", f"{self.root}/{IDENTITY}"
        self._files.write_text(temporary, encode_identity(self._cluster_id))
        self._files.remove(path)
        self._files.rename(temporary, path)


def gathered(frame: DataFrame) -> DataFrame:
    """Return the frame with the rows of each day in few tasks, and so in few files."""
    return frame.hint("rebalance", F.col(DAY))


def with_table_columns(table: Table, frame: DataFrame) -> DataFrame:
    """Return the frame with the table's columns in order. Raises ColumnMismatch if it has other columns or types."""
    have = {field.name: field.dataType for field in frame.schema.fields}
    want = {field.name: field.dataType for field in table.schema.fields}
    if wrong := [
        f"{name}: {_type_name(have.get(name))} instead of {_type_name(want.get(name))}"
        for name in {**want, **have}
        if _type_name(have.get(name)) != _type_name(want.get(name))
    ]:
        raise ColumnMismatch(f"columns of {table.name}: {'; '.join(wrong)}")
    return frame.select(*table.schema.names)


def _type_name(kind: DataType | None) -> str:
    """Return the type's name, without nullability."""
    return "nothing" if kind is None else kind.simpleString()
