"""Kafka's controller and Lethe's in alternation, in one run: `python -m benchmarks.against_kafka`, or `make bench`.

Both have the same ZooKeeper, the same three agents and the same topics. Each round has one turn of each controller, in
alternating order. `--quick` runs everything once in small sizes, as a smoke test. Results go to docs/benchmarks.json,
docs/benchmarks.md and its plot: a workload that is measured replaces its earlier turns, and the others stay, each with
the commit, the Python and the day that it was measured with.

The run has a time budget: another round starts only if a round as long as the last one fits. No process outlives the
run, even if it fails.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks import documents
from benchmarks import page as whole_page
from benchmarks.against_kafka import contestants, many_page, page, plot, results
from benchmarks.against_kafka.measure import TurnResult, run_turn
from benchmarks.against_kafka.plan import BROKERS, MANY_BROKERS, QUICK, QUICK_WARM_UP, WARM_UP, WORKLOADS, Workload
from benchmarks.against_kafka.testbed import NONE, BenchmarkFailed, Testbed, testbed
from benchmarks.provenance import DOCS, MEASURED, Origin, origin, refusal
from benchmarks.rounds import Progress, by_turns
from lethe.adapters.zookeeper.interface import SessionLost, WriteRefused, ZooKeeperUnavailable
from lethe.cluster.daemons import DaemonFailed
from lethe.cluster.kafka_fetch import KafkaDistribution, KafkaUnavailable, KafkaVersion, fetch_kafka
from lethe.cluster.zookeeper import ZooKeeperStartFailed

BUDGET_MIN: Final = 150.0
"""Ample for five rounds of each workload, which took 41 minutes on 27 November 2026; a slower machine has fewer."""
FAILED: Final = 1
FAILURES: Final = (
    *(KafkaUnavailable, ZooKeeperStartFailed, ZooKeeperUnavailable, SessionLost, WriteRefused),
    *(DaemonFailed, BenchmarkFailed),
)
"""Errors that end a run with a message. Complete rounds are stored by then."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to run."""

    workloads: dict[str, Workload]
    warm_up: Workload
    rounds: dict[str, int]
    budget_s: float
    names: tuple[str, ...]
    kafka: KafkaVersion
    logs: Path | None
    output: Path | None
    """Directory of the page; None: no page is written."""
    has_many_brokers: bool = False
    """The workloads are those with many agents, which have a document of their own."""
    adds: bool = False
    """Keep also the earlier turns of the same workloads."""

    @property
    def stored(self) -> Path | None:
        """Return the file of the results; None: they are not stored."""
        name = many_page.JSON_NAME if self.has_many_brokers else results.JSON_NAME
        return None if self.output is None else self.output / name


class Benchmark:
    """All rounds of one run."""

    def __init__(self, options: Options, kafka: KafkaDistribution) -> None:
        self._options = options
        self._origin: Origin = origin(contestants.versions(str(options.kafka)))
        stored = options.stored
        self._earlier = documents.read(stored) if stored is not None and stored.exists() else None
        self._kafka = kafka
        self._progress = Progress()
        self._tell = self._progress.tell
        self.turns: list[TurnResult] = []

    async def run(self) -> None:
        """Run all workloads in order; workloads with the same kind of agents run together."""
        for disk, brokers in dict.fromkeys((each.disk, each.brokers) for each in self._options.workloads.values()):
            chosen = {
                key: each
                for key, each in self._options.workloads.items()
                if (each.disk, each.brokers) == (disk, brokers)
            }
            if chosen:
                async with testbed(self._kafka, disk, brokers, self._options.logs, NONE) as here:
                    for key, workload in chosen.items():
                        await self._rounds(here, key, workload)

    async def _rounds(self, here: Testbed, key: str, workload: Workload) -> None:
        took_s = 0.0
        for number in range(1, self._options.rounds[key] + 1):
            began_s = time.monotonic()
            if took_s and self._progress.elapsed_s + took_s > self._options.budget_s:
                self._tell(f"{workload.name}: {number - 1} rounds; another one would go beyond the time allowed")
                return
            names = self._options.names if workload.brokers == len(BROKERS) else (contestants.LETHE,)
            for name in by_turns(names, number):
                self._tell(f"{workload.name}, round {number}: {name}")
                self.turns.append(await run_turn(here, name, number, workload, self._warm_up(workload), self._tell))
                self._keep()
                for line in self.turns[-1].complaints:
                    self._tell(f"  {name} complains: {line[:200]}")
            took_s = time.monotonic() - began_s

    def _warm_up(self, workload: Workload) -> Workload:
        return replace(self._options.warm_up, brokers=workload.brokers)

    def document(self) -> documents.Document:
        """Return all measurements so far, and those of earlier runs that stay."""
        found = results.document(self.turns, self._origin)
        return results.merged(self._earlier, found, adds=self._options.adds)

    def _keep(self) -> None:
        """Store the results so far, so that an aborted run keeps its complete turns."""
        output, stored = self._options.output, self._options.stored
        if output is None or stored is None:
            return
        found = self.document()
        documents.write(found, stored)
        if not self._options.has_many_brokers:
            (output / "benchmarks.svg").write_text(plot.svg(found))
        (output / whole_page.NAME).write_text(whole_page.page(output))


