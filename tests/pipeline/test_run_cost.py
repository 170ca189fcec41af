"""What kinds of runs cost Spark: jobs, scans of files and tasks, bounded, so that a cost that comes back is noticed.

A bound is what was counted when it was written. A change that needs more says so by raising it here.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, encode, time_from_text
from tests.pipeline.run_costs import Cost, CostMeter
from tests.pipeline.test_batch import JOURNAL, SURVEYS, keep_survey, phase, run

FEW: Final = 4
MANY: Final = 8
"""Days of a journal. To a run all days are alike that lie more than two before the lines that come later."""


def lines(day: int, name: str, first: int = 0) -> list[bytes]:
    """Three deletions of one day, and a broker that failed; the ids are `first` and those after it."""
    number = 1000 * day + first
    found = [
        phase(number + 10 * topic + at, f"{day:02}T10:00:{at:02}", what, f"{name}-{topic}")
        for topic in range(3)
        for at, what in enumerate(("queued", "started", "done"))
    ]
    failed = EventRecord(EventRecordType.BROKER, "broker/2", {"what": "failed"})
    at = time_from_text(f"2026-01-{day:02}T09:00:00Z")
    return [*found, encode(JournalEntry(f"a-{number + 99}", "/lethe/controller/1", at, failed))]


def put(root: Path, name: str, content: Iterable[bytes]) -> None:
    (root / JOURNAL).mkdir(parents=True, exist_ok=True)
    text = b"".join(line + b"\n" for line in content)
    (root / JOURNAL / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)


class Meter:
    """Runs over a directory, and what they cost."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._cost = spark, CostMeter(spark)

    def run(self, root: Path) -> Cost:
        assert not run(self._spark, root).refused
        return self._cost.taken()


def later_lines(root: Path, days: int) -> None:
    put(root, "later.jsonl", lines(days, "later", 500))


def copies(root: Path, days: int) -> None:
    put(root, "copies.jsonl", lines(days, "t"))


def a_survey(root: Path, days: int) -> None:
    keep_survey(root / SURVEYS, f"{days:02}T12:00:00.000")


def nothing(root: Path, days: int) -> None:
    """The look at what changes with time alone."""


COSTS: Final[dict[Callable[[Path, int], None], Cost]] = {
    later_lines: Cost(48, 97, 290),
    nothing: Cost(6, 4, 18),
    copies: Cost(14, 17, 40),
    a_survey: Cost(71, 90, 250),
}
_A_NEW_LAKE: Final = Cost(44, 76, 300)


def costs(meter: Meter, root: Path, days: int, *changes: Callable[[Path, int], None]) -> Iterator[Cost]:
    """Of a new lake of so many days, and of the runs after each of these changes; within their bounds."""
    put(root, "first.jsonl", (line for day in range(1, days + 1) for line in lines(day, "t")))
    yield _bounded(meter.run(root), _A_NEW_LAKE, "a new lake")
    for change in changes:
        change(root, days)
        yield _bounded(meter.run(root), COSTS[change], change.__name__)


def _bounded(cost: Cost, bound: Cost, what: str) -> Cost:
    assert all(found <= most for found, most in zip(cost, bound, strict=True)), (what, cost, bound)
    return cost


def test_a_run_costs_no_more_than_it_did(spark: SparkSession, tmp_path: Path) -> None:
    assert len(list(costs(Meter(spark), tmp_path, FEW, later_lines, nothing))) == 3


@pytest.mark.slow
@pytest.mark.long
def test_a_run_costs_what_is_new_and_not_what_the_lake_has(spark: SparkSession, tmp_path: Path) -> None:
    meter = Meter(spark)
    few, many = (list(costs(meter, tmp_path / str(days), days, later_lines)) for days in (FEW, MANY))
    assert [cost[:2] for cost in many] == [cost[:2] for cost in few], (few, many)


@pytest.mark.slow
@pytest.mark.long
def test_copies_and_surveys_cost_no_more_than_they_did(spark: SparkSession, tmp_path: Path) -> None:
    meter = Meter(spark)
    few, many = (list(costs(meter, tmp_path / str(days), days, copies, a_survey)) for days in (FEW, MANY))
    assert [cost[:2] for cost in many] == [cost[:2] for cost in few], (few, many)


@pytest.mark.slow
@pytest.mark.long
def test_damaged_files_are_found_in_one_pass(spark: SparkSession, tmp_path: Path) -> None:
    meter = Meter(spark)
    costs: list[Cost] = []
    for damaged in (1, 4):
        root = tmp_path / str(damaged)
        for number in range(5):
            name = f"{number}.jsonl.gz"
            put(root, name, lines(5, f"t{number}", 100 * number))
            if number < damaged:
                file = root / JOURNAL / name
                file.write_bytes(file.read_bytes()[:-20])
        costs.append(meter.run(root))
    assert costs[1][:2] == costs[0][:2], costs
