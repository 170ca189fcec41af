"""Lakes made by hand: rows as dictionaries, written where Spark would write them, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lethe.pipeline.io.audit_notes import PLACE, digests, encode_notes, next_notes
from lethe.pipeline.io.lake_state import LakeState
from lethe.pipeline.io.local_files import LocalFiles
from lethe.pipeline.io.table_log import TableFile, TableLog
from lethe.pipeline.report.lake_reader import arrow_schema
from lethe.pipeline.tables import AUDITED, Table


def at(ms: int) -> datetime:
    """The instant, as a value of a column."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def day_of(ms: int) -> date:
    return at(ms).date()


def write(
    lake: Path,
    table: Table,
    rows: Iterable[Mapping[str, Any]],
    *,
    int96: bool = True,
    more: bool = False,
    with_log: bool = True,
) -> None:
    """Replace the rows of these days, or the table, by one Parquet file per day; with `more`, add files. Columns that a
    row does not name are null. Spark writes instants as INT96 unless it is told otherwise."""
    by_day: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_day.setdefault(row["day"] if table.is_partitioned else None, []).append(row)
    schema = arrow_schema(table.schema)
    if table.is_partitioned:
        schema = schema.remove(schema.get_field_index("day"))
    (lake / table.path).mkdir(parents=True, exist_ok=True)
    log = TableLog(str(lake), table)
    added, before = [], list((lake / table.path).rglob("*.parquet"))
    for day, members in by_day.items():
        path = f"{f'day={day}/' if table.is_partitioned else ''}part-{len(before):05d}-c000.snappy.parquet"
        file = lake / table.path / path
        file.parent.mkdir(exist_ok=True)
        columns = {name: [row.get(name) for row in members] for name in schema.names}
        pq.write_table(pa.table(columns, schema=schema), file, use_deprecated_int96_timestamps=int96)
        added.append(TableFile(path, day, file.stat().st_size))
    if with_log:
        log.create()
        had = [file for file in log.files() or () if not more and (file.day in by_day or not table.is_partitioned)]
        log.change(added, had)
    (lake / table.path / "_SUCCESS").touch()


def note_audited(lake: Path, days: Iterable[date] | None = None) -> None:
    """Note that these days, or all, were audited as they are now."""
    state = LakeState(LocalFiles(str(lake)))
    now = digests({table.name: state.files_of(table) for table in AUDITED})
    place = lake / PLACE
    place.mkdir(exist_ok=True)
    notes = encode_notes({day: now[day] for day in (now if days is None else days)})
    (place / next_notes([file.name for file in place.iterdir()], 1)).write_text(notes)
