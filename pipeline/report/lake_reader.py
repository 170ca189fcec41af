"""Reads the lake's tables with Arrow, batch by batch, into plain values.

A lake is a local directory, or a URI that Arrow supports (`file://`, `hdfs://`, `s3://`, `gs://`). `hdfs://` requires
Hadoop's native library (see Arrow's documentation). Without it, copy these tables first: gold, silver `deletion_spans`,
`debts`, `trash`, `leftovers`, `quarantine`, and bronze `surveys`, `agent_inventory`, `znode_snapshot`.

Files are read by the table's schema (`pipeline.tables`): missing columns are null, further columns are ignored, and
both of Spark's encodings of an instant are supported.

While the pipeline replaces a table or a day's partition, its directory is missing for a moment, and for longer if the
pipeline is killed then (`pipeline.io.staging`). Such a table is not empty. The reader therefore lists the lake's
unfinished changes before and after it lists a table. If one of them concerns the table, or the table's directory
changed in between, the reader lists the table again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lethe.pipeline.io.staging import PLAN, WORK
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.report.values import Rows
from lethe.pipeline.tables import TABLES, Table
from lethe.protocol.lake import IDENTITY, cluster_of

BATCH_ROWS: Final = 65_536
CHANGE_TIMEOUT_S: Final = 5.0
"""Seconds to wait for an unfinished change. A longer one was interrupted, or concerns a very large table."""
UNFINISHED_CHANGE: Final = (
    "a change is unfinished. If the pipeline is running, try again; if it was killed, finish the change: "
    "lethe pipeline run"
)
_POLL_S: Final = 0.05


class LakeUnreadable(ValueError):
    """The lake cannot be read; the message says what, where and what to do."""


class LakeChanged(LakeUnreadable):
    """The pipeline replaced files while they were read."""


Row = TypeVar("Row")
Result = TypeVar("Result")


class LakeReader:
    """Reads the tables of one lake; `file:/lake` is `/lake`. Raises LakeUnreadable if it is no lake, or one of another
    version. Tables that were copied without `lake.json` can be read too."""

    def __init__(self, root: str, *, timeout_s: float = CHANGE_TIMEOUT_S) -> None:
        self.root: Final = root
        self._timeout_s: Final = timeout_s
        try:
            if "://" in root:
                self._files, self._path = pafs.FileSystem.from_uri(root)
            else:
                self._files, self._path = pafs.LocalFileSystem(), os.path.abspath(root.removeprefix("file:"))
            kind = self._files.get_file_info(self._path).type
        except (OSError, pa.ArrowException) as error:
            raise LakeUnreadable(f"--lake {root}: {error}") from error
        if kind != pafs.FileType.Directory:
            raise LakeUnreadable(f"--lake {root}: there is no such directory; lethe pipeline run makes a lake")
        identity = f"{self._path}/{IDENTITY}"
        if self._files.get_file_info(identity).type == pafs.FileType.File:
            self._check_version(identity)
        elif not any(self.has(table) for table in TABLES.values()):
            layers = ", ".join(sorted({table.layer.value for table in TABLES.values()}))
            raise LakeUnreadable(f"--lake {root}: there are no tables in it ({layers}); lethe pipeline run makes them")

    def _check_version(self, identity: str) -> None:
        try:
            with self._files.open_input_stream(identity) as file:
                cluster_of(file.read().decode())
        except FileNotFoundError:
            return  # It is being replaced by a pipeline of this version.
        except (OSError, ValueError) as error:
            raise LakeUnreadable(f"--lake {self.root}: {IDENTITY}: {error}") from error

    def has(self, table: Table) -> bool:
        """Return True if the table was ever written."""
        return self._read_stable(table, lambda: self._is_there(table))

    def last_written_ms(self, table: Table) -> dict[date, int]:
        """Return the last file change by day, in milliseconds; 0 in an object store, which has no such time. A
        partition may be empty."""
        place = pafs.FileSelector(f"{self._path}/{table.path}", allow_not_found=True)
        found = self._read_stable(table, lambda: self._files.get_file_info(place))
        return {
            date.fromisoformat(one.base_name.removeprefix("day=")): (one.mtime_ns or 0) // 1_000_000
            for one in sorted(found, key=lambda one: str(one.base_name))
            if one.type == pafs.FileType.Directory and one.base_name.startswith("day=")
        }

    def batches(self, table: Table, columns: Sequence[str], where: Any = None) -> Iterator[pa.Table]:
        """Yield these columns of all rows that pass the filter, up to BATCH_ROWS at a time."""
        try:
            dataset = self._read_stable(table, lambda: self._dataset(table) if self._is_there(table) else None)
            if dataset is None:
                return
            for batch in dataset.to_batches(columns=list(columns), filter=where, batch_size=BATCH_ROWS):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
        except FileNotFoundError as error:
            raise LakeChanged(f"{self.root}/{table.path} is being replaced: try again later") from error
        except (OSError, pa.ArrowException) as error:
            raise LakeUnreadable(f"{self.root}/{table.path} cannot be read: {error}") from error

    def table(self, table: Table) -> pa.Table:
        """Return all rows of a small table."""
        schema = arrow_schema(table.schema)
        return pa.concat_tables([schema.empty_table(), *self.batches(table, schema.names)])

    def _is_there(self, table: Table) -> bool:
        return bool(self._files.get_file_info(f"{self._path}/{table.path}").type == pafs.FileType.Directory)

    def _dataset(self, table: Table) -> Any:
        partition = pa.schema([("day", pa.date32())]) if table.is_partitioned else None
        return ds.dataset(
            f"{self._path}/{table.path}",
            schema=arrow_schema(table.schema),
            filesystem=self._files,
            format=ds.ParquetFileFormat(coerce_int96_timestamp_unit="us"),
            partitioning=None if partition is None else ds.partitioning(partition, flavor="hive"),
        )

    def _read_stable(self, table: Table, look: Callable[[], Result]) -> Result:
        """Return the result of `look` from a moment without a change of the table."""
        give_up_at = time.monotonic() + self._timeout_s
        while True:
            before = self._changed_ns(table)
            if not self._is_changing(table):
                with contextlib.suppress(FileNotFoundError):
                    seen = look()
                    if not self._is_changing(table) and self._changed_ns(table) == before:
                        return seen
            if time.monotonic() > give_up_at:
                raise LakeUnreadable(f"{self.root}/{table.path}: {UNFINISHED_CHANGE}")
            time.sleep(_POLL_S)

    def _changed_ns(self, table: Table) -> int | None:
        found: int | None = self._files.get_file_info(f"{self._path}/{table.path}").mtime_ns
        return found

    def _is_changing(self, table: Table) -> bool:
        """Return True if an unfinished change concerns the table; its plan is removed when the change is done."""
        place = pafs.FileSelector(f"{self._path}/{WORK}", allow_not_found=True)
        return any(self._is_about(f"{each.path}/{PLAN}", table) for each in self._files.get_file_info(place))

    def _is_about(self, plan: str, table: Table) -> bool:
        try:
            with self._files.open_input_stream(plan) as file:
                targets = [target for _, target in json.loads(file.read())]
        except FileNotFoundError:
            return False
        return any(target == table.path or target.startswith(f"{table.path}/") for target in targets)

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
        needed = dict.fromkeys((*column_names(row_type), *(name.removeprefix("-") for name in order)))
        best, total = self.first(table, list(needed), order, limit, where)
        return Rows(() if best is None else tuple(to_rows(best, row_type)), total)

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


def to_rows(table: pa.Table, row_type: Callable[..., Row]) -> Iterator[Row]:
    """Yield each row; instants become milliseconds, lists become tuples."""
    columns = [_plain(table.column(name)) for name in column_names(row_type)]
    return (row_type(*values) for values in zip(*columns, strict=True))


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
