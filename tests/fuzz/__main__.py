"""Feed damaged frames of the Kafka protocol to every parser: `python -m tests.fuzz --frames 10000000 --seed 1`."""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

from tests.fuzz.kept import FILE, as_line
from tests.fuzz.search import Report, search


def main(arguments: list[str] | None = None) -> int:
    """0: all frames were handled as they must be; 1: some were not."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="how many (default: 1000000)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same frames (default: 1)")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    began_s = time.perf_counter()
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("fuzzing", total=options.frames)
        report = search(options.seed, options.frames, progress=lambda count: progress.advance(task, count))
    took_s = time.perf_counter() - began_s
    _show(console, report)
    for finding in report.findings:
        sys.stdout.write(as_line(finding.target, finding.data, finding.what) + "\n")
    remedy = f": keep one of each kind in {FILE.relative_to(FILE.parents[2])}" if report.findings else ""
    console.print(
        f"seed {options.seed}: {report.frames:,} frames in {took_s:.0f} s, {report.frames / took_s:,.0f} in a second; "
        f"{len(report.findings)} findings{remedy}",
        highlight=False,
        soft_wrap=True,
    )
    return 1 if report.findings else 0


def _show(console: Console, report: Report) -> None:
    table = Table("target", "frames", "understood", "bytes", "most memory for a byte")
    for name, tally in report.tallies.items():
        counts = (f"{tally.frames:,}", f"{tally.understood:,}", f"{tally.size_bytes:,}")
        table.add_row(name, *counts, f"{tally.peak_per_byte:.0f}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
