"""One survey per broker host: the newest of all has looked into one host's disks alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from lethe.pipeline import tables
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.report.page import page
from lethe.pipeline.report.read import read_report
from lethe.pipeline.report.read_surveys import ROUND_MS
from lethe.pipeline.report.sections_findings import NEWEST_OF_ALL, NO_DIRECTORIES
from lethe.pipeline.report.summary import ReportLevel, summarize
from lethe.pipeline.report.values import DiskCoverage, LogDir, Report
from lethe.protocol.clocks import CLOCKS_DIFFER_MS
from lethe.protocol.findings import Reason
from tests.fakes.lakes import at, day_of, write

NEWEST_MS: Final = 1_795_286_668_000
STRAY: Final = "/d/x-0.abc-stray"


class Surveys:
    """A lake with surveys of a cluster of two hosts: broker 1's disk is /d there, broker 2's is /d here."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self.ingested_ms: int | None = None
        self._rows: dict[Any, list[dict[str, Any]]] = {}

    def survey(
        self,
        name: str,
        ago_ms: int,
        read: dict[int, str],
        problems: list[str] | None = None,
        unreadable: str | None = None,
        **topics: str,
    ) -> Surveys:
        """`read`: the disks that it looked into, by broker; brokers reported the others."""
        seen = {"survey_id": name, "taken_at": at(NEWEST_MS - ago_ms), "day": day_of(NEWEST_MS - ago_ms)}
        ingested = {"_ingested_at": None if self.ingested_ms is None else at(self.ingested_ms)}
        self._add(
            tables.SURVEYS,
            {**seen, **ingested, "took_ms": 5, "complete": not problems, "in_motion": [], "cluster_id": "c"}
            | {"problems": [{"where": where, "what": "NO_AUTH"} for where in problems or []]},
        )
        for broker in (1, 2):
            seen_by = {"source": "local", "problem": unreadable} if broker in read else {"source": "broker"}
            self._add(
                tables.AGENT_INVENTORY,
                {**seen, **seen_by, "broker": broker, "log_dir": read.get(broker, "/d"), "kind": "log-dir"},
            )
        for topic, topic_id in topics.items():
            self._add(tables.ZNODE_SNAPSHOT, {**seen, "kind": "topic", "topic": topic, "topic_id": topic_id})
        self._seen = seen
        return self

    def found(self, reason: Reason, what: str, topic: str, broker: int, detail: str | None = None) -> Surveys:
        """By the survey that was added last."""
        self._add(
            tables.LEFTOVERS,
            {**self._seen, "place": "disk", "standing": reason.standing.code, "reason": reason.code, "what": what}
            | {"topic": topic, "broker": broker, "partition": 0, "size_bytes": 5, "detail": detail},
        )
        return self

    def report(self, days: DayRange | None = None) -> Report:
        (self._lake / "lake.json").write_text('{"version":1,"cluster_id":"c"}')
        for table, rows in self._rows.items():
            write(self._lake, table, rows)
        return read_report(str(self._lake), days=days)

    def _add(self, table: Any, row: dict[str, Any]) -> None:
        self._rows.setdefault(table, []).append(row)


@pytest.fixture
def surveys(tmp_path: Path) -> Surveys:
    return Surveys(tmp_path)


def earlier(report: Report) -> list[tuple[str | None, int | None]]:
    assert report.earlier.findings.total == len(report.earlier.findings.shown)
    assert sum(report.earlier.by_standing.values()) == report.earlier.findings.total
    return [(found.what, found.broker) for found in report.earlier.findings.shown]


def test_what_another_hosts_survey_saw_a_minute_before_is_not_forgotten(surveys: Surveys) -> None:
    surveys.survey("host-2", 60_000, {2: "/d"}).found(Reason.STRAY_DIRECTORY, STRAY, "x", 2)
    report = surveys.survey("host-1", 0, {1: "/d"}).report()
    assert report.findings.total == 0
    assert earlier(report) == [(STRAY, 2)]
    said = summarize(report)
    assert (said.level, "1 set aside" in said.sentence) == (ReportLevel.ATTENTION, True)
    assert STRAY in page(report)


def test_the_newest_that_read_a_directory_itself_has_the_last_word(surveys: Surveys) -> None:
    surveys.survey("a", 120_000, {2: "/d"}).found(Reason.STRAY_DIRECTORY, STRAY, "x", 2)
    surveys.survey("b", 60_000, {2: "/d"})
    assert earlier(surveys.survey("c", 0, {1: "/d"}).report()) == []


def test_only_of_the_same_round(surveys: Surveys) -> None:
    surveys.survey("a", ROUND_MS + 1, {2: "/d"}).found(Reason.STRAY_DIRECTORY, STRAY, "x", 2)
    assert earlier(surveys.survey("b", 0, {1: "/d"}).report()) == []


def test_what_the_newest_finds_too_is_told_once(surveys: Surveys) -> None:
    surveys.survey("a", 60_000, {2: "/d"}).found(Reason.DIRECTORY_WITHOUT_TOPIC, "/d/x-0", "x", 2)
    surveys.survey("b", 0, {1: "/d"}).found(Reason.DIRECTORY_WITHOUT_TOPIC, "/d/x-0", "x", 2)
    report = surveys.report()
    assert (report.findings.total, earlier(report)) == (1, [])


