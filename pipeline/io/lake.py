"""The lake: a directory with one directory per table, Parquet by day. The only reads and writes of tables.

    lake.json                                       which Kafka cluster it is of
    bronze/controller_events/day=2026-01-02/*.parquet
    gold/stuck_now/*.parquet                        tables that are not partitioned are replaced as a whole
    _lock, _work/                                   the writer, and its unfinished change

A directory is a lake where `lake.json` says so (`protocol.lake`). One that holds anything else is never written to:
what has such names in it might be somebody else's.

There is one writer at a time (`pipeline.io.lock`), and each of its changes happens whole or not at all
(`pipeline.io.moves`); readers need no lock. A reader that lists files while a partition is replaced may find them gone:
it reads again. Frames that were read before a table was changed know its old files: read again after a change.

A frame must have exactly its table's columns. Bronze tables are appended to, the others' partitions are replaced.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Collection, Iterator
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from lethe.pipeline.io.files import Files, FileTrouble, escaped, not_opened, trouble_in
from lethe.pipeline.io.frames import empty
from lethe.pipeline.io.lock import LOCK, hold_in_time, is_left_by_us
from lethe.pipeline.io.moves import Move, Staging, settle_all
from lethe.pipeline.literals import day_values
from lethe.pipeline.tables import TABLES, Table
from lethe.protocol.lake import IDENTITY, cluster_of, encode_identity, is_begun

NEXT_IDENTITY: Final = f"_{IDENTITY}"
"""Written first, then renamed: where a crash came between, it says what the lake is."""
PENDING: Final = "_pending"
KEPT: Final = "kept"
ROWS_PER_FILE: Final = 4_000_000
DAY: Final = "day"
SHOWN_NAMES: Final = 5
EMPTY: Final = "_EMPTY"
"""A file in a partition that is kept though it has no rows; no reader takes it for rows, as of all with this mark."""


class LakeUnusable(Exception):
    """It is no lake, one of a later version, or of another cluster: says which and what to do."""


class WrongColumns(TypeError):
    """A frame does not have its table's columns: a fault of the pipeline."""


class StagedRows:
    """Rows that have been written and are in no table yet."""

    def __init__(self, spark: SparkSession, files: Files, table: Table, staging: Staging, path: str) -> None:
        self._spark = spark
        self._files = files
        self._table = table
        self._staging = staging
        self._path = path
        self._aside = f"{path.removesuffix(f'/{KEPT}=true')}/{KEPT}=false"
        self._with: list[Move] = []

    def read(self) -> DataFrame:
        """The rows, with the table's columns in order."""
        if not self._files.exists(self._path):
            return empty(self._spark, self._table.schema)
        frame = self._spark.read.schema(self._table.schema).parquet(escaped(self._path))
        return frame.select(*self._table.schema.names)

    def has_aside(self) -> bool:
        """Whether anything was staged beside the rows."""
        return self._path.endswith(f"/{KEPT}=true") and self._files.exists(self._aside)

    def aside(self) -> DataFrame:
        """What was staged beside the rows, with `kept` false; only of frames that have that column."""
        schema = self._table.schema
        if not self.has_aside():
            return empty(self._spark, schema).withColumn(KEPT, F.lit(False))
        frame = self._spark.read.schema(schema).parquet(escaped(self._aside))
        return frame.select(*schema.names).withColumn(KEPT, F.lit(False))

    def rows_by_day(self) -> dict[datetime.date, int]:
        """How many rows there are of each day."""
        return {row[DAY]: int(row["count"]) for row in self.read().groupBy(DAY).count().collect()}

    def days(self) -> list[datetime.date]:
        """The days of which there are rows."""
        return _days(self._files, self._path)

    def with_whole(self, table: Table, frame: DataFrame) -> None:
        """In the same change, another table's rows will be those of the frame; of a table without days."""
        _write(in_order(table, frame.hint("rebalance")), self._staging, f"{self._staging.new}/{table.name}", [])
        self._with.append(Move(table.name, table.path))

    def with_note(self, path: str) -> None:
        """In the same change, there will be an empty file of this path below the lake."""
        name = f"note-{len(self._with)}"
        self._files.write_text(f"{self._staging.new}/{name}", "")
        self._with.append(Move(name, path))

    def keep(self) -> None:
        """Adds them to the table. Raises FileTrouble."""
        table = self._table
        days = [item for item in self._files.items(self._path) if item.is_directory]
        files = [f"{day.name}/{file.name}" for day in days for file in self._files.items(day.path)]
        staged = self._path.removeprefix(f"{self._staging.new}/")
        moves = [Move(f"{staged}/{file}", f"{table.path}/{file}") for file in files]
        self._staging.carry_out([*moves, *self._with])

    def forget(self) -> None:
        """Drops them."""
        self._staging.forget()


