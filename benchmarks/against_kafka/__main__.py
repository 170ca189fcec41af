"""Kafka's controller and ours by turns, in one run: `python -m benchmarks.against_kafka`, which is `make bench`.

The same ZooKeeper, the same three agents, the same topics; each round has a turn of either controller, and they change
who comes first. `--quick` runs everything once in sizes that say nothing, to see that it works. What was measured is
written to docs/benchmarks.json, and made into docs/benchmarks.md with its plot.

It ends by itself: a further round is begun only where, by the time that the last one took, it ends within the budget.
Whatever happens, no process outlives it.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import page as whole_page
from benchmarks.against_kafka import contestants, page, plot, results
from benchmarks.against_kafka.measure import Turn, take_turn
from benchmarks.against_kafka.plan import QUICK, QUICK_WARM_UP, WARM_UP, WORKLOADS, Workload
from benchmarks.against_kafka.stage import BenchmarkFailed, Stage, stage
from lethe.adapters.zookeeper.interface import SessionLost, WriteRefused, ZooKeeperUnavailable
from lethe.cluster.daemons import DaemonFailed
from lethe.cluster.kafka_fetch import KafkaDistribution, KafkaUnavailable, KafkaVersion, fetch_kafka
from lethe.cluster.zookeeper import ZooKeeperStartFailed

DOCS: Final = Path(__file__).parents[2] / "docs"
FAILED: Final = 1
FAILURES: Final = (
    *(KafkaUnavailable, ZooKeeperStartFailed, ZooKeeperUnavailable, SessionLost, WriteRefused),
    *(DaemonFailed, BenchmarkFailed),
)
"""What ends a run with a sentence. The rounds that were whole have been written down by then."""


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
    """Where the page is written; None: nowhere."""
    earlier: tuple[Any, ...] = ()
    """Turns of earlier runs on the same machine, which are shown with those of this one."""


class Benchmark:
    """All rounds of one run."""

    def __init__(self, options: Options, kafka: KafkaDistribution) -> None:
        self._options = options
        self._kafka = kafka
        self._began_s = time.monotonic()
        self.turns: list[Turn] = []

    async def run(self) -> None:
        """All workloads in the order given, but for those with the other kind of agents, which come together."""
        for disk in dict.fromkeys(each.disk for each in self._options.workloads.values()):
            chosen = {key: each for key, each in self._options.workloads.items() if each.disk is disk}
            if chosen:
                async with stage(self._kafka, disk, self._options.logs) as here:
                    for key, workload in chosen.items():
                        await self._rounds(here, key, workload)

    async def _rounds(self, here: Stage, key: str, workload: Workload) -> None:
        took_s = 0.0
        for number in range(1, self._options.rounds[key] + 1):
            began_s = time.monotonic()
            if took_s and began_s - self._began_s + took_s > self._options.budget_s:
                self.tell(f"{workload.name}: {number - 1} rounds; another one would go beyond the time allowed")
                return
            names = self._options.names if number % 2 else tuple(reversed(self._options.names))
            for name in names:
                self.tell(f"{workload.name}, round {number}: {name}")
                self.turns.append(await take_turn(here, name, number, workload, self._options.warm_up, self.tell))
                self._keep()
                for line in self.turns[-1].complaints:
                    self.tell(f"  {name} complains: {line[:200]}")
            took_s = time.monotonic() - began_s

    def document(self) -> results.Document:
        """What has been measured so far."""
        found = results.document(self.turns, str(self._options.kafka))
        return found | {"turns": [*self._options.earlier, *found["turns"]]}

    def _keep(self) -> None:
        """Write down what there is, so that a run that is stopped has not been for nothing."""
        output = self._options.output
        if output is not None:
            found = self.document()
            results.write(found, output / results.JSON_NAME)
            (output / whole_page.NAME).write_text(whole_page.page(output))
            (output / "benchmarks.svg").write_text(plot.svg(found))

    def tell(self, text: str) -> None:
        """A line of progress."""
        minutes, seconds = divmod(int(time.monotonic() - self._began_s), 60)
        print(f"[{minutes:02d}:{seconds:02d}] {text}", flush=True)


def parse(arguments: Sequence[str] | None) -> Options:
    """The command line. Ends the process where it cannot be understood."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.against_kafka", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--quick", action="store_true", help="everything once, in small; writes no page")
    parser.add_argument("--workloads", default="", help=f"of {', '.join(WORKLOADS)}; all where it is not given")
    parser.add_argument("--runs", type=int, default=5, help="rounds of each workload but the large one (5)")
    parser.add_argument("--large-runs", type=int, default=3, help="rounds of the large workload (3)")
    parser.add_argument("--budget-min", type=float, default=35.0, help="minutes that all of it may take (35)")
    parser.add_argument("--add", action="store_true", help="keep the rounds that the page has, and add further ones")
    parser.add_argument("--only", choices=contestants.CONTESTANTS, help="this controller alone; writes no page")
    parser.add_argument("--kafka", default="3.9.1", help="version of Kafka (3.9.1)")
    parser.add_argument("--logs", type=Path, help="an empty directory in which logs and journals are kept")
    parser.add_argument("--output", type=Path, default=DOCS, help="directory of the page; the project's docs")
    given = parser.parse_args(arguments)
    known = QUICK if given.quick else WORKLOADS
    wanted = [each for each in given.workloads.split(",") if each] or list(known)
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
    earlier: tuple[Any, ...] = ()
    if given.add and output is not None:
        try:
            earlier = _earlier(output / results.JSON_NAME, version)
        except (OSError, ValueError) as error:
            parser.error(f"--add: {error}")
    return Options(workloads, warm_up, rounds, given.budget_min * 60, names, version, given.logs, output, earlier)


def _earlier(path: Path, version: KafkaVersion) -> tuple[Any, ...]:
    """The turns in that file. Raises OSError, and ValueError where they cannot stand beside further ones."""
    found = results.read(path)
    if found["versions"]["Kafka"] != str(version):
        raise ValueError(f"{path} has rounds with Kafka {found['versions']['Kafka']}, not with {version}")
    return tuple(found["turns"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and write down what came out; an exit code."""
    options = parse(arguments)
    # As with Ctrl-C: what is under way is wound up, and no file or process is left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        kafka = fetch_kafka(options.kafka, lambda line: print(line, flush=True))
        benchmark = Benchmark(options, kafka)
        asyncio.run(benchmark.run())
    except FAILURES as failure:
        print(f"the benchmark has failed: {failure}", file=sys.stderr)
        return FAILED
    print(page.table(benchmark.document()))
    if options.output is not None:
        print(f"written: {options.output / 'benchmarks.md'}, .json, .svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
