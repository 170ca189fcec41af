"""Trends from Parquet: periods, exact percentiles, causes, bytes, and that an absence is never zero."""

from __future__ import annotations

import itertools
import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest

from lethe.pipeline import tables
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.report.read_trends import MOST_PERIODS, calendar, read_trends
from lethe.pipeline.report.values_trends import Period, SurveyTrend, Trends
from tests.fakes.lakes import at, day_of, write
from tests.fakes.report_lake import BEGAN_MS, MS_PER_DAY, span
from tests.fakes.weeks_lake import DAYS, NO_DELETION, NO_JOURNAL, NOTHING_DONE, write_weeks

FIRST = day_of(BEGAN_MS)
EVERY = DayRange()


def trends(lake: Path, days: DayRange = EVERY) -> tuple[Period, ...]:
    return read_trends(LakeReader(str(lake)), days).periods


def lines(*days: int) -> list[dict[str, object]]:
    return [{"day": FIRST + timedelta(n), "source": "s", "id": str(n)} for n in days]


@pytest.mark.parametrize(
    "days, width, periods",
    [(1, 1, 1), (62, 1, 62), (63, 7, 10), (62 * 7, 7, 62), (62 * 7 + 1, 28, 16), (365 * 56, 364, 57)],
)
def test_periods_are_as_short_as_their_number_allows(days: int, width: int, periods: int) -> None:
    first = date(2026, 1, 1) if width != 7 or days != 62 * 7 else date(2026, 1, 5)
    found = calendar(first, first + timedelta(days - 1))
    bounds = list(found.bounds())
    assert (found.width, len(bounds)) == (width, periods)
    assert (bounds[0][0], bounds[-1][1]) == (first, first + timedelta(days - 1))
    assert all(after[0] - before[1] == timedelta(1) for before, after in itertools.pairwise(bounds))
    assert width == 1 or all(start.weekday() == 0 for start, _ in bounds[1:])
    assert [found.place(day) for day, _ in bounds] == list(range(periods))


def test_the_longest_time_that_dates_have_is_divided_too() -> None:
    assert len(list(calendar(date.min, date.max).bounds())) <= MOST_PERIODS


def test_a_lake_without_a_day_has_no_period(tmp_path: Path) -> None:
    write(tmp_path, tables.DELETION_SPANS, [])
    assert read_trends(LakeReader(str(tmp_path)), EVERY) == Trends()


def test_percentiles_of_a_week_come_from_its_durations(tmp_path: Path) -> None:
    rows = [span(n, BEGAN_MS + n % 70 * MS_PER_DAY) | {"deleted_ms": n * n} for n in range(1400)]
    write(tmp_path, tables.DELETION_SPANS, rows)
    found = read_trends(LakeReader(str(tmp_path)), EVERY)
    assert found.days_each == 7
    whole = found.periods[1]
    took = sorted(row["deleted_ms"] for row in rows if whole.first <= row["day"] <= whole.last)
    place = 0.95 * (len(took) - 1)
    below, above = took[int(place)], took[int(place) + 1]
    assert whole.p50_ms == (took[len(took) // 2 - 1] + took[len(took) // 2]) / 2
    assert whole.p95_ms == pytest.approx(below + (above - below) * (place - int(place)))
    assert (whole.measured, whole.deletions) == (len(took), 140)


def test_waits_are_added_up_by_cause_and_one_that_lasts_is_none_of_them(tmp_path: Path) -> None:
    over = span(1, BEGAN_MS) | {"held": [{"held_by": "REASSIGNMENT", "ms": 30}, {"held_by": "PAUSED", "ms": 12}]}
    over |= {"waited_for": [{"reason": "asked", "broker": 1, "ms": 7}, {"reason": "asked", "broker": 2, "ms": 8}]}
    lasting = span(2, BEGAN_MS) | {"held": None, "outcome": "open", "deleted_ms": None}
    lasting |= {"waited_for": [{"reason": "asked", "broker": 3}, {"reason": "gone", "broker": 4}]}
    write(tmp_path, tables.DELETION_SPANS, [over, lasting])
    (found,) = trends(tmp_path)
    assert found.waits_ms == {"held: REASSIGNMENT": 30, "held: PAUSED": 12, "waited: asked": 15}
    assert found.unmeasured_waits == 1
    assert found.outcomes == {"done": 1, "open": 1}


def test_a_day_without_a_journal_a_deletion_or_a_removal_has_no_value(tmp_path: Path) -> None:
    found = trends(write_weeks(tmp_path))
    assert len(found) == DAYS
    for number in (*NO_JOURNAL, *NO_DELETION):
        period = found[number]
        assert period.days_recorded == (number not in NO_JOURNAL)
        assert (period.deletions, period.p50_ms, period.p95_ms, period.reclaimed_bytes) == (0, None, None, None)
        assert period.surveys == SurveyTrend() or period.surveys.surveys == 1
    going_on = found[NOTHING_DONE]
    assert (going_on.deletions > 0, going_on.measured, going_on.p50_ms) == (True, 0, None)
    assert going_on.unmeasured_waits == going_on.deletions


def test_debts_hold_on_until_they_change_and_only_where_a_journal_was_read(tmp_path: Path) -> None:
    found = trends(write_weeks(tmp_path))
    owed = [(each.debts, each.owed_bytes, each.unsized_debts) for each in found]
    assert owed[7] == (None, None, 0)
    assert owed[8:16] == [(2, 3_000_000_000, 0)] * 3 + [(None, None, 0)] * 2 + [(2, 3_000_000_000, 0)] * 2 + [
        (3, 3_000_000_000, 1)
    ]
    assert owed[22] == (1, None, 1)
    assert owed[27] == (0, 0, 0)
    later = trends(tmp_path, DayRange(found[10].first))
    assert later[0].debts == 2, "the last change was before the first day"


def test_the_days_that_are_asked_for(tmp_path: Path) -> None:
    whole = trends(write_weeks(tmp_path))
    some = trends(tmp_path, DayRange(whole[3].first, whole[8].first))
    assert some == whole[3:9], "what an earlier survey had is not found again"
    assert trends(tmp_path, DayRange(date(2031, 1, 1))) == ()


def test_without_bronze_the_days_of_its_tables_have_a_journal(tmp_path: Path) -> None:
    write_weeks(tmp_path)
    shutil.rmtree(tmp_path / tables.CONTROLLER_EVENTS.path)
    found = trends(tmp_path)
    assert [n for n, each in enumerate(found) if not each.days_recorded] == sorted((*NO_JOURNAL, *NO_DELETION))


def test_days_of_lines_without_deletions_are_days(tmp_path: Path) -> None:
    write(tmp_path, tables.CONTROLLER_EVENTS, lines(0, 1, 3))
    assert [each.days_recorded for each in trends(tmp_path)] == [1, 1, 0, 1]


def test_a_survey_of_the_future_makes_no_period(tmp_path: Path) -> None:
    write(tmp_path, tables.CONTROLLER_EVENTS, lines(0, 1))
    ahead = BEGAN_MS + 900 * MS_PER_DAY
    survey = {"survey_id": "s", "taken_at": at(ahead), "day": day_of(ahead), "_ingested_at": at(BEGAN_MS)}
    write(tmp_path, tables.SURVEYS, [survey])
    assert len(trends(tmp_path)) == 2
