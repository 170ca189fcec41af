"""The section of docs/benchmarks.md about large clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from benchmarks.against_kafka.results import measured_on

JSON_NAME: Final = "benchmarks-world.json"
Row = dict[str, Any]
Document = dict[str, Any]
MEASURED: Final = "measured"
"""Field of a row from an earlier run: when and with what that was."""
PHASES: Final = ("failover", "broker failure", "creation", "deletion")
SUMS: Final = ("events", "operations", "requests", "MB", "bytes held/peak")
METHOD: Final = """\
Seconds are the core's processor time within its steps, on a machine that did other work. Events, ZooKeeper operations
(reads and writes), requests to brokers and their bytes are sums over the four phases; each broker's UpdateMetadata has
every partition, so bytes grow with brokers × partitions. Memory is what the process holds after the failover, and its
peak in any phase, by partition. ZooKeeper and brokers answer at once: `make bench-world`."""


def read(path: Path) -> Document:
    """Return a stored document."""
    found: Document = json.loads(path.read_text())
    return found


def key(row: Row) -> tuple[Any, ...]:
    """Return what tells rows apart."""
    return row["axis"], row["topics"], row["partitions_per_topic"], row["brokers"]


def measured(found: Document) -> str:
    """Return when, and with what, the document's own rows were measured."""
    return measured_on(found, "processor")


def page(found: Document) -> str:
    """Return the section as Markdown."""
    rows = _newest(found["rows"])
    return "\n".join(
        [
            "## The controller's core, along each axis",
            "",
            measured(found),
            *_earlier(rows),
            "",
            *_table(rows),
            "",
            METHOD,
            "",
        ]
    )


def _newest(rows: list[Row]) -> list[Row]:
    """Return one row of each size, which axes share: that of the present run where there is one."""
    shown: dict[str, Row] = {}
    for row in rows:
        before = shown.get(_size(row))
        if before is None or (MEASURED in before and MEASURED not in row):
            shown[_size(row)] = row
    return list(shown.values())


def _earlier(rows: list[Row]) -> list[str]:
    """Say which rows are from earlier runs."""
    runs: dict[str, list[str]] = {}
    for row in rows:
        if MEASURED in row:
            runs.setdefault(row[MEASURED], []).append(_size(row))
    return [f"In an earlier run {', '.join(sizes)} brokers: {run[0].lower()}{run[1:]}" for run, sizes in runs.items()]


def _size(row: Row) -> str:
    return f"{row['topics']:,}×{row['partitions_per_topic']:,} on {row['brokers']:,}"


def _table(rows: list[Row]) -> list[str]:
    return [
        f"| brokers | topics × partitions | {' | '.join(PHASES)} | {' | '.join(SUMS)} |",
        "|---:|---:|" + "---:|" * len((*PHASES, *SUMS)),
        *map(_line, rows),
    ]


def _line(row: Row) -> str:
    phases = {each["phase"]: each for each in row["phases"]}
    partitions = row["topics"] * row["partitions_per_topic"]

    def total(*what: str) -> int:
        return sum(int(each[name]) for each in phases.values() for name in what)

    held = phases["failover"]["held_mb"] * 1e6 / partitions
    peak = max(each["peak_mb"] for each in phases.values()) * 1e6 / partitions
    cells = [
        f"{row['brokers']:,}",
        f"{row['topics']:,}×{row['partitions_per_topic']:,}",
        *(f"{phases[name]['core_s']:.2f}" for name in PHASES),
        f"{total('events'):,}",
        f"{total('reads', 'operations'):,}",
        f"{total('requests'):,}",
        f"{total('wire_bytes') / 1e6:,.0f}",
        f"{held:,.0f}/{peak:,.0f}",
    ]
    return f"|{'|'.join(cells)}|"
