"""`make bench-turns`: what it compares, and what its section says."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.pipeline.duck import COLUMNS
from benchmarks.pipeline.spending import Spent
from benchmarks.pipeline.turns import RUNS, Size, differences, document, generate, merge, sorted_spans
from benchmarks.pipeline.turns_page import page

MEASURED = {
    "when": "2026-11-27",
    "machine": {"processor": "two cores", "memory": "24 GB"},
    "versions": {"Lethe": "abc"},
}
AT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def spans(*topics: str, outcome: str = "done") -> pa.Table:
    rows = [
        dict(zip(COLUMNS, (topic, f"id-{topic}", AT, AT, None, outcome, 3, 16_435), strict=True)) for topic in topics
    ]
    return sorted_spans(pa.Table.from_pylist(rows))


def size(lines: int, *differ: str) -> Size:
    made = Size(lines, 340 * lines, spans={"now": 7, "DuckDB": 7}, differ=list(differ))
    for processor_s in (90.0, 80.0, 85.0):
        made.add("now", RUNS[0], Spent(1, processor_s, processor_s / 2, 2_000_000_000))
    made.add("DuckDB", RUNS[0], Spent(0, 30.0, 16.0, 1_000_000_000))
    return made


def test_the_last_lines_stand_apart_and_none_is_lost(tmp_path: Path) -> None:
    found = generate(tmp_path, 40_000)
    (later,) = found.later.iterdir()
    lines = later.read_bytes().splitlines()
    times = [json.loads(line)["time"] for line in lines]
    of_journal = [line for file in found.journal.iterdir() for line in file.read_bytes().splitlines()]
    assert len(lines) == 1_000
    assert min(times) > "2026-01-04"
    # Repeated and unusable lines come on top.
    assert found.lines < len(of_journal) + len(lines) < found.lines * 1.01


def test_spans_are_compared_as_rows_in_any_order() -> None:
    assert differences({"now": spans("a", "b"), "DuckDB": spans("b", "a")}) == []
    assert differences({"now": spans("a", "b"), "DuckDB": spans("a")}) == [
        "DuckDB has other spans than now: 1 and 2 rows"
    ]
    assert differences({"now": spans("a"), "before": spans("a", outcome="open")}) == [
        "before has other spans than now: 1 and 1 rows"
    ]


def test_the_section_has_medians_and_says_whether_the_spans_are_the_same() -> None:
    section = page(document([size(5_000_000)], "a9b9ae72", MEASURED))
    assert "| 5,000,000 | a new lake | now | 85.0 s | 17.0 µs | 42.5 s | 2.0 GB |" in section
    assert "| 5,000,000 | a new lake | DuckDB | 30.0 s | 6.0 µs | 16.0 s | 1.0 GB |" in section
    assert "* 5,000,000 lines: all have made the same 7 spans." in section
    other = page(document([size(5_000_000, "DuckDB has other spans than now: 1 and 2 rows")], "a9b9ae72", MEASURED))
    assert "* 5,000,000 lines: DuckDB has other spans than now: 1 and 2 rows." in other


def test_the_section_says_how_many_times_cheaper_it_has_become() -> None:
    alone = size(5_000_000)
    section = page(document([alone], "", MEASURED))
    assert section.startswith("### By turns with DuckDB\n")
    assert "before as now" not in section
    alone.add("before", RUNS[0], Spent(1, 340.0, 170.0, 2_000_000_000))
    section = page(document([alone], "a9b9ae72", MEASURED))
    assert "| 5,000,000 | a new lake | before (a9b9ae72) | 340.0 s |" in section
    assert "* 5,000,000 lines: times as much processor time before as now: a new lake 4.0." in section


def test_a_run_replaces_the_sizes_that_it_measured() -> None:
    before = document([size(4_000), size(5_000_000)], "old", MEASURED)
    merged = merge(before, document([size(5_000_000), size(49_000_000)], "new", MEASURED))
    assert [row["lines"] for row in merged["sizes"]] == [4_000, 5_000_000, 49_000_000]
    assert merged["earlier"] == "new"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are adopted by a call of Linux")
def test_what_an_orphan_spends_counts(tmp_path: Path) -> None:
    # The shell ends at once; what it has started runs on, as Spark's JVM does.
    busy = "import time\nwhile time.process_time() < 0.5: pass"
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom benchmarks.pipeline.spending import adopt_orphans, spend\n"
        "adopt_orphans()\n"
        "command = ['sh', '-c', f'{sys.executable} -c \"$BUSY\" & exit 3']\n"
        "print(spend(command, cwd=Path('.'), environment=dict(os.environ), output=Path(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "output")],
        env={**os.environ, "BUSY": busy},
        capture_output=True,
        text=True,
        check=True,
    )
    spent = eval(done.stdout, {"Spent": Spent})
    assert spent.exit_code == 3
    assert spent.processor_s >= 0.5


def test_a_run_that_ends_otherwise_than_expected_is_no_measurement(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom benchmarks.pipeline.spending import adopt_orphans\n"
        "from benchmarks.pipeline.turns import Turns, TurnFailed\n"
        "adopt_orphans()\n"
        "command = [sys.executable, '-c', 'import sys; print(\"no module\"); sys.exit(1)']\n"
        "try:\n    Turns(Path(sys.argv[1]), {}, [])._run('DuckDB', 'a new lake', command, Path('.'))\n"
        "except TurnFailed as failed:\n    print(failed)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["DuckDB, a new lake: ended with 1, and said at last:", "no module", ""]
