"""docs/tables.md: the pipeline's tables and their columns, from the schemas that they are written with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from pyspark.sql.types import StructField

from lethe.pipeline.tables import TABLES, Layer, Table
from lethe.protocol.survey_records import FILES

_INTRODUCTION: Final = """\
# The pipeline's tables

Generated from `pipeline/schemas.py` and `pipeline/tables.py`; `make docs` writes it. [pipeline.md](pipeline.md) says how they are
made.

A lake is of one Kafka cluster. Each table is a directory of Parquet files, `<layer>/<table>`, most of them with one
directory per day, `day=2026-01-31`, in UTC. No two rows of a table have the same key. Every column may be null.
Instants are in UTC, with microseconds; `_ms` are milliseconds, sizes are bytes.

Columns that mean the same in several tables:
"""
_LAYERS: Final = {
    Layer.BRONZE: "What was read, as it was read. These tables only grow.",
    Layer.SILVER: "What it means. Rows are made again where what they were made of has changed.",
    Layer.GOLD: "Answers.",
}
_SEVERAL: Final = 3
_TALLY: Final = Counter(str(field.jsonValue()) for table in TABLES.values() for field in table.schema.fields)


def page() -> str:
    """The text of `docs/tables.md`."""
    shared = {field.name: field for table in TABLES.values() for field in table.schema.fields if _is_shared(field)}
    lines = [_INTRODUCTION, *map(_column, shared.values()), ""]
    for layer, meaning in _LAYERS.items():
        lines += [f"## {layer.value.capitalize()}", "", meaning, ""]
        for table in TABLES.values():
            if table.layer is layer:
                lines += _section(table)
    return "\n".join(lines).rstrip() + "\n"


def _section(table: Table) -> Iterator[str]:
    by = f"By the day of {table.day_of}." if table.day_of else "Not by days: replaced as a whole."
    yield from (f"### {table.name}", "", f"Key: {', '.join(f'`{name}`' for name in table.key)}. {by}", "")
    names = {field.name for field in table.schema.fields if not field.name.startswith("_")} - {"day"}
    for file in FILES:
        if set(file.column_names) == names:
            yield from (
                f"The columns of [{file.name}](surveys.md#{file.name.replace('.', '')}), which it was read from.",
                "",
            )
            return
    shared = [f"`{field.name}`" for field in table.schema.fields if _is_shared(field)]
    yield f"* As above: {', '.join(shared)}" if shared else ""
    yield from (_column(field) for field in table.schema.fields if not _is_shared(field))
    yield ""


def _is_shared(field: StructField) -> bool:
    return _TALLY[str(field.jsonValue())] >= _SEVERAL


def _column(field: StructField) -> str:
    says = (field.metadata or {}).get("comment", "")
    kind = field.dataType.simpleString().replace("<", "&lt;").replace(">", "&gt;")
    return f"* `{field.name}` ({kind})" + (f": {says}" if says and says != field.name else "")
