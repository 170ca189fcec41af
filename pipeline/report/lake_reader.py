"""Reads the lake's tables with Arrow, batch by batch, into plain values.

A lake is a local directory, or a URI that Arrow supports (`file://`, `hdfs://`, `s3://` or `s3a://`, `gs://`).
`hdfs://` requires Hadoop's native library (see Arrow's documentation). Without it, copy these tables first: gold,
silver `deletion_spans`, `debts`, `trash`, `leftovers`, `quarantine`, and bronze `surveys`, `agent_inventory`,
`znode_snapshot`.

Files are read by the table's schema (`pipeline.tables`): missing columns are null, further columns are ignored, and
both of Spark's encodings of an instant are supported.

A table's files are those of its log (`pipeline.io.table_log`): a table is never seen in the middle of a change. Where a
table has no log, as an earlier version of Lethe left it, it is all files of its directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lethe.adapters.table_logs import DAMAGED
from lethe.pipeline.io import audit_notes
from lethe.pipeline.io.audit_notes import AuditNotes
from lethe.pipeline.io.files import FileSystemError
from lethe.pipeline.io.table_log import ENDING, TableFile, TableLog, day_of, place_problem
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.report.values import Rows
from lethe.pipeline.tables import AUDITED, TABLES, Table
from lethe.protocol.lake import IDENTITY, LOG, cluster_of, has_logs

BATCH_ROWS: Final = 65_536


class LakeUnreadable(ValueError):
    """The lake cannot be read; the message says what, where and what to do."""


Row = TypeVar("Row")


class LakeReader:
    """Reads the tables of one lake, each as it was when it was first asked for; with `moment`, as it was then.

    `file:/lake` is `/lake`. Raises LakeUnreadable if it is no lake, or one of another version. Tables that were copied
    without `lake.json` can be read too.
    """

    def __init__(self, root: str, moment: datetime | None = None) -> None:
        if problem := place_problem(root):
            raise LakeUnreadable(f"--lake {problem}")
        self.root: Final = root
        self.label: Final = root if moment is None else f"{root}, as it was on {moment:%Y-%m-%d} at {moment:%H:%M} UTC"
        self._moment: Final = moment
        self._seen: Final[dict[str, Sequence[TableFile] | None]] = {}
        self._has_logs = True
        self._remedy = " meanwhile: try again" if moment is None else ": it keeps the last state of each of two days"
        try:
            if "://" in root:
                # Hadoop's name for S3 is not Arrow's.
                self._files, self._path = pafs.FileSystem.from_uri(re.sub("^s3a:", "s3:", root))
            else:
                self._files, self._path = pafs.LocalFileSystem(), os.path.abspath(root.removeprefix("file:"))
            kind = self._files.get_file_info(self._path).type
        except (OSError, pa.ArrowException) as error:
            raise LakeUnreadable(f"--lake {root}: {error}") from error
        if kind != pafs.FileType.Directory:
            raise LakeUnreadable(f"--lake {root}: there is no such directory; lethe pipeline run makes a lake")
        identity = f"{self._path}/{IDENTITY}"
        is_lake = self._files.get_file_info(identity).type == pafs.FileType.File
        if is_lake:
            self._check_version(identity)
        if (is_lake and moment is None) or any(self.has(table) for table in TABLES.values()):
            return
        if moment is not None:
            raise LakeUnreadable(f"--lake {root}: its logs do not reach back to {moment:%Y-%m-%d %H:%M} UTC")
        layers = ", ".join(sorted({table.layer.value for table in TABLES.values()}))
        raise LakeUnreadable(f"--lake {root}: there are no tables in it ({layers}); lethe pipeline run makes them")

    def _check_version(self, identity: str) -> None:
        try:
            with self._files.open_input_stream(identity) as file:
                text = file.read().decode()
            cluster_of(text)
            self._has_logs = has_logs(text)
        except FileNotFoundError:
            return  # It is being replaced by a pipeline of this version.
        except (OSError, ValueError) as error:
            raise LakeUnreadable(f"--lake {self.root}: {IDENTITY}: {error}") from error

    def has(self, table: Table) -> bool:
        """Return True if the table was ever written."""
        return self._files_of(table) is not None

    def days(self, table: Table) -> set[date]:
        """Return the days that have rows."""
        return {file.day for file in self._files_of(table) or () if file.day is not None}

    def unaudited_days(self) -> set[date]:
        """Return the days that were never audited, or have changed since."""
        return audit_notes.unaudited(self.audited(), {table.name: self._files_of(table) or () for table in AUDITED})

    def audited(self) -> AuditNotes:
        """Return what of each day was audited."""
        place = f"{self._path}/{audit_notes.PLACE}"
        until_ms = None if self._moment is None else int(self._moment.timestamp() * 1000)
        try:
            found = self._files.get_file_info(pafs.FileSelector(place, allow_not_found=True))
            name = audit_notes.newest_notes((one.base_name for one in found), until_ms)
            if name is None:
                return {}
            with self._files.open_input_stream(f"{place}/{name}") as file:
                return audit_notes.decode_notes(file.read().decode())
        except (OSError, ValueError) as error:
            raise LakeUnreadable(f"{self.root}/{audit_notes.PLACE} cannot be read: {error}") from error

    def batches(self, table: Table, columns: Sequence[str], where: Any = None) -> Iterator[pa.Table]:
        """Yield these columns of all rows that pass the filter, up to BATCH_ROWS at a time."""
        try:
            files = self._files_of(table)
            if not files:
                return
            for batch in self._dataset(table, files).to_batches(
                columns=list(columns), filter=where, batch_size=BATCH_ROWS
            ):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
        except FileNotFoundError as error:
            raise LakeUnreadable(f"{self.root}/{table.path}: files of it were removed{self._remedy}") from error
        except (OSError, pa.ArrowException) as error:
            raise LakeUnreadable(f"{self.root}/{table.path} cannot be read: {error}") from error

    def values(self, table: Table, columns: Sequence[str], where: Any = None) -> Iterator[tuple[Any, ...]]:
        """Yield these columns of all rows that pass the filter, as `plain_rows`."""
        for batch in self.batches(table, columns, where):
            yield from plain_rows(batch, columns)

    def table(self, table: Table) -> pa.Table:
        """Return all rows of a small table."""
        schema = arrow_schema(table.schema)
        return pa.concat_tables([schema.empty_table(), *self.batches(table, schema.names)])

    def _files_of(self, table: Table) -> Sequence[TableFile] | None:
        """Return the files as this reader has first seen them, so that all that it reads of a table is of one time."""
        if table.name not in self._seen:
            self._seen[table.name] = self._look_at(table)
        return self._seen[table.name]

    def _look_at(self, table: Table) -> Sequence[TableFile] | None:
        try:
            log = TableLog(self.root, table)
            found: Sequence[TableFile] | None = log.files()
            if found is None:
                found = self._files_without_log(table)
                return found if self._moment is None else None
            return found if self._moment is None else log.files_at(self._moment)
        except FileSystemError as error:
            raise LakeUnreadable(str(error)) from error

    def _files_without_log(self, table: Table) -> Sequence[TableFile] | None:
        place = f"{self._path}/{table.path}"
        if self._files.get_file_info(place).type != pafs.FileType.Directory:
            return None
        found = self._files.get_file_info(pafs.FileSelector(place, recursive=True))
        paths = {one.path.removeprefix(f"{place}/"): one.size for one in found if one.path.endswith(ENDING)}
        if paths and self._has_logs:
            raise LakeUnreadable(f"the table has files and no log ({LOG}): {self.root}/{table.path}: {DAMAGED}")
        return sorted(TableFile(path, day_of(path), size) for path, size in paths.items())

    def _dataset(self, table: Table, files: Sequence[TableFile]) -> Any:
        place = f"{self._path}/{table.path}"
        partition = pa.schema([("day", pa.date32())]) if table.is_partitioned else None
        return ds.dataset(
            [f"{place}/{file.path}" for file in files],
            schema=arrow_schema(table.schema),
            filesystem=self._files,
            format=ds.ParquetFileFormat(coerce_int96_timestamp_unit="us"),
            partitioning=None if partition is None else ds.partitioning(partition, flavor="hive"),
            partition_base_dir=place,
        )

    def rows(
        self,
        table: Table,
        row_type: Callable[..., Row],
        order: Sequence[str],
        *,
        limit: int,
        where: Any = None,
    ) -> Rows[Row]:
        """Return the first rows in that order, from the columns of the row type's fields."""
        names = column_names(row_type)
        needed = dict.fromkeys((*names, *(name.removeprefix("-") for name in order)))
        best, total = self.first(table, list(needed), order, limit, where)
        return Rows(() if best is None else tuple(row_type(*row) for row in plain_rows(best, names)), total)

    def first(
        self, table: Table, columns: Sequence[str], order: Sequence[str], limit: int, where: Any = None
    ) -> tuple[pa.Table | None, int]:
        """Return the first rows in that order, None if there are none, and the number of all rows."""
        best: pa.Table | None = None
        total = 0
        for batch in self.batches(table, columns, where):
            total += batch.num_rows
            best = first_rows(batch if best is None else pa.concat_tables([best, batch]), order, limit)
        return best, total


