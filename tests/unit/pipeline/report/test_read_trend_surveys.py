"""What surveys found and no longer found: only a survey that could have seen a finding proves that it is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lethe.pipeline import tables
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.report.read_trends import read_trends
from lethe.pipeline.report.values_trends import SurveyTrend
from tests.fakes.lakes import at, day_of, write
from tests.fakes.report_lake import BEGAN_MS, MS_PER_DAY

X: dict[str, Any] = {
    "place": "disk",
    "standing": "left_over",
    "reason": "directory_without_topic",
    "what": "/d1/x-0",
    "topic": "x",
}
X |= {"broker": 1, "partition": 0}
Y = {"place": "zookeeper", "standing": "left_over", "reason": "config_without_topic", "what": "/config/y", "topic": "y"}
READ = ({"broker": 1, "log_dir": "/d1", "source": "local"},)
DESCRIBED = ({"broker": 1, "log_dir": "/d1", "source": "broker"},)
DAMAGED = ({"broker": 1, "log_dir": "/d1", "source": "local", "problem": "x-1: Permission denied"},)


class Surveys:
    """Surveys of one lake, one a day."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        self.taken = 0

    def take(
        self, *findings: dict[str, Any], complete: bool = True, moving: tuple[str, ...] = (), disks: Any = READ
    ) -> None:
        ms = BEGAN_MS + self.taken * MS_PER_DAY
        shared = {"survey_id": f"s{self.taken}", "taken_at": at(ms), "day": day_of(ms)}
        write(self.lake, tables.SURVEYS, [{**shared, "complete": complete, "in_motion": [*moving]}])
        write(self.lake, tables.AGENT_INVENTORY, [{**shared, "kind": "log-dir", **disk} for disk in disks])
        write(self.lake, tables.LEFTOVERS, [{**shared, **each} for each in findings])
        self.taken += 1

    def trends(self) -> list[tuple[int | None, int | None, int | None]]:
        found = read_trends(LakeReader(str(self.lake)), DayRange()).periods
        return [(each.surveys.found, each.surveys.gone, each.surveys.left_over) for each in found]


@pytest.fixture
def surveys(tmp_path: Path) -> Surveys:
    return Surveys(tmp_path)


def test_found_once_gone_once_and_found_again(surveys: Surveys) -> None:
    surveys.take(X, Y)
    surveys.take(X, Y)
    surveys.take(Y)
    surveys.take(X)
    surveys.take()
    assert surveys.trends() == [(2, 0, 2), (0, 0, 2), (0, 1, 1), (1, 1, 1), (0, 1, 0)]


@pytest.mark.parametrize(
    "second",
    [{"complete": False}, {"disks": DESCRIBED}, {"disks": DAMAGED}, {"moving": ("x",)}],
    ids=["incomplete", "described", "damaged", "in motion"],
)
def test_a_survey_that_could_not_see_it_proves_nothing(surveys: Surveys, second: dict[str, Any]) -> None:
    surveys.take(X)
    surveys.take(**second)
    surveys.take()
    first, unclear, last = surveys.trends()
    assert (first, last) == ((1, 0, 1), (0, 1, 0))
    assert unclear == ((0, 0, 1) if "moving" in second else (None, None, 1)), "no zero where not all was seen"


def test_what_is_in_zookeeper_is_gone_for_a_survey_that_reads_no_disk(surveys: Surveys) -> None:
    surveys.take(X, Y)
    surveys.take(disks=DESCRIBED)
    assert surveys.trends() == [(2, 0, 2), (None, 1, 1)]


def test_a_pending_finding_is_neither_found_nor_gone(surveys: Surveys) -> None:
    pending = X | {"standing": "pending", "reason": "directory_owed"}
    surveys.take(pending)
    surveys.take(X)
    surveys.take(pending)
    surveys.take()
    assert surveys.trends() == [(0, 0, 0), (1, 0, 1), (0, 0, 1), (0, 1, 0)]


def test_another_reason_for_the_same_directory_is_the_same_finding(surveys: Surveys) -> None:
    surveys.take(X)
    surveys.take(X | {"reason": "directory_of_other_incarnation"})
    assert surveys.trends() == [(1, 0, 1), (0, 0, 1)]


def test_a_day_without_a_survey_has_no_numbers(surveys: Surveys) -> None:
    surveys.take(X)
    surveys.taken += 1
    surveys.take()
    assert surveys.trends() == [(1, 0, 1), (None, None, None), (0, 1, 0)]


def test_hosts_that_survey_their_own_disks_see_everything_together(tmp_path: Path) -> None:
    ms = BEGAN_MS
    for number in (1, 2):
        shared = {"survey_id": f"h{number}", "taken_at": at(ms + number), "day": day_of(ms)}
        write(tmp_path, tables.SURVEYS, [{**shared, "complete": True}], more=True)
        disks = [{"broker": n, "log_dir": f"/d{n}", "source": "local" if n == number else "broker"} for n in (1, 2)]
        write(tmp_path, tables.AGENT_INVENTORY, [{**shared, "kind": "log-dir", **disk} for disk in disks], more=True)
        if number == 1:
            (one,) = read_trends(LakeReader(str(tmp_path)), DayRange()).periods
            assert one.surveys == SurveyTrend(1, saw_everything=False)
    (both,) = read_trends(LakeReader(str(tmp_path)), DayRange()).periods
    assert both.surveys == SurveyTrend(2, saw_everything=True, found=0, gone=0, left_over=0)


def test_a_lake_without_directories_saw_nothing_of_the_disks(tmp_path: Path) -> None:
    shared = {"survey_id": "s", "taken_at": at(BEGAN_MS), "day": day_of(BEGAN_MS)}
    write(tmp_path, tables.SURVEYS, [{**shared, "complete": True}])
    (one,) = read_trends(LakeReader(str(tmp_path)), DayRange()).periods
    assert one.surveys == SurveyTrend(1, saw_everything=False)