class Lake:
    """The lake at `root`, which need not exist yet. Raises LakeUnusable and, as its methods, FileTrouble."""

    def __init__(self, spark: SparkSession, root: str, files: Files | None = None) -> None:
        self._spark = spark
        self._files = files or Files(spark, root)
        self._changes = 0
        self._writer: str | None = None
        self._cluster_id = self._read_identity()

    @property
    def root(self) -> str:
        """With its scheme: `file:/lake`."""
        return self._files.root

    @property
    def files(self) -> Files:
        """The file system that it lies on."""
        return self._files

    @property
    def cluster_id(self) -> str | None:
        """The Kafka cluster it is of; None until it is known."""
        return self._cluster_id

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, table: Table, days: Collection[datetime.date] | None = None) -> DataFrame:
        """The table with its columns in order, of these days or of all; empty where nothing is there yet."""
        if not self.has(table):
            return empty(self._spark, table.schema)
        path = f"{self.root}/{table.path}"
        frame = self._spark.read.schema(table.schema).option("basePath", path).parquet(escaped(path))
        if days is not None:
            frame = frame.where(F.col(DAY).isin(day_values(days)))
        return frame.select(*table.schema.names)

    def days(self, table: Table) -> list[datetime.date]:
        """The days of which it has rows, or was told to keep that there are none."""
        return _days(self._files, f"{self.root}/{table.path}")

    def files_of(self, table: Table, day: datetime.date) -> int:
        """How many files a day's rows lie in."""
        found = self._files.items(f"{self.root}/{table.path}/{DAY}={day}")
        return sum(item.name.endswith(".parquet") for item in found)

    def has(self, table: Table) -> bool:
        """Whether it has been written."""
        return self._files.exists(f"{self.root}/{table.path}")

    def made(self) -> list[Table]:
        """The tables that have been written."""
        return [table for table in TABLES.values() if self.has(table)]

    # --- writing --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def writer(self, name: str, wait_s: float = 0.0, waiting: Callable[[str], object] = str) -> Iterator[None]:
        """Makes this process the lake's one writer, and settles what the last one left. `name` tells the run from all
        others. Waits so long for another writer, of whom `waiting` is told. Raises Locked, and LakeUnusable where the
        directory holds something and is no lake."""
        self._must_be_ours()
        self._files.make_directory(self.root)
        with hold_in_time(self._files, name, wait_s, waiting):
            # Another process may have written to it since it was read.
            self._cluster_id = self._read_identity()
            settle_all(self._files)
            if not self._files.exists(f"{self.root}/{IDENTITY}"):
                self._write_identity()
            self._writer = name
            try:
                yield
            finally:
                self._writer = None

    def claim(self, cluster_id: str) -> None:
        """Says which cluster the lake is of. Raises LakeUnusable where it is of another one."""
        self._must_write()
        if self._cluster_id == cluster_id:
            return
        if self._cluster_id is not None:
            raise LakeUnusable(
                f"the lake {self.root} is of the cluster {self._cluster_id}, not of {cluster_id}: use another directory"
            )
        self._cluster_id = cluster_id
        self._write_identity()

    def staged(self, table: Table, frame: DataFrame) -> StagedRows:
        """Write rows for a table outside of it: they can be read, then added to the table or dropped.

        With a further column `kept`, a truth, rows where it is false are staged beside: they are never added.
        """
        if KEPT not in frame.columns:
            staging, path = self._stage(table, frame)
            return StagedRows(self._spark, self._files, table, staging, path)
        staging, path = self._new_staging(table)
        rows = in_order(table, frame.drop(KEPT)).columns
        _write(frame.select(*rows, KEPT), staging, path, [KEPT, DAY])
        return StagedRows(self._spark, self._files, table, staging, f"{path}/{KEPT}=true")

    def append(self, table: Table, frame: DataFrame) -> None:
        """Adds the rows to a table. Every task writes a file for each day that it has rows of."""
        self.staged(table, frame).keep()

    def replace_partitions(
        self, table: Table, frame: DataFrame, days: Collection[datetime.date], *, keep_empty: bool = False
    ) -> None:
        """The table's rows of these days are those of the frame, which has rows of no other day. Raises ValueError.

        A day without rows goes from the table; with `keep_empty` it stays as a partition that has none.
        """
        staging, path = self._stage(table, frame.hint("rebalance", F.col(DAY)))
        written = {item.name for item in self._files.items(path) if item.is_directory}
        names = [f"{DAY}={day}" for day in sorted(days)]
        if strange := sorted(written - set(names)):
            staging.forget()
            raise ValueError(
                f"rows of {', '.join(strange)} among those that are to replace {', '.join(names) or 'none'}"
            )
        for name in names if keep_empty else ():
            if name not in written:
                # A file, because a store of objects has no empty directories.
                self._files.make_directory(f"{path}/{name}")
                self._files.write_text(f"{path}/{name}/{EMPTY}", "")
                written.add(name)
        staging.carry_out(
            [Move(f"{table.name}/{name}" if name in written else None, f"{table.path}/{name}") for name in names]
        )

    def write_whole(self, table: Table, frame: DataFrame) -> None:
        """The table's rows are those of the frame."""
        staging, _ = self._stage(table, frame if table.is_partitioned else frame.hint("rebalance"))
        staging.carry_out([Move(table.name, table.path)])

    # --- days that are owed -------------------------------------------------------------------------------------------

    def owe(self, days: Collection[datetime.date]) -> None:
        """Notes that tables are to be made anew for these days, before bronze changes: whoever comes after a crash
        finds them, though the journal's files may be gone by then."""
        self._must_write()
        self._files.make_directory(f"{self.root}/{PENDING}")
        for day in sorted(days):
            self._files.write_text(f"{self.root}/{PENDING}/{day}", "")

    def owed(self) -> list[datetime.date]:
        """The days that were noted and not settled."""
        return [datetime.date.fromisoformat(item.name) for item in self._files.items(f"{self.root}/{PENDING}")]

    def settle(self, days: Collection[datetime.date]) -> None:
        """The tables have been made for these days."""
        self._must_write()
        for day in sorted(days):
            self._files.remove(f"{self.root}/{PENDING}/{day}")

    # --- inside ---------------------------------------------------------------------------------------------------

    def _stage(self, table: Table, frame: DataFrame) -> tuple[Staging, str]:
        staging, path = self._new_staging(table)
        _write(in_order(table, frame), staging, path, [DAY] if table.is_partitioned else [])
        if self._files.exists(f"{path}/{DAY}=__HIVE_DEFAULT_PARTITION__"):
            staging.forget()
            raise ValueError(f"rows for {table.name} without a day")
        return staging, path

    def _new_staging(self, table: Table) -> tuple[Staging, str]:
        self._must_write()
        self._changes += 1
        staging = Staging(self._files, f"{self._writer}-{self._changes:06}")
        path = f"{staging.new}/{table.name}"
        self._files.make_directory(path)
        return staging, path

    def _must_write(self) -> None:
        if self._writer is None:
            raise RuntimeError("a lake is changed inside `with lake.writer(...)`")

    def _must_be_ours(self) -> None:
        """Touches nothing. Raises LakeUnusable where there is something and it is no lake."""
        items = self._files.items(self.root)
        names = {item.name for item in items}
        if IDENTITY in names or (NEXT_IDENTITY in names and self._is_identity(f"{self.root}/{NEXT_IDENTITY}")):
            return
        if [item.path for item in items if not item.is_directory] == [self.root]:
            raise LakeUnusable(f"{self.root} is a file: a lake is a directory")
        # A first run that ended before it had written what the lake is leaves these two.
        left = ((LOCK, is_left_by_us), (NEXT_IDENTITY, is_begun))
        ours = {
            name for name, is_ours in left if name in names and is_ours(self._files.read_text(f"{self.root}/{name}"))
        }
        if strange := sorted(names - ours):
            more = f" and {len(strange) - SHOWN_NAMES} more" if len(strange) > SHOWN_NAMES else ""
            raise LakeUnusable(
                f"{self.root} is no lake (it has no {IDENTITY}) and holds {', '.join(strange[:SHOWN_NAMES])}{more}, "
                "so nothing was written to it: name an empty directory, or one that does not exist"
            )

    def _write_identity(self) -> None:
        temporary, path = f"{self.root}/{NEXT_IDENTITY}", f"{self.root}/{IDENTITY}"
        self._files.write_text(temporary, encode_identity(self._cluster_id))
        self._files.remove(path)
        self._files.rename(temporary, path)

    def _read_identity(self) -> str | None:
        path, other = f"{self.root}/{IDENTITY}", f"{self.root}/{NEXT_IDENTITY}"
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


