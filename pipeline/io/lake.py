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
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from lethe.pipeline.io import audit_notes
from lethe.pipeline.io.arrival import checked_arrival
from lethe.pipeline.io.files import FileSystem, FileSystemError, escape_glob, file_system_problem, unopenable_file
from lethe.pipeline.io.frames import empty
from lethe.pipeline.io.lake_state import PENDING, TEMPORARY_IDENTITY, LakeState, table_files_below
from lethe.pipeline.io.lake_state import LakeUnusable as LakeUnusable
from lethe.pipeline.io.lock import LOCK, acquire_within, is_lock_text
from lethe.pipeline.io.staging import WORK, Staging, discard_all
from lethe.pipeline.io.table_log import DAY as DAY
from lethe.pipeline.io.table_log import KEPT_MS, Batch, TableLog
from lethe.pipeline.tables import AUDITED, TABLES, Table
from lethe.protocol.counting import listed
from lethe.protocol.lake import IDENTITY, encode_identity, is_begun

KEPT_COLUMN: Final = "kept"
ROWS_PER_FILE: Final = 4_000_000
ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
"""A task reads whole row groups: a file of one would be read by one core."""
_DISTINCT: Final = ("id", "data")
"""Columns whose values are all different, so that a dictionary of them is made in vain."""
SHOWN_NAMES: Final = 5
SOURCE_FILE: Final = "_source_file"
_PLAN: Final = "plan.json"
"""Of an unfinished change, in lakes whose tables have no logs."""
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Of a partition whose column is null."""


class ColumnMismatch(TypeError):
    """A frame does not have its table's columns: a bug in the pipeline."""


class StagedRows:
    """Rows that are written to the staging area and are in no table yet."""

    def __init__(self, spark: SparkSession, files: FileSystem, table: Table, staging: Staging, path: str) -> None:
        self._spark = spark
        self._files = files
        self._table = table
        self._staging = staging
        self._path = path
        self._quarantined_path = f"{path.removesuffix(f'/{KEPT_COLUMN}=true')}/{KEPT_COLUMN}=false"

    def read(self) -> DataFrame:
        """Return the rows, with the table's columns in order."""
        if not self._files.exists(self._path):
            return empty(self._spark, self._table.schema)
        frame = self._spark.read.schema(self._table.schema).parquet(escape_glob(self._path))
        return frame.select(*self._table.schema.names)

    def read_placed(self) -> DataFrame:
        """Return the rows, with `file` and `place`: where each is staged."""
        return self._placed([self._path])

    def _placed(self, paths: Collection[str]) -> DataFrame:
        frame = self._spark.read.schema(self._table.schema).option("basePath", self._path)
        found = frame.parquet(*map(escape_glob, paths))
        place = (F.col("_metadata.file_name").alias("file"), F.col("_metadata.row_index").alias("place"))
        return found.select(*self._table.schema.names, *place)

    def drop(self, placed: DataFrame) -> dict[datetime.date, int]:
        """Drop these rows of `read_placed`, and return their number by day. Only their files are written again."""
        dropped = placed.select(DAY, "file", "place").persist()
        try:
            counted = dropped.groupBy(DAY, "file").count().collect()
            files = [f"{self._path}/{DAY}={row[DAY]}/{row['file']}" for row in counted]
            if files:
                others = self._placed(files).join(dropped, [DAY, "file", "place"], "left_anti").drop("file", "place")
                _write(others, self._staging, self._path, [DAY], self._table.order)
            for file in files:
                self._files.remove(file)
        finally:
            dropped.unpersist()
        found: Counter[datetime.date] = Counter()
        for row in counted:
            found[row[DAY]] += row["count"]
        return found

    def has_quarantined(self) -> bool:
        """Return True if rows were staged with `kept` false."""
        return self._path.endswith(f"/{KEPT_COLUMN}=true") and self._files.exists(self._quarantined_path)

    def quarantined(self) -> DataFrame:
        """Return the rows with `kept` false; they are never added to the table."""
        schema = self._table.schema
        if not self.has_quarantined():
            return empty(self._spark, schema).withColumn(KEPT_COLUMN, F.lit(False))
        frame = self._spark.read.schema(schema).parquet(escape_glob(self._quarantined_path))
        return frame.select(*schema.names).withColumn(KEPT_COLUMN, F.lit(False))

    def rows_by_file(self) -> dict[tuple[str, datetime.date], int]:
        """Return the number of rows by `_source_file` and day."""
        counted = self.read().groupBy(SOURCE_FILE, DAY).count().collect()
        return {(row[SOURCE_FILE], row[DAY]): int(row["count"]) for row in counted}

    def quarantined_by(self, column: str) -> dict[str, int]:
        """Return the number of rows with `kept` false by this column."""
        counted = self.quarantined().groupBy(column).count().collect() if self.has_quarantined() else []
        return {row[column]: int(row["count"]) for row in counted}

    def days(self) -> list[datetime.date]:
        """Return the days that have rows."""
        return sorted({file.day for file in table_files_below(self._files, self._path) if file.day is not None})

    def commit(self, batch: Batch | None = None) -> None:
        """Add the rows to the table. Raises FileSystemError."""
        self._staging.commit(self._table, self._path, batch=batch)

    def discard(self) -> None:
        """Drop the rows."""
        self._staging.discard()


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
            _write(rows.select(*columns, KEPT_COLUMN), staging, path, [KEPT_COLUMN, DAY], table.order)

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
        staging, path = self._stage(table, frame.hint("rebalance", F.col(DAY)))
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
        _write(with_table_columns(table, frame), staging, path, [DAY] if table.is_partitioned else [], table.order)
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


def _write(frame: DataFrame, staging: Staging, path: str, partitions: list[str], order: str | None = None) -> None:
    no_dictionary = {f"parquet.enable.dictionary#{column}": "false" for column in _DISTINCT}
    options: dict[str, str | int] = {
        "maxRecordsPerFile": ROWS_PER_FILE,
        "parquet.block.size": ROW_GROUP_BYTES,
        **no_dictionary,
    }
    try:
        with checked_arrival(frame, path) as rows:
            # Spark sorts by the partitions anyway.
            ordered = rows if order is None else rows.sortWithinPartitions(*partitions, order)
            writer = ordered.write.mode("append").options(**options)
            (writer.partitionBy(*partitions) if partitions else writer).parquet(path)
    except FileSystemError:
        staging.discard()
        raise
    except (PySparkException, Py4JJavaError) as error:
        staging.discard()
        if words := unopenable_file(error):
            raise FileSystemError(f"cannot open {words}") from error
        if words := file_system_problem(error):
            raise FileSystemError(f"cannot write: {path}: {words}") from error
        raise


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
