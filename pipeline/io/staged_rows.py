"""Rows of a table that are staged: written as files, and in no table yet."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lethe.pipeline.io.arrival import checked_arrival
from lethe.pipeline.io.files import FileSystem, FileSystemError, escape_glob, file_system_problem, unopenable_file
from lethe.pipeline.io.frames import empty
from lethe.pipeline.io.lake_state import table_files_below
from lethe.pipeline.io.staging import Staging
from lethe.pipeline.io.table_log import DAY, Batch
from lethe.pipeline.tables import Table

KEPT_COLUMN: Final = "kept"
ROWS_PER_FILE: Final = 4_000_000
ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
"""A task reads whole row groups: a file of one would be read by one core."""
_DISTINCT: Final = ("id", "data")
"""Columns whose values are all different, so that a dictionary of them is made in vain."""
SOURCE_FILE: Final = "_source_file"


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
                write_rows(others, self._staging, self._path, [DAY], self._table.order)
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

    def size_bytes(self) -> int:
        """Return the size of the files."""
        return sum(file.size_bytes for file in table_files_below(self._files, self._path))

    def commit(self, batch: Batch | None = None) -> None:
        """Add the rows to the table. Raises FileSystemError."""
        self._staging.commit(self._table, self._path, batch=batch)

    def discard(self) -> None:
        """Drop the rows."""
        self._staging.discard()


def write_rows(frame: DataFrame, staging: Staging, path: str, partitions: list[str], order: str | None = None) -> None:
    """Write the rows to files below `path`, in each file in this order. Raises FileSystemError; nothing stays staged
    then."""
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
