"""What a large cluster costs the controller, along each axis: `python -m benchmarks.world`, or `make bench-world`.

Each size is measured in processes of its own, one after the other; the largest takes 4 GB. Without --quick, sizes that
were measured replace those in docs/benchmarks-world.json, and docs/benchmarks.md is written. Each row keeps the commit,
the Python and the day that it was measured with.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks import page as whole_page
from benchmarks.documents import Document, read, write
from benchmarks.provenance import DOCS, MEASURED, origin, refusal
from benchmarks.world import page
from benchmarks.world.measure import CALLS, MEMORY, PARTS
from benchmarks.world.page import Row
from benchmarks.world.plan import AXES, QUICK, TRACED_UP_TO, Axis, Size
from lethe.cli.progress import progress


def run(axes: Sequence[Axis]) -> list[Row]:
    """Measure all sizes, once each."""
    rows: list[Row] = []
    measured = origin()
    total = sum(len(axis.sizes) for axis in axes) * len(PARTS)
    done = 0
    with progress("sizes", total) as show:
        for axis in axes:
            for size in axis.sizes:
                phases = []
                for part in PARTS:
                    phases += _measured(size, part)
                    done += 1
                    show(done)
                called = _measured(size, CALLS)
                phases = [{**phase, "calls": called[phase["phase"]]} for phase in phases]
                traced = _measured(size, MEMORY) if size.partitions <= TRACED_UP_TO else {}
                load = round(os.getloadavg()[0], 2)
                rows.append(
                    {"axis": axis.name, **size._asdict(), MEASURED: measured, "load": load, "phases": phases, **traced}
                )
    return rows


def _measured(size: Size, part: str) -> Any:
    command = [sys.executable, "-m", "benchmarks.world.measure", *map(str, size), part]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def merged(earlier: Document | None, rows: Sequence[Row]) -> Document:
    """Return these rows, and the earlier ones of sizes that were not measured now, in the order of the plan."""
    found = {page.key(row): row for row in (*(earlier["rows"] if earlier else ()), *rows)}
    order = [(axis.name, *size) for axis in (*AXES, *QUICK) for size in axis.sizes]
    return {"rows": [found[key] for key in dict.fromkeys(order) if key in found]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--axes",
        nargs="+",
        choices=[axis.name for axis in AXES],
        metavar="AXIS",
        help="only these, of: " + ", ".join(repr(axis.name) for axis in AXES),
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, and nothing is written")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if refused := refusal(None if options.quick else DOCS):
        parser.error(refused)
    axes = QUICK if options.quick else [axis for axis in AXES if options.axes is None or axis.name in options.axes]
    stored = DOCS / page.JSON_NAME
    earlier = read(stored) if stored.exists() and not options.quick else None
    document = merged(earlier, run(axes))
    print(json.dumps(document, indent=1) if options.json else page.page(document))
    if not options.quick:
        write(document, stored)
        (DOCS / whole_page.NAME).write_text(whole_page.page(DOCS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
