"""The seed by which each planted bug is found, and the rule that it breaks: known_seeds.json, which `make known-seeds`
brings up to date.

    "marker_first": {"seed": 1, "rule": "S4"}       the first word of the violation
    "a_bug": {"seed": 7, "rule": "fault: KeyError"}  the cores fail in this way, which is what the bug is to cause

The same seed without the bug has to be clean. A fault of the bug itself finds nothing: where a function has changed
since, the bug that replaces it raises `TypeError` or `AttributeError`. A seed whose violation is a fault is taken only
where the file names that fault already.

A change of the cores or of the simulator gives every seed another course, so a known seed may find its bug no more. The
tests then search on, which takes minutes for all bugs; this file spares them that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.simulation.planted import BUGS
from tests.simulation.runner import simulate

FILE: Final = Path(__file__).parent / "known_seeds.json"
FAULT: Final = "fault"


class Finding(NamedTuple):
    """A seed, and the first word of the violation that it shows; of a fault also the error's name."""

    seed: int
    rule: str


def known_seeds() -> Mapping[str, Finding]:
    """Bug → finding; a bug without an entry has not been searched for yet."""
    return {bug: Finding(each["seed"], each["rule"]) for bug, each in json.loads(FILE.read_text()).items()}


def broken_rule(violation: str) -> str:
    """Return "S4" of "S4: the marker of …", and "fault: KeyError" of "fault: KeyError: 't0'"."""
    first, _, rest = violation.partition(": ")
    return f"{first}: {rest.partition(':')[0]}" if first == FAULT else first


def finding(bug: str, seed: int, expected: str | None) -> Finding | None:
    """Return what the seed shows of the bug; None: nothing, a fault that is not expected, or the bug is not needed."""
    violation = simulate(seed, planted=BUGS[bug]()).violation
    rule = None if violation is None else broken_rule(violation)
    if rule is None or (rule.startswith(FAULT) and rule != expected):
        return None
    return None if simulate(seed).violation is not None else Finding(seed, rule)


def first_found(bug: str, known: Finding | None, seeds: Iterable[int]) -> Finding | None:
    """The known seed where it still finds the bug, else the first other one that does; None: none of them."""
    seed, expected = (None, None) if known is None else known
    order = [*([] if seed is None else [seed]), *(each for each in seeds if each != seed)]
    return next((found for each in order if (found := finding(bug, each, expected)) is not None), None)


def search_all(seeds: list[int], jobs: int) -> Iterator[tuple[str, Finding | None]]:
    """Every bug with what finds it, in the order of `BUGS`."""
    known = known_seeds()
    with ProcessPoolExecutor(jobs) as pool:
        tasks = {bug: pool.submit(first_found, bug, known.get(bug), seeds) for bug in BUGS}
        for bug, task in tasks.items():
            yield bug, task.result()


def keep(found: Mapping[str, Finding | None]) -> None:
    """Write what finds each bug; bugs that were not found keep nothing, so that their test searches."""
    rows = {bug: each._asdict() for bug, each in found.items() if each is not None}
    FILE.write_text(json.dumps(rows, indent=2) + "\n")
