"""Lakes made by hand: rows as dictionaries, written where Spark would write them, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lethe.pipeline.report.lake_reader import arrow_schema
from lethe.pipeline.tables import Table


def at(ms: int) -> datetime:
    """The instant, as a value of a column."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def day_of(ms: int) -> date:
    return at(ms).date()


def write(lake: Path, table: Table, rows: Iterable[Mapping[str, Any]], *, part: int = 0, int96: bool = True) -> None:
    """One Parquet file per day. Columns that a row does not name are null. Spark writes instants as INT96 unless it is
    told otherwise."""
    by_day: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_day.setdefault(row["day"] if table.is_partitioned else None, []).append(row)
    schema = arrow_schema(table.schema)
    if table.is_partitioned:
        schema = schema.remove(schema.get_field_index("day"))
    for day, members in by_day.items():
        directory = lake / table.path / (f"day={day}" if table.is_partitioned else "")
        directory.mkdir(parents=True, exist_ok=True)
        columns = {name: [row.get(name) for row in members] for name in schema.names}
        pq.write_table(
            pa.table(columns, schema=schema),
            directory / f"part-{part:05d}-c000.snappy.parquet",
            use_deprecated_int96_timestamps=int96,
        )
    (lake / table.path).mkdir(parents=True, exist_ok=True)
    (lake / table.path / "_SUCCESS").touch()
