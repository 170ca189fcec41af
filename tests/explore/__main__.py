"""`python -m tests.explore`, `python -m tests.explore --crashes 1 --absences 1 --bug tombstone_unanswered`."""

from __future__ import annotations

import argparse
import json
import resource
import sys
from contextlib import nullcontext

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from lethe.protocol.counting import counted
from tests import explore
from tests.explore.actions import Bounds, Scene
from tests.explore.bugs import BUGS
from tests.explore.runs import LONG, SHORT, Run
from tests.explore.search import Found, Progress, Search
from tests.explore.words import told


def main(arguments: list[str] | None = None) -> int:
    """0: every state is good; 1: a problem was found; 2: a search was cut off by --max-states without one."""
    options = _parser().parse_args(arguments)
    bounds = Bounds(*(getattr(options, name) for name in Bounds._fields))
    scene = Scene(*(getattr(options, name) for name in Scene._fields))
    runs = LONG if options.long else SHORT if options.short else (Run(bounds, scene),)
    return max(_run(each, options) for each in runs)


def _run(run: Run, options: argparse.Namespace) -> int:
    """One search, and what it says."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    planted = BUGS[options.bug].bug() if options.bug else nullcontext()
    with planted, Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("exploring", total=None)

        def look(progress: Progress) -> None:
            bar.update(task, description=_progress(progress))

        search = Search(*run, max_states=options.max_states, look=look)
        found = search.run()
        lines = list(told(search.world, found.path, search.first)) if found.path else []
    if options.json:
        _write(json.dumps(_as_json(found, lines, options.bug)))
    else:
        for line in (*_told(found, search), *lines):
            _write(line)
    return 1 if found.problem is not None else 2 if found.open else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=explore.__doc__)
    helps = {
        "crashes": "controllers whose process dies",
        "expiries": "controllers that live on without their session",
        "absences": "deaths of broker 2, which always returns",
        "losses": "answers that get lost although their broker lives on",
        "haste": "timers that fire while their controller has something else to do",
    }
    for name, default in Bounds()._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{helps[name]} (default: {default})")
    kinds = {
        "owe": "deletions do not wait for absent brokers",
        "gone": "broker 2, once dead, never returns",
        "undelete": "the operator pauses deletions, requests the topic back, and resumes them",
        "kafka": "controller 1001 knows no debts, as Kafka's",
        "trash": "topic A is marked with a grace period, and requested back",
        "purge": "topic A is marked with a grace period, and its deletion from the trash is requested",
        "again": "topic A, which has come back, is marked again",
        "away": "broker 2 has died and topic A has been marked before the search begins",
    }
    for name in Scene._fields:
        parser.add_argument(f"--{name}", action="store_true", help=kinds[name])
    several = parser.add_mutually_exclusive_group()
    several.add_argument("--short", action="store_true", help="those of make test: one fault each")
    several.add_argument("--long", action="store_true", help="those of make explore: two faults besides")
    parser.add_argument("--max-states", type=int, default=5_000_000, help="stop there (default: 5000000)")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant this bug: the search should find it")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    return parser


def _progress(progress: Progress) -> str:
    return (
        f"depth {progress.depth}: {progress.states:,} states, {progress.waiting:,} of them to follow, "
        f"{progress.transitions:,} transitions"
    )


def _told(found: Found, search: Search) -> list[str]:
    bounds = ", ".join(f"{name} {value}" for name, value in found.bounds._asdict().items())
    kinds = [name for name, value in found.scene._asdict().items() if value]
    bounds += "".join(f"; {name}" for name in kinds)
    world = search.world
    size = f"{found.states:,} states, {found.transitions:,} transitions, depth {found.depth}"
    cost = f"{found.seconds:.1f} s ({found.states / found.seconds:,.0f} states/s), {_memory_mb()} MB"
    cores = f"{len(world.processes.numbers):,} of a controller's process, {len(world.processes.contexts):,} of its core"
    parts = f"states of the parts: {cores}, {len(world.zookeeper):,} of ZooKeeper, {len(world.brokers):,} of a broker"
    lines = [f"bounds: {bounds}", f"{size}, {cost}", parts]
    if found.problem is not None:
        return [*lines, f"PROBLEM after {counted(len(found.path), 'transition')}: {found.problem}"]
    ended = f"no problem; the deletion has ended in {counted(found.ended, 'state')}, to which every other leads"
    is_open = (
        f", but for {counted(found.open, 'state')} that the search has not followed to the end" if found.open else ""
    )
    return [*lines, ended + is_open]


def _as_json(found: Found, lines: list[str], bug: str | None) -> dict[str, object]:
    kept = {name: value for name, value in found._asdict().items() if name not in ("bounds", "scene", "path")}
    what = {"bounds": found.bounds._asdict(), "scene": found.scene._asdict(), "bug": bug}
    return {**what, **kept, "memory_mb": _memory_mb(), "path": lines}


def _memory_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