def of_days(days: DayRange) -> Any:
    """Return an Arrow expression on the partition, or None."""
    day = ds.field("day")
    since = None if days.first is None else day >= days.first
    return and_filters(since, None if days.last is None else day <= days.last)


def and_filters(one: Any, other: Any) -> Any:
    """Return a filter that requires both; None is no filter."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def of_topic(table: Table, topic: str) -> Any:
    """Return an Arrow expression on the rows about a topic; of event records, on their subjects. Raises ValueError if
    the table has no topics."""
    if "topic" in table.schema.names:
        return ds.field("topic") == topic
    if "subject" in table.schema.names:
        name = re.escape(topic)
        subjects = f"^(topic/{name}|(partition|replica)/{name}-\\d+(@-?\\d+)?)$"
        return pc.match_substring_regex(ds.field("subject"), subjects)
    raise ValueError(f"{table.name} is not about topics: leave --topic out")


def first_rows(table: pa.Table, order: Sequence[str], limit: int) -> pa.Table:
    """Return the first rows in the order of these columns: a leading `-` reverses one. Null is last either way."""
    keys = [(name.removeprefix("-"), "descending" if name.startswith("-") else "ascending") for name in order]
    indices = pc.sort_indices(table, sort_keys=keys)
    return table.take(indices.slice(0, limit))


def column_names(row_type: Callable[..., Any]) -> list[str]:
    """Return the columns of a row type: its fields, with the leading underscore that a NamedTuple cannot have."""
    fields: tuple[str, ...] = row_type._fields  # type: ignore[attr-defined]
    return ["_source_file" if name == "source_file" else name for name in fields]


def plain_rows(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of these columns, row by row: instants become milliseconds, lists become tuples."""
    return zip(*(_plain(table.column(name)) for name in columns), strict=True)


def milliseconds(column: Any) -> Any:
    """Return a column of instants as whole milliseconds since 1970."""
    return pc.cast(pc.cast(column, pa.timestamp("ms", tz="UTC"), safe=False), pa.int64())


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return a table's columns with Arrow's types."""
    return to_arrow_schema(schema, timezone="UTC")


def _plain(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        found: list[Any] = milliseconds(column).to_pylist()
        return found
    values = column.to_pylist()
    if pa.types.is_list(column.type):
        return [None if each is None else tuple(_plain_value(item) for item in each) for each in values]
    return list(values)


def _plain_value(value: Any) -> Any:
    """Return an element of a list: a value, or an object with values."""
    if isinstance(value, dict):
        return {name: _plain_value(each) for name, each in value.items()}
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1000)
    return value
