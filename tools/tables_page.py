"""docs/tables.md: the pipeline's tables and their columns, from the schemas that they are written with."""

from __future__ import annotations

from typing import Final

from lethe.pipeline.tables import TABLES, Layer

_INTRODUCTION: Final = """\
# The pipeline's tables

Generated from `pipeline/schemas.py` and `pipeline/tables.py`; `make docs` writes it. How they come about stands in
[pipeline.md](pipeline.md).

A lake is of one Kafka cluster. Each table is a directory of Parquet files, `<layer>/<table>`, most of them with one
directory per day, `day=2026-01-31`, in UTC. No two rows of a table have the same key. Every column may be null.
Instants are in UTC, with microseconds; `_ms` are milliseconds, sizes are bytes.
"""
_LAYERS: Final = {
    Layer.BRONZE: "What was read, as it was read. These tables only grow.",
    Layer.SILVER: "What it means. Rows are made again where what they were made of has changed.",
    Layer.GOLD: "Answers.",
}


def page() -> str:
    """The text of `docs/tables.md`."""
    lines = [_INTRODUCTION]
    for layer, meaning in _LAYERS.items():
        lines += [f"## {layer.value.capitalize()}", "", meaning, ""]
        for table in TABLES.values():
            if table.layer is not layer:
                continue
            by = f"By the day of {table.day_of}." if table.day_of else "Not by days: replaced as a whole."
            key = ", ".join(f"`{name}`" for name in table.key)
            lines += [f"### {table.name}", "", f"Key: {key}. {by}", ""]
            lines += ["| Column | Type | Meaning |", "|---|---|---|"]
            for field in table.schema.fields:
                says = (field.metadata or {}).get("comment", "")
                lines.append(f"| `{field.name}` | {_in_words(field.dataType.simpleString())} | {says} |")
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _in_words(kind: str) -> str:
    return kind.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
