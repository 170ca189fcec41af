"""Notes of audits: which of them may go."""

from __future__ import annotations

from typing import Final

from lethe.pipeline.io.audit_notes import newest_notes, next_notes, superseded

HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR
NOW: Final = 100 * DAY + 12 * HOUR


def test_the_last_notes_of_each_day_stay_and_those_of_the_last_hour() -> None:
    ages = [3 * DAY, DAY + 2 * HOUR, DAY, 3 * HOUR, 2 * HOUR, HOUR // 2, 60, 0]
    names = [f"{NOW - age}.json" for age in ages]
    gone = superseded([*names, ".1.json", "other.txt"], NOW, 2 * DAY)
    assert gone == [f"{NOW - age}.json" for age in (3 * DAY, DAY + 2 * HOUR, 3 * HOUR, 2 * HOUR)]
    assert newest_notes(set(names) - set(gone), NOW - DAY) == f"{NOW - DAY}.json"


def test_a_clock_that_went_ahead_leaves_no_more_than_one() -> None:
    names = [f"{NOW + 900 * DAY}.json"]
    for _ in range(9):
        names.append(next_notes(names, NOW))
    assert superseded(names, NOW, 2 * DAY) == sorted(names)[:-1]
    assert superseded([], NOW, 2 * DAY) == []