def parse(arguments: Sequence[str] | None) -> Options:
    """Return the options of the command line. Exits on invalid ones."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.against_kafka", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--quick", action="store_true", help="everything once, in small; writes no page")
    parser.add_argument(
        "--workloads",
        default="",
        help=f"of {', '.join((*WORKLOADS, *MANY_BROKERS))}; the first {len(WORKLOADS)} where it is not given",
    )
    parser.add_argument("--runs", type=int, default=5, help="rounds of each workload but the large one (5)")
    parser.add_argument("--large-runs", type=int, default=5, help="rounds of the large workload (5)")
    parser.add_argument(
        "--budget-min", type=float, default=BUDGET_MIN, help=f"minutes that all of it may take ({BUDGET_MIN:g})"
    )
    parser.add_argument(
        "--add", action="store_true", help="keep the page's rounds of these workloads, and add further ones"
    )
    parser.add_argument("--only", choices=contestants.CONTESTANTS, help="this controller alone; writes no page")
    parser.add_argument("--kafka", default="3.9.1", help="version of Kafka (3.9.1)")
    parser.add_argument("--logs", type=Path, help="an empty directory in which logs and journals are kept")
    parser.add_argument("--output", type=Path, default=DOCS, help="directory of the page; the project's docs")
    given = parser.parse_args(arguments)
    known = QUICK if given.quick else {**WORKLOADS, **MANY_BROKERS}
    wanted = [each for each in given.workloads.split(",") if each] or list(QUICK if given.quick else WORKLOADS)
    if unknown := [each for each in wanted if each not in known]:
        parser.error(f"no such workload: {', '.join(unknown)} (there are: {', '.join(known)})")
    try:
        version = KafkaVersion.parse(given.kafka)
    except ValueError as error:
        parser.error(str(error))
    if min(given.runs, given.large_runs) < 1 or given.budget_min <= 0:
        parser.error("--runs, --large-runs and --budget-min must be above 0")
    if given.logs is not None and given.logs.exists() and (not given.logs.is_dir() or any(given.logs.iterdir())):
        parser.error(f"--logs {given.logs}: is there and is no empty directory")
    rounds = {key: 1 if given.quick else given.large_runs if key == "large" else given.runs for key in wanted}
    names = (given.only,) if given.only else contestants.CONTESTANTS
    workloads = {key: known[key] for key in wanted}
    warm_up = QUICK_WARM_UP if given.quick else WARM_UP
    output = None if given.quick or given.only else given.output
    if output is not None and not output.is_dir():
        parser.error(f"--output {output}: there is no such directory")
    has_many = bool(MANY_BROKERS.keys() & set(wanted))
    if has_many and not set(wanted) <= MANY_BROKERS.keys():
        parser.error(f"--workloads: {', '.join(MANY_BROKERS)} have a page of their own, run them apart from the others")
    if has_many and given.only == contestants.KAFKA:
        parser.error(f"--only: {', '.join(MANY_BROKERS)} are run with Lethe's controller alone")
    options = Options(
        workloads, warm_up, rounds, given.budget_min * 60, names, version, given.logs, output, has_many, given.add
    )
    if given.add and options.stored is not None:
        try:
            _require_comparable(options.stored, version)
        except (OSError, ValueError) as error:
            parser.error(f"--add: {error}")
    return options


def _require_comparable(path: Path, version: KafkaVersion) -> None:
    """Raise OSError without that file, and ValueError if it has turns with another version of Kafka."""
    there = {turn[MEASURED]["versions"]["Kafka"] for turn in documents.read(path)["turns"]}
    if others := there - {str(version)}:
        raise ValueError(f"{path} has rounds with Kafka {', '.join(sorted(others))}, not with {version}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, store the results, and return an exit code."""
    options = parse(arguments)
    if (refused := refusal(options.output)) is not None:
        print(f"the benchmark does not start: {refused}", file=sys.stderr)
        return 2
    # As with Ctrl-C: the current turn is cleaned up, and no file or process is left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        kafka = fetch_kafka(options.kafka, lambda line: print(line, flush=True))
        benchmark = Benchmark(options, kafka)
        asyncio.run(benchmark.run())
    except FAILURES as failure:
        print(f"the benchmark has failed: {failure}", file=sys.stderr)
        return FAILED
    document = benchmark.document()
    print(many_page.page(document) if options.has_many_brokers else page.table(document))
    if options.output is not None:
        print(f"written: {options.output / 'benchmarks.md'}, .json, .svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
