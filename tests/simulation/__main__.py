"""`python -m tests.simulation --seed 7 --trace`, `python -m tests.simulation --seeds 1000 --jobs 2`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from tests import simulation
from tests.simulation import known_seeds
from tests.simulation.planted import BUGS
from tests.simulation.runner import Result, simulate

LINES_SHOWN = 40


def main(arguments: list[str] | None = None) -> int:
    """0: all is well; 1: some seed failed."""
    options = _parser().parse_args(arguments)
    if options.find_bugs:
        return _find_bugs(list(_seeds(options.seeds)), options.jobs)
    seeds = [options.seed] if options.seed is not None else list(_seeds(options.seeds))
    started_s = time.perf_counter()
    failed: list[Result] = []
    events = 0
    console = Console(stderr=True)
    results = _run(seeds, options.jobs, options.bug, keep_trace=options.trace)
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("simulating", total=len(seeds))
        for result in results:
            events += result.events
            progress.advance(task)
            if result.violation is not None:
                failed.append(result)
                if len(failed) <= options.show:
                    _show(console, result, options.bug)
            if options.json:
                _write(json.dumps(asdict(result) | {"lines": list(result.lines) if options.trace else []}))
            elif options.trace:
                _write("\n".join(result.lines))
    took_s = time.perf_counter() - started_s
    console.print(
        f"{len(seeds)} seeds, {events} events, {took_s:.1f} s: {len(failed)} failed", highlight=False, soft_wrap=True
    )
    if len(seeds) == 1 and not options.json and not failed:
        _write(f"digest {result.digest}")
    return 1 if failed else 0


def _find_bugs(seeds: list[int], jobs: int) -> int:
    """Brings known_seeds.json up to date. 1: some bug is not found by any of the seeds."""
    found: dict[str, known_seeds.Finding | None] = {}
    before = known_seeds.known_seeds()
    console = Console(stderr=True)
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("searching", total=len(BUGS))
        for bug, finding in known_seeds.search_all(seeds, jobs):
            found[bug] = finding
            progress.advance(task)
            if finding is None or finding != before.get(bug):
                result = (
                    f"not found in {len(seeds)} seeds" if finding is None else f"seed {finding.seed}: {finding.rule}"
                )
                console.print(f"{bug}: {result}", highlight=False)
    known_seeds.keep(found)
    missed = [bug for bug, finding in found.items() if finding is None]
    console.print(f"{len(found) - len(missed)} of {len(found)} planted bugs found", highlight=False)
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=simulation.__doc__)
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--seeds", default="100", help="so many, from 0 on, or a range: 500..599 (default: 100)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--trace", action="store_true", help="print everything that happened")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each seed")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant this bug: the seeds should fail")
    parser.add_argument("--find-bugs", action="store_true", help="find a seed for each planted bug: known_seeds.json")
    parser.add_argument("--show", type=int, default=3, help="how many failed seeds to show (default: 3)")
    return parser


def _seeds(text: str) -> Iterable[int]:
    first, dots, last = text.partition("..")
    return range(int(first), int(last) + 1) if dots else range(int(first))


def _run(seeds: list[int], jobs: int, bug: str | None, *, keep_trace: bool) -> Iterator[Result]:
    if jobs <= 1 or len(seeds) == 1:
        for seed in seeds:
            yield _one(seed, bug, keep_trace)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_one, seeds, [bug] * len(seeds), [keep_trace] * len(seeds), chunksize=4)


def _one(seed: int, bug: str | None, keep_trace: bool) -> Result:
    return simulate(seed, keep_trace=keep_trace, planted=None if bug is None else BUGS[bug]())


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _show(console: Console, result: Result, bug: str | None) -> None:
    planted = f" --bug {bug}" if bug else ""
    console.print(f"[bold red]seed {result.seed}[/]: {result.violation}", highlight=False, soft_wrap=True)
    for line in result.lines[-LINES_SHOWN:]:
        console.print(f"  {line[:400]}", highlight=False, markup=False, soft_wrap=True)
    command = f"python -m tests.simulation --seed {result.seed}{planted} --trace"
    console.print(f"[bold]to see it again: {command}[/]", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
