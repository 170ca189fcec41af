"""The pipeline of an earlier commit, the present one, and DuckDB by turns on the same lines: `make bench-turns`.

Each pipeline makes a new lake of the journal, runs again with nothing new, and once more with a thousand later lines.
DuckDB reads the same lines and makes spans of them. Processor time is that of all processes of a run, Spark's JVM
among them. At the end the spans of all three are compared. The exit code is 1 if they differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import page
from benchmarks.documents import read, write
from benchmarks.pipeline.duck import COLUMNS
from benchmarks.pipeline.journal import write_journal
from benchmarks.pipeline.results import TURNS_NAME
from benchmarks.pipeline.spending import Spent, adopt_orphans, spend
from benchmarks.provenance import MEASURED, ROOT, origin, refusal
from benchmarks.rounds import Progress
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.tables import DELETION_SPANS

LATER_LINES: Final = 1_000
LINES_PER_DAY: Final = 500_000
SEED: Final = 6
RUNS: Final = ("a new lake", "nothing new", "1,000 lines more")
DUCKDB: Final = "DuckDB"
PLANTED: Final = 1
"""The exit code of the pipeline's runs: the audit finds what was planted."""


class TurnFailed(Exception):
    """A run ended otherwise than expected; the message has the end of its output."""


@dataclass(slots=True)
class Input:
    """A journal, with its last lines apart."""

    journal: Path
    later: Path
    lines: int
    size_bytes: int


@dataclass(slots=True)
class Size:
    """The measurements of one journal, by who ran and what."""

    lines: int
    size_bytes: int
    spent: dict[str, dict[str, list[Spent]]] = field(default_factory=dict)
    spans: dict[str, int] = field(default_factory=dict)
    differ: list[str] = field(default_factory=list)

    def add(self, who: str, run: str, spent: Spent) -> None:
        self.spent.setdefault(who, {}).setdefault(run, []).append(spent)


