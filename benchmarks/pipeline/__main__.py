"""The pipeline on synthetic journals and surveys of growing size: `make bench-pipeline`.

Each size is generated, processed by the whole pipeline in its own process on two cores, compared with the planted
counts, and removed. At the end a smaller input goes through `local[2]` and through a standalone cluster (a master and
two workers), and the tables of both are compared row by row. `--quick` does everything once in small. The exit code is
1 if a count is not exact or a table differs.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks import page
from benchmarks.documents import Document, read, write
from benchmarks.pipeline import plot, results
from benchmarks.pipeline.journal import DAY_MS, FIRST_DAY_MS, write_journal
from benchmarks.pipeline.planted import Planted
from benchmarks.pipeline.results import JSON_NAME
from benchmarks.pipeline.run import Input, RunFailed, run_job, run_on_cluster
from benchmarks.pipeline.survey import write_survey
from benchmarks.provenance import DOCS, origin, refusal
from benchmarks.rounds import Progress

MILLION: Final = 1_000_000
FULL: Final = ((5, 0.5), (50, 5))
"""Millions of lines, millions of directories."""
QUICK: Final = ((0.2, 0.05),)
PROCESSES: Final = 2
LINES_PER_DAY: Final = 500_000
SEED: Final = 6


class Benchmark:
    """All sizes of one run, and the comparison at the end."""

    def __init__(self, work: Path, given: argparse.Namespace) -> None:
        self._work = work
        self._given = given
        self._tell = Progress().tell
        self._origin = origin({"Spark": version("pyspark")})
        self.runs: list[dict[str, Any]] = []
        self.cluster: dict[str, Any] | None = None
        self._earlier = read(given.output / JSON_NAME) if given.add else None

    def run(self) -> None:
        """Run everything in order."""
        for lines, directories in self._given.sizes:
            self._size(lines, directories)
        if self._given.cluster_lines:
            self._compare()

    def _generate(self, lines: float, directories: float) -> tuple[Input, Planted]:
        place = Path(tempfile.mkdtemp(prefix="input-", dir=self._work))
        began_s = time.monotonic()
        per_day = min(LINES_PER_DAY, max(int(lines * MILLION / 4), 1))
        planted = write_journal(
            place / "journal", int(lines * MILLION), lines_per_day=per_day, seed=SEED, processes=PROCESSES
        )
        if directories:
            (place / "surveys").mkdir()
            planted += write_survey(
                place / "surveys",
                int(directories * MILLION),
                taken_at_ms=FIRST_DAY_MS + DAY_MS // 2,
                seed=SEED,
                processes=PROCESSES,
            )
        took_s = time.monotonic() - began_s
        self._tell(
            f"{planted.lines:,} lines, {planted.directories:,} directories, {planted.size_bytes / 1e9:.2f} GB, "
            f"written in {took_s:.0f} s"
        )
        return Input(place, has_surveys=directories > 0), planted

    def _size(self, lines: float, directories: float) -> None:
        found, planted = self._generate(lines, directories)
        try:
            measured = run_job(self._work, found, planted, self._tell, heap=self._given.heap)
        finally:
            shutil.rmtree(found.place)
        self.runs.append(measured)
        self._keep()

    def _compare(self) -> None:
        found, planted = self._generate(self._given.cluster_lines, self._given.cluster_lines / 4)
        try:
            self.cluster = run_on_cluster(self._work, found, planted, self._tell)
        finally:
            shutil.rmtree(found.place)
        self._keep()

    def _keep(self) -> None:
        if self._given.output is not None:
            found = results.document(self.runs, self.cluster, self._origin)
            write_all(results.merge_runs(self._earlier, found) if self._earlier else found, self._given.output)

    @property
    def wrong(self) -> list[str]:
        """Everything that is not as it was planted, and every table that differs."""
        runs = [*self.runs, *([self.cluster] if self.cluster is not None else [])]
        return [line for run in runs for line in run["wrong"]]


def write_all(found: Document, directory: Path) -> None:
    """Write the three files of the page."""
    write(found, directory / JSON_NAME)
    (directory / page.NAME).write_text(page.page(directory))
    (directory / "benchmarks-pipeline.svg").write_text(plot.svg(found))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line. Exits on invalid ones."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--quick", action="store_true", help="everything once, in small; writes no page")
    parser.add_argument("--sizes", default="", help="millions of lines and of directories: 5:0.5,50:5; or none")
    parser.add_argument("--cluster-lines", type=float, help="millions of lines for the comparison (1; 0: none)")
    parser.add_argument("--add", action="store_true", help="leave on the page what is not measured again")
    parser.add_argument("--heap", default="4g", help="memory of the driver's JVM (4g)")
    parser.add_argument("--work-dir", type=Path, help="where files are put meanwhile: 60 GB for the largest size")
    parser.add_argument("--output", type=Path, default=DOCS, help="directory of the page; the project's docs")
    given = parser.parse_args(arguments)
    try:
        given.sizes = _sizes(given.sizes) if given.sizes else QUICK if given.quick else FULL
    except ValueError:
        parser.error(f"--sizes {given.sizes}: LINES:DIRECTORIES, in millions, with commas in between; or none")
    if given.cluster_lines is None:
        given.cluster_lines = 0.1 if given.quick else 1.0
    if given.quick:
        given.output = None
    if given.output is not None and not given.output.is_dir():
        parser.error(f"--output {given.output}: there is no such directory")
    if given.add and not (given.output is not None and (given.output / JSON_NAME).is_file()):
        parser.error(f"--add: there is no {JSON_NAME} in {given.output or 'nowhere'} to add to")
    if not given.sizes and given.output is not None and not given.add:
        parser.error("--sizes none: a page without sizes is none; --add leaves those on it that were measured before")
    return given


def _sizes(text: str) -> tuple[tuple[float, float], ...]:
    return () if text == "none" else tuple(_size(each) for each in text.split(",") if each)


def _size(text: str) -> tuple[float, float]:
    lines, _, directories = text.partition(":")
    return float(lines), float(directories or 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return 0 if all counts are exact."""
    given = parse(arguments)
    if (refused := refusal(given.output)) is not None:
        print(f"the benchmark does not start: {refused}", file=sys.stderr)
        return 2
    if given.work_dir is not None:
        given.work_dir.mkdir(parents=True, exist_ok=True)
    # Files of many gigabytes must not outlive this process, whatever ends it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="lethe-bench-pipeline-", dir=given.work_dir) as work:
        benchmark = Benchmark(Path(work), given)
        try:
            benchmark.run()
        except RunFailed as error:
            print(f"the benchmark cannot go on: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("interrupted; what was measured has been written down", file=sys.stderr)
            return 130
    for line in benchmark.wrong:
        print(f"NOT AS PLANTED: {line}", file=sys.stderr)
    return 1 if benchmark.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