def test_a_topic_that_lives_by_now_is_not_called_left_over(surveys: Surveys) -> None:
    surveys.survey("a", 60_000, {2: "/d"}, orders="id-1", back="id-2")
    surveys.found(Reason.DIRECTORY_WITHOUT_TOPIC, "/d/young-0", "young", 2)
    surveys.found(Reason.DIRECTORY_WITHOUT_TOPIC, "/d/gone-0", "gone", 2)
    surveys.found(Reason.DIRECTORY_NOT_ASSIGNED, "/d/orders-1", "orders", 2)
    surveys.found(Reason.DIRECTORY_OF_OTHER_INCARNATION, "/d/orders-0", "orders", 2, "its id is x, the topic's is id-1")
    surveys.found(Reason.DIRECTORY_OF_OTHER_INCARNATION, "/d/back-0", "back", 2, "its id is x, the topic's is id-2")
    report = surveys.survey("b", 0, {1: "/d"}, orders="id-1", back="id-3", young="id-4").report()
    assert earlier(report) == [("/d/gone-0", 2), ("/d/orders-0", 2)]
    assert "mv --" not in page(report)


def test_a_survey_that_does_not_know_the_topics_vouches_for_nothing(surveys: Surveys) -> None:
    surveys.survey("a", 60_000, {2: "/d"}).found(Reason.DIRECTORY_WITHOUT_TOPIC, "/d/x-0", "x", 2)
    surveys.found(Reason.STRAY_DIRECTORY, STRAY, "x", 2)
    assert earlier(surveys.survey("b", 0, {1: "/d"}, ["/brokers/topics"]).report()) == [(STRAY, 2)]


def test_whichever_days_are_asked_for_the_newest_survey_says_what_is_left_over(surveys: Surveys) -> None:
    # A month ago a directory of `gone` was left over; today the topic lives again.
    month_ms = 30 * 86_400_000
    surveys.survey("then", month_ms, {1: "/d"}).found(Reason.DIRECTORY_WITHOUT_TOPIC, "/d/gone-0", "gone", 1)
    surveys.survey("near", 60_000, {2: "/d"}, gone="id-2").found(Reason.STRAY_DIRECTORY, STRAY, "x", 2)
    surveys.survey("now", 0, {1: "/d"}, gone="id-2")
    then = day_of(NEWEST_MS - month_ms)
    report = surveys.report(DayRange(then, then))
    assert [row.survey_id for row in report.surveys.shown] == ["then"]
    assert (report.newest and report.newest.survey_id, report.findings.total) == ("now", 0)
    assert (earlier(report), report.as_of) == ([(STRAY, 2)], NEWEST_MS)
    said = page(report)
    assert ("mv --" in said, "/d/gone-0" in said, NEWEST_OF_ALL in said) == (False, False, True)
    assert "1 set aside" in summarize(report).sentence


def test_a_survey_of_the_future_is_named_and_hides_nothing(surveys: Surveys) -> None:
    surveys.ingested_ms = NEWEST_MS
    surveys.survey("skewed", -CLOCKS_DIFFER_MS, {1: "/d"}).found(Reason.STRAY_DIRECTORY, STRAY, "x", 1)
    surveys.survey("future", -CLOCKS_DIFFER_MS - 1, {1: "/d"})
    report = surveys.report()
    assert (report.newest and report.newest.survey_id, report.findings.total) == ("skewed", 1)
    assert ([row.survey_id for row in report.surveys.shown], report.as_of) == (["skewed"], NEWEST_MS + CLOCKS_DIFFER_MS)
    assert "survey future, taken at" in page(report)


def test_every_disk_counts_as_read_where_each_host_has_read_its_own(surveys: Surveys) -> None:
    surveys.survey("host-2", 60_000, {2: "/d"})
    report = surveys.survey("host-1", 0, {1: "/d"}).report()
    assert report.disks == DiskCoverage(2, 2)
    assert "nothing left over;" in summarize(report).sentence
    assert "on each broker host" not in page(report)


@pytest.mark.parametrize("ago_ms, unreadable", [(ROUND_MS + 1, None), (60_000, "x-0: Permission denied")])
def test_a_disk_that_nobody_has_read_of_late_or_whole_is_its_brokers_word(
    surveys: Surveys, ago_ms: int, unreadable: str | None
) -> None:
    surveys.survey("host-2", ago_ms, {2: "/d"}, unreadable=unreadable)
    report = surveys.survey("host-1", 0, {1: "/d"}).report()
    assert report.disks == DiskCoverage(2, 1, (LogDir(2, "/d"),))
    assert "nothing left over on the 1 of 2 log directories that were read" in summarize(report).sentence
    assert "<li>broker 2, /d</li>" in page(report)


def test_an_older_look_does_not_make_up_for_a_newer_one_that_failed(surveys: Surveys) -> None:
    surveys.survey("a", 120_000, {2: "/d"}).survey("b", 60_000, {2: "/d"}, unreadable="x-0: Permission denied")
    assert surveys.survey("c", 0, {1: "/d"}).report().disks == DiskCoverage(2, 1, (LogDir(2, "/d"),))


def test_a_lake_without_the_table_of_directories_does_not_say_what_was_read(surveys: Surveys, tmp_path: Path) -> None:
    surveys.survey("host-1", 0, {1: "/d", 2: "/d"}).report()
    shutil.rmtree(tmp_path / tables.AGENT_INVENTORY.path)
    report = read_report(str(tmp_path))
    assert (report.disks, summarize(report).level) == (None, ReportLevel.ATTENTION)
    assert NO_DIRECTORIES in page(report)


def test_nothing_but_a_survey_of_the_future_is_as_good_as_none(surveys: Surveys) -> None:
    surveys.ingested_ms = NEWEST_MS
    report = surveys.survey("future", -86_400_000, {1: "/d"}).report()
    assert (report.newest, "not surveyed" in summarize(report).sentence) == (None, True)
    assert "survey future, taken at" in page(report)
