"""docs/tables.md: the pipeline's tables and their columns, from the schemas that they are written with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from lethe.pipeline.tables import TABLES, Layer, Table
from lethe.protocol.survey_records import FILES

_INTRODUCTION: Final = """\
# The pipeline's tables

    lethe pipeline show deletion_spans --lake LAKE --limit 50

Generated from `pipeline/schemas.py` and `pipeline/tables.py`; `make docs` writes it. [pipeline.md](pipeline.md) says
how they are made.

A table is a directory of Parquet files, `<layer>/<table>`, most of them with one directory per day in UTC,
`day=2026-01-31`. Its log, `_delta_log`, says which of the files have its rows: read it as a Delta table. Every column
may be null. Without a type a column is a string, `_at` a timestamp in UTC with
microseconds, `_ms` a bigint of milliseconds. Sizes are bytes.

Columns that mean the same in several tables (those of a key are not repeated below):
"""
_LAYERS: Final = {
    Layer.BRONZE: "What was read, as it was read. These tables only grow.",
    Layer.SILVER: "What it means. Rows are made again where their sources have changed; leftovers are as seen.",
    Layer.GOLD: "Answers.",
}
_SEVERAL: Final = 3
_BY_NAME: Final = {("_at", "timestamp"), ("_ms", "bigint")}


class _Column(NamedTuple):
    name: str
    kind: str
    meaning: str

    def __str__(self) -> str:
        goes_without_saying = self.kind == "string" or (self.name[-3:], self.kind) in _BY_NAME
        kind = "" if goes_without_saying else f" ({self.kind.replace('<', '&lt;').replace('>', '&gt;')})"
        return f"* `{self.name}`{kind}" + (f": {self.meaning}" if self.meaning not in ("", self.name) else "")


def _columns(table: Table) -> list[_Column]:
    fields = table.schema.fields
    return [
        _Column(one.name, one.dataType.simpleString(), (one.metadata or {}).get("comment", one.name)) for one in fields
    ]


_TALLY: Final = Counter(column for table in TABLES.values() for column in _columns(table))
_SHARED: Final = tuple(column for column, times in _TALLY.items() if times >= _SEVERAL)


def page() -> str:
    """The text of `docs/tables.md`."""
    lines = [_INTRODUCTION, *map(str, _SHARED), ""]
    for layer, meaning in _LAYERS.items():
        lines += [f"## {layer.value.capitalize()}", "", meaning, ""]
        for table in TABLES.values():
            if table.layer is layer:
                lines += _section(table)
    return "\n".join(lines).rstrip() + "\n"


def _section(table: Table) -> Iterator[str]:
    by = f"By the day of {table.day_of}." if table.day_of else "Replaced as a whole."
    yield from (f"### {table.name}", "", f"Key: {', '.join(f'`{name}`' for name in table.key)}. {by}", "")
    columns = _columns(table)
    names = {column.name for column in columns if not column.name.startswith("_")} - {"day"}
    for file in FILES:
        if set(file.column_names) == names:
            added = ", ".join(f"`{column.name}`" for column in columns if column.name not in names)
            yield from (f"The columns of [{file.name}](surveys.md#{file.name.replace('.', '')}), and {added}.", "")
            return
    shared = ", ".join(f"`{column.name}`" for column in columns if column in _SHARED and column.name not in table.key)
    if shared:
        yield f"* Shared: {shared}"
    yield from (str(column) for column in columns if column not in _SHARED)
    yield ""
