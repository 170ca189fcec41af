"""The section of docs/benchmarks.md about the pipeline by turns with an earlier commit and DuckDB."""

from __future__ import annotations

import statistics
from typing import Any, Final

from benchmarks.provenance import MEASURED, told

_HEAD: Final = (
    "| Lines | Run | Who | Processor | A line | Elapsed | Most memory |",
    "|---:|---|---|---:|---:|---:|---:|",
)
_METHOD: Final = """\
Each row is the median of its rounds, by turns in one run. Processor time is of all processes, Spark's JVM and its start
among them. DuckDB has two threads. It reads the lines, drops repeated and unusable ones, and makes the spans with their
phases, outcome and freed bytes. The pipeline also makes holds, waits, replicas, tenures and the audit, keeps all lines,
and says which ones it could not read. `make bench-turns`."""


def page(found: dict[str, Any]) -> str:
    """Return the section as Markdown."""
    sizes = found["sizes"]
    return "\n".join(
        [
            f"### By turns with {'an earlier commit, and ' if found['earlier'] else ''}DuckDB",
            "",
            *told([(size[MEASURED], f"{size['lines']:,} lines") for size in sizes], "processor", "memory"),
            "",
            *_HEAD,
            *(row for size in sizes for row in _rows(size, found["earlier"])),
            "",
            *(line for size in sizes for line in (*_ratios(size), _verdict(size))),
            "",
            _METHOD,
            "",
        ]
    )


def _rows(size: dict[str, Any], earlier: str) -> list[str]:
    """Return the rows of a size, by run, so that those to compare are neighbours."""
    runs = dict.fromkeys(run for spent in size["spent"].values() for run in spent)
    return [
        _row(size["lines"], run, f"before ({earlier})" if who == "before" else who, spent[run])
        for run in runs
        for who, spent in size["spent"].items()
        if run in spent
    ]


def _row(lines: int, run: str, who: str, rounds: list[dict[str, Any]]) -> str:
    processor, elapsed, memory = (_median(rounds, name) for name in ("processor_s", "seconds", "peak_bytes"))
    return (
        f"| {lines:,} | {run} | {who} | {processor:.1f} s | {processor / lines * 1e6:,.1f} µs | {elapsed:.1f} s | "
        f"{memory / 1e9:.1f} GB |"
    )


def _median(rounds: list[dict[str, Any]], name: str) -> float:
    return float(statistics.median(one[name] for one in rounds))


def _ratios(size: dict[str, Any]) -> list[str]:
    """Return how many times the earlier commit's processor time is that of the present one, by run; with one of them
    alone there is nothing to say."""
    before, now = (size["spent"].get(who, {}) for who in ("before", "now"))
    ratios = [
        f"{run} {_median(before[run], 'processor_s') / _median(now[run], 'processor_s'):,.1f}"
        for run in before
        if run in now
    ]
    if not ratios:
        return []
    return [f"* {size['lines']:,} lines: times as much processor time before as now: {', '.join(ratios)}."]


def _verdict(size: dict[str, Any]) -> str:
    if size["differ"]:
        return f"* {size['lines']:,} lines: {'; '.join(size['differ'])}."
    (count,) = set(size["spans"].values())
    return f"* {size['lines']:,} lines: all have made the same {count:,} spans."
