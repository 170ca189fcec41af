"""The section with the trends: every absence is drawn and said, none as zero."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lethe.pipeline import tables
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.report.page import page
from lethe.pipeline.report.read import read_report
from lethe.pipeline.report.sections_trends import trends
from lethe.pipeline.report.trend_charts import panels
from lethe.pipeline.report.values import Report
from lethe.pipeline.report.values_trends import Period, SurveyTrend, Trends
from tests.fakes.lakes import day_of, write
from tests.fakes.report_lake import BEGAN_MS, span
from tests.fakes.weeks_lake import NO_DELETION, NO_JOURNAL, write_weeks

FIRST = day_of(BEGAN_MS)
QUIET = Period(FIRST, FIRST, days_recorded=1)


def section(*periods: Period) -> str:
    """The section about one period a day."""
    days = [replace(each, first=FIRST + timedelta(n), last=FIRST + timedelta(n)) for n, each in enumerate(periods)]
    return str(trends(Report(trends=Trends(tuple(days)))).markup())


def panel(text: str, title: str) -> str:
    """The part of the section about one chart."""
    return next(part for part in text.split('class="trend"')[1:] if f"<h3>{title}<" in part).partition("<details")[0]


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> str:
    report = read_report(str(write_weeks(tmp_path_factory.mktemp("weeks"))))
    return str(trends(report).markup())


def test_one_day_has_no_trend_and_the_section_says_so(tmp_path: Path) -> None:
    write(tmp_path, tables.DELETION_SPANS, [span(1, BEGAN_MS)])
    text = page(read_report(str(tmp_path)))
    (said,) = re.findall(r'id="trends".*?<p class="calm">(.*?)</p>', text)
    assert said == "No trends yet: the lake has one day with data, 2026-11-21."
    some = read_report(str(tmp_path), days=DayRange(last=FIRST))
    assert "these days have one day with data" in trends(some).markup()
    assert "No trends yet: the lake has no day with data." in trends(Report()).markup()


def test_what_is_absent_is_said_in_words(weeks: str) -> None:
    (gaps,) = re.findall(r'<div class="unseen">(.*?)</div>', weeks)
    assert re.findall(r"<li>(.*?)</li>", gaps) == [
        "no journal of 2 of 35 days was read",
        "no deletion was marked on 4 days with a journal",
        "no survey was taken on 20 of 35 days",
        "the surveys of 2 days did not see every disk or place; more may be left over",
    ]


@pytest.mark.parametrize("title", ["Time to delete", "Causes of waiting", "Deletions", "Bytes reclaimed"])
def test_days_without_a_value_have_a_ground_and_no_mark(weeks: str, title: str) -> None:
    drawn = panel(weeks, title)
    for number in (*NO_JOURNAL, *NO_DELETION):
        day = FIRST + timedelta(number)
        told = re.findall(rf'class="([^"]*)"><title>{day}: ([^<]*)</title>', drawn)
        unseen = number in NO_JOURNAL
        assert [(class_, why == "no journal") for class_, why in told] == [
            ("t-unseen" if unseen else "t-nothing", unseen)
        ]


def test_deletions_that_go_on_have_no_duration(weeks: str) -> None:
    assert re.search(r'class="t-nothing"><title>2026-12-25: no deletion is done yet \(\d+ marked\)<', weeks)
    assert re.search(r'class="t-p50 t-hollow"><title>2026-12-21: median ', weeks)
    assert "Some still open: may rise" in weeks


def test_surveys_that_did_not_see_everything_are_told_apart(weeks: str) -> None:
    drawn = panel(weeks, "Leftovers found and gone")
    assert 'class="t-unseen"><title>2026-11-30: not every disk or place was seen</title>' in drawn
    assert 'class="t-unseen"><title>2026-11-22: no survey</title>' in drawn
    assert ": 0 found" not in drawn
    assert ": 0 gone" not in drawn
    assert weeks.count("not all seen") == 2


def test_a_chart_without_any_value_is_words() -> None:
    text = section(QUIET, QUIET)
    assert "<svg" not in text.replace('<svg width="0"', "")
    for said in (
        "No deletion of these days is done.",
        "No deletions.",
        "No removal was reported on these days.",
        "No debt was recorded on these days, or before.",
        "No survey was taken on these days: what is left over is unseen.",
    ):
        assert said in text


def test_a_zero_that_was_seen_is_one() -> None:
    seen = replace(QUIET, reclaimed_bytes=0, debts=0, owed_bytes=0)
    seen = replace(seen, surveys=SurveyTrend(1, saw_everything=True, found=0, gone=0, left_over=0))
    for each in panels([replace(seen, last=FIRST), replace(seen, first=FIRST + timedelta(1))])[3:]:
        assert each.chart is not None
        assert "t-unseen" not in each.chart
        assert "t-nothing" not in each.chart


def test_debts_of_unknown_size_are_not_drawn_as_none() -> None:
    unknown = replace(QUIET, debts=2, owed_bytes=None, unsized_debts=2)
    partly = replace(QUIET, debts=2, owed_bytes=500, unsized_debts=1)
    text = section(unknown, partly)
    drawn = panel(text, "Bytes owed")
    assert 'class="t-unseen"><title>2026-11-21: debts of unknown size (2)</title>' in drawn
    assert 'class="t-still"><title>2026-11-22: at least: 1 debt of unknown size</title>' in drawn
    assert "2 debts of unknown size" in text
    assert "at least 500" in text


def test_causes_beyond_five_are_one_and_a_wait_that_lasts_is_marked() -> None:
    causes = {f"waited: cause {number}": 1000 * number for number in range(1, 9)}
    text = section(replace(QUIET, deletions=3, waits_ms=causes, unmeasured_waits=1), QUIET)
    drawn = panel(text, "Causes of waiting")
    assert "6.00\u00a0s other causes" in drawn
    assert "waited: cause 4" in drawn
    assert "waited: cause 3" not in drawn
    assert "2026-11-21: 1 deletion with a wait of unknown length" in drawn
    assert "at least 36.0\u00a0s" in text


def test_hostile_causes_stay_text() -> None:
    cause = "</svg><script>alert(1)</script>"
    assert "<script" not in section(replace(QUIET, deletions=1, waits_ms={cause: 5}), QUIET)


def test_the_largest_trend_is_small(tmp_path: Path) -> None:
    report = read_report(str(write_weeks(tmp_path, 62, 2)))
    assert len(report.trends.periods) == 62
    assert len(str(trends(report).markup()).encode()) < 250_000
