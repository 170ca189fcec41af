"""The seed by which each planted bug is found first: known_seeds.json, which `make known-seeds` brings up to date.

A change of the cores or of the simulator gives every seed another course, so a known seed may find its bug no more. The
tests then search on, which takes minutes for all bugs; this file spares them that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from tests.simulation.planted import BUGS
from tests.simulation.runner import simulate

FILE: Final = Path(__file__).parent / "known_seeds.json"


def known_seeds() -> Mapping[str, int]:
    """Bug → seed; a bug without an entry has not been searched for yet."""
    found: Mapping[str, int] = json.loads(FILE.read_text())
    return found


def first_found(bug: str, known: int | None, seeds: Iterable[int]) -> int | None:
    """The known seed where it still finds the bug, else the first other one that does; None: none of them."""
    order = [*([] if known is None else [known]), *(seed for seed in seeds if seed != known)]
    return next((seed for seed in order if simulate(seed, planted=BUGS[bug]()).violation is not None), None)


def search_all(seeds: list[int], jobs: int) -> Iterator[tuple[str, int | None]]:
    """Every bug with the seed that finds it, in the order of `BUGS`."""
    known = known_seeds()
    with ProcessPoolExecutor(jobs) as pool:
        tasks = {bug: pool.submit(first_found, bug, known.get(bug), seeds) for bug in BUGS}
        for bug, task in tasks.items():
            yield bug, task.result()


def keep(found: Mapping[str, int | None]) -> None:
    """Write the seeds of those that were found; the others keep none, so that their test searches."""
    FILE.write_text(json.dumps({bug: seed for bug, seed in found.items() if seed is not None}, indent=2) + "\n")