def generate(work: Path, lines: int) -> Input:
    """Write a journal; its last thousand lines are apart."""
    journal, later = work / "journal", work / "later"
    later.mkdir()
    planted = write_journal(
        journal, lines, lines_per_day=min(LINES_PER_DAY, max(lines // 4, 1)), seed=SEED, processes=2
    )
    newest = max(sorted(journal.iterdir()), key=_time_of_last_line)
    written = newest.read_bytes().splitlines(keepends=True)
    count = min(LATER_LINES, len(written) // 2)
    newest.write_bytes(b"".join(written[:-count]))
    (later / f"{newest.stem}-later.jsonl").write_bytes(b"".join(written[-count:]))
    return Input(journal, later, planted.lines, planted.size_bytes)


def _time_of_last_line(file: Path) -> str:
    last = file.read_bytes().rstrip().rpartition(b"\n")[2]
    try:
        return str(json.loads(last)["time"])
    except (ValueError, KeyError):
        return ""


class Turns:
    """The trees whose pipelines run by turns, and DuckDB."""

    def __init__(self, work: Path, trees: dict[str, Path], conf: Sequence[str]) -> None:
        self._work = work
        self._trees = trees
        self._conf = conf
        self._tell = Progress().tell
        self._output = work / "output"

    def measure(self, lines: int, rounds: int) -> Size:
        """Return the measurements of a journal of about so many lines. Raises TurnFailed."""
        with tempfile.TemporaryDirectory(dir=self._work) as place:
            found = generate(Path(place), lines)
            self._tell(f"{found.lines:,} lines, {found.size_bytes / 1e9:.2f} GB")
            size = Size(found.lines, found.size_bytes)
            for number in range(rounds):
                spans = {}
                for name, tree in self._trees.items():
                    lake = Path(place) / f"lake-{number}-{name}"
                    for run, places in zip(RUNS, self._inputs(found), strict=True):
                        size.add(name, run, self._run(name, run, self._pipeline(lake, places), tree, PLANTED))
                    spans[name] = spans_of_lake(lake)
                result = Path(place) / f"spans-{number}.parquet"
                duck = [sys.executable, "-m", "benchmarks.pipeline.duck", str(result)]
                command = [*duck, str(found.journal), str(found.later)]
                size.add(DUCKDB, RUNS[0], self._run(DUCKDB, RUNS[0], command, ROOT))
                spans[DUCKDB] = sorted_spans(pq.read_table(result, columns=list(COLUMNS)))
                size.differ += differences(spans)
                size.spans = {name: table.num_rows for name, table in spans.items()}
        return size

    @staticmethod
    def _inputs(found: Input) -> tuple[Sequence[Path], ...]:
        return (found.journal,), (found.journal,), (found.journal, found.later)

    def _pipeline(self, lake: Path, places: Sequence[Path]) -> list[str]:
        journals = [part for place in places for part in ("--journal", str(place))]
        settings = [part for one in self._conf for part in ("--conf", one)]
        run = [sys.executable, "-m", "lethe", "pipeline", "run", "--master", "local[2]"]
        return [*run, *settings, "--lake", str(lake), *journals]

    def _run(self, who: str, run: str, command: Sequence[str], tree: Path, expected: int = 0) -> Spent:
        # An earlier commit does not know the archive of classes that this user may have.
        settings = {"SPARK_LOCAL_IP": "127.0.0.1", "XDG_CACHE_HOME": str(self._work / "cache")}
        environment = {**os.environ, "PYTHONPATH": str(tree), **settings}
        spent = spend(command, cwd=tree, environment=environment, output=self._output)
        if spent.exit_code != expected:
            end = self._output.read_text(errors="replace")[-3000:]
            raise TurnFailed(f"{who}, {run}: ended with {spent.exit_code}, and said at last:\n{end}")
        self._tell(
            f"{who}, {run}: {spent.processor_s:.1f} s of the processors, {spent.seconds:.1f} s elapsed, "
            f"{spent.peak_bytes / 1e9:.1f} GB"
        )
        return spent


def spans_of_lake(lake: Path) -> pa.Table:
    """Return the columns of the lake's spans that DuckDB makes too, in order."""
    return sorted_spans(pa.concat_tables(LakeReader(str(lake)).batches(DELETION_SPANS, COLUMNS)))


def sorted_spans(spans: pa.Table) -> pa.Table:
    """Return the rows in one order, with times of one unit."""
    kinds = {name: pa.timestamp("us", "UTC") for name in COLUMNS if name.endswith("_at")}
    kinds |= {name: pa.int64() for name in COLUMNS if name.startswith("freed_")}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    return spans.cast(schema).sort_by([("topic", "ascending"), ("topic_id", "ascending"), ("marked_at", "ascending")])


def differences(spans: dict[str, pa.Table]) -> list[str]:
    """Return which of them have other rows than the first."""
    (first, expected), *others = spans.items()
    return [
        f"{name} has other spans than {first}: {found.num_rows:,} and {expected.num_rows:,} rows"
        for name, found in others
        if not found.equals(expected)
    ]


def export(commit: str, place: Path) -> None:
    """Write the files of a commit into the directory. Raises CalledProcessError."""
    place.mkdir()
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive, check=True)


def document(sizes: Sequence[Size], earlier: str, measured: dict[str, Any]) -> dict[str, Any]:
    """Return the results as stored in the docs."""
    rows = [
        {
            "lines": size.lines,
            "size_bytes": size.size_bytes,
            "spans": size.spans,
            "differ": size.differ,
            "spent": {
                who: {run: [one._asdict() for one in every] for run, every in runs.items()}
                for who, runs in size.spent.items()
            },
            MEASURED: measured,
        }
        for size in sizes
    ]
    return {"earlier": earlier, "sizes": rows}


def merge(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the new results, and earlier ones of sizes that were not measured again."""
    again = {row["lines"] for row in found["sizes"]}
    rows = [*found["sizes"], *(row for row in before["sizes"] if row["lines"] not in again)]
    return {**found, "sizes": sorted(rows, key=lambda row: int(row["lines"]))}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line. Exits on invalid ones."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline.turns", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--earlier", metavar="COMMIT", help="the commit to compare with; none without")
    parser.add_argument("--lines", type=int, nargs="+", default=[4_000, 5_000_000], help="of each journal")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, for both")
    parser.add_argument("--add", action="store_true", help="leave on the page the sizes that are not measured again")
    parser.add_argument("--work-dir", type=Path, help="where files are put meanwhile: 10 GB for five million lines")
    parser.add_argument("--output", type=Path, help="directory of the page; nothing is written without")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return 0 if all spans are equal."""
    given = parse(arguments)
    if (refused := refusal(given.output)) is not None:
        print(f"the benchmark does not start: {refused}", file=sys.stderr)
        return 2
    adopt_orphans()
    measured = origin({"Spark": version("pyspark"), DUCKDB: version("duckdb")})
    sizes: list[Size] = []
    with tempfile.TemporaryDirectory(prefix="lethe-bench-turns-", dir=given.work_dir) as work:
        trees: dict[str, Path] = {}
        if given.earlier:
            export(given.earlier, trees.setdefault("before", Path(work) / "before"))
        trees["now"] = ROOT
        turns = Turns(Path(work), trees, given.conf)
        for lines in given.lines:
            try:
                sizes.append(turns.measure(lines, given.rounds))
            except TurnFailed as error:
                print(f"the benchmark cannot go on: {error}", file=sys.stderr)
                return 1
            if given.output is not None:
                _keep(document(sizes, given.earlier or "", measured), given)
    for size in sizes:
        for line in size.differ:
            print(f"{size.lines:,} lines: {line}", file=sys.stderr)
    return 1 if any(size.differ for size in sizes) else 0


def _keep(found: dict[str, Any], given: argparse.Namespace) -> None:
    file = given.output / TURNS_NAME
    write(merge(read(file), found) if given.add and file.is_file() else found, file)
    (given.output / page.NAME).write_text(page.page(given.output))


if __name__ == "__main__":
    sys.exit(main())