def _write(frame: DataFrame, staging: Staging, path: str, partitions: list[str]) -> None:
    writer = frame.write.mode("overwrite").option("maxRecordsPerFile", ROWS_PER_FILE)
    try:
        (writer.partitionBy(*partitions) if partitions else writer).parquet(path)
    except (PySparkException, Py4JJavaError) as error:
        staging.forget()
        if words := not_opened(error):
            raise FileTrouble(f"cannot open {words}") from error
        if words := trouble_in(error):
            raise FileTrouble(f"cannot write: {path}: {words}") from error
        raise


def in_order(table: Table, frame: DataFrame) -> DataFrame:
    """The frame with the table's columns in their order. Raises WrongColumns where it has others, or other types."""
    have = {field.name: field.dataType for field in frame.schema.fields}
    want = {field.name: field.dataType for field in table.schema.fields}
    if wrong := [
        f"{name}: {_type(have.get(name))} instead of {_type(want.get(name))}"
        for name in {**want, **have}
        if _type(have.get(name)) != _type(want.get(name))
    ]:
        raise WrongColumns(f"columns of {table.name}: {'; '.join(wrong)}")
    return frame.select(*table.schema.names)


def _type(kind: DataType | None) -> str:
    """A type without what may be null in it."""
    return "nothing" if kind is None else kind.simpleString()


def _days(files: Files, path: str) -> list[datetime.date]:
    names = [item.name for item in files.items(path) if item.is_directory]
    return [datetime.date.fromisoformat(name.partition("=")[2]) for name in names if name.startswith(f"{DAY}=")]
