"""One sentence, and how loud it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.pipeline.report.summary import DISKS_DESCRIBED, DISKS_PARTLY_READ, ReportLevel, figures, summarize
from lethe.pipeline.report.values import (
    Deletions,
    DiskCoverage,
    EarlierFindings,
    FindingCount,
    LogDir,
    Report,
    Rows,
    StuckDeletion,
    SurveyRow,
    Violation,
)
from lethe.protocol.clocks import CLOCKS_DIFFER_MS

_STUCK = StuckDeletion("orders", 0, 5, "queued", ("waits",), (3,), "both", "lethe explain orders")
_SURVEY = SurveyRow("s1", 5, 1, None, True, (), ())
_BROKEN = Violation("acks", "error", "topic/orders", 1, "…", ())


CLEAN = "3 deletions, all done, nothing left over; 4.20 MB reclaimed"
READ = f"nothing left over{DISKS_PARTLY_READ.format(read='2 of 6 log directories')}"
TOLD = f"nothing left over{DISKS_DESCRIBED}"


def counted(standing: str, many: int) -> FindingCount:
    return FindingCount("s1", 1, "disk", standing, "reason", many, 0)


DONE = Report(
    deletions=Deletions(total=3, done=3, freed_bytes=4_200_000),
    newest=_SURVEY,
    disks=DiskCoverage(6, 6),
    recorded_days=30,
    audited_days=30,
)
VANISHED = Deletions(total=3, done=2, vanished=1, last_vanished_at=5)
UNSEEN = "not surveyed since a topic vanished"
LATER = 5 + CLOCKS_DIFFER_MS + 1
UNREAD = tuple(LogDir(broker, "/d") for broker in (1, 2, 3, 4))


@pytest.mark.parametrize(
    "report, level, sentence",
    [
        (Report(), ReportLevel.EMPTY, "Nothing is recorded in this lake yet."),
        (DONE, ReportLevel.GOOD, "3 deletions, all done, nothing left over; 4.20 MB reclaimed, no audit violations."),
        (
            replace(DONE, audited_days=0),
            ReportLevel.ATTENTION,
            "3 deletions, all done, nothing left over; 4.20 MB reclaimed, not audited.",
        ),
        (
            Report(
                deletions=Deletions(total=2, done=1, open=1), stuck=Rows((_STUCK,), 1), recorded_days=1, audited_days=1
            ),
            ReportLevel.ATTENTION,
            "2 deletions, 1 done, 1 stuck, not surveyed; no audit violations.",
        ),
        (
            replace(DONE, newest=None),
            ReportLevel.ATTENTION,
            "3 deletions, all done, not surveyed; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, newest=_SURVEY._replace(complete=False)),
            ReportLevel.ATTENTION,
            "3 deletions, all done, nothing left over as far as could be seen; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, deletions=Deletions(), as_of=3 * 86_400_000 + 5),
            ReportLevel.ATTENTION,
            "No deletions, nothing left over, last surveyed 3 d before; no audit violations.",
        ),
        (
            replace(DONE, disks=DiskCoverage(6, 2, UNREAD)),
            ReportLevel.ATTENTION,
            f"3 deletions, all done, {READ}; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, disks=DiskCoverage(4, 0, UNREAD)),
            ReportLevel.ATTENTION,
            f"3 deletions, all done, {TOLD}; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, disks=None),
            ReportLevel.ATTENTION,
            f"3 deletions, all done, {TOLD}; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, audited_days=12),
            ReportLevel.ATTENTION,
            f"{CLEAN}, no audit violations, 12 of 30 days audited.",
        ),
        (
            replace(DONE, audited_days=12, violations_by_rule={("error", "a"): 1}, violations=Rows((_BROKEN,), 1)),
            ReportLevel.BAD,
            f"{CLEAN}, the audit found 1 error, 12 of 30 days audited.",
        ),
        (
            replace(DONE, earlier=EarlierFindings(Rows((), 2), {"set_aside": 2})),
            ReportLevel.ATTENTION,
            "3 deletions, all done, 2 set aside; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, deletions=VANISHED, newest=_SURVEY._replace(taken_at=LATER - 1)),
            ReportLevel.ATTENTION,
            f"3 deletions, 2 done, 1 vanished, nothing left over, {UNSEEN}; no audit violations.",
        ),
        (
            replace(DONE, deletions=VANISHED, newest=_SURVEY._replace(taken_at=LATER)),
            ReportLevel.GOOD,
            "3 deletions, 2 done, 1 vanished, nothing left over; no audit violations.",
        ),
        (
            Report(stuck=Rows((_STUCK,), 1), newest=_SURVEY, disks=DiskCoverage(1, 1), counts=(counted("pending", 4),)),
            ReportLevel.ATTENTION,
            "No deletions, 1 topic stuck, nothing left over; not audited.",
        ),
        (
            Report(newest=_SURVEY, counts=(counted("left_over", 2), counted("missing", 1))),
            ReportLevel.ATTENTION,
            "No deletions, 2 left over, 1 missing; not audited.",
        ),
        (
            Report(violations=Rows((_BROKEN,), 2), violations_by_rule={("error", "acks"): 1, ("warning", "b"): 1}),
            ReportLevel.BAD,
            "No deletions, not surveyed; the audit found 1 error.",
        ),
    ],
)
def test_verdicts(report: Report, level: ReportLevel, sentence: str) -> None:
    found = summarize(report)
    assert (found.level, found.sentence.replace("\u00a0", " ")) == (level, sentence)


def test_without_a_survey_nothing_is_said_to_be_clean() -> None:
    assert "left over" not in summarize(Report(deletions=Deletions(total=1, done=1))).sentence
    assert {figure.name: figure.value for figure in figures(Report())}["Left over"] == "–"


def test_what_nobody_audited_is_told_from_what_is_clean() -> None:
    reports = (replace(DONE, audited_days=0), DONE, replace(DONE, audited_days=12))
    shown = [{figure.name: figure for figure in figures(report)}["Audit"] for report in reports]
    assert [(figure.value, figure.note) for figure in shown] == [
        ("–", "not audited"),
        ("0", "errors, 0 warnings"),
        ("0", "errors, 0 warnings; 12 of 30 days audited"),
    ]


def test_what_brokers_told_is_told_from_what_was_read() -> None:
    reports = (DONE, replace(DONE, disks=DiskCoverage(6, 2, UNREAD)))
    shown = [{figure.name: figure for figure in figures(report)}["Left over"].note for report in reports]
    assert shown == ["0 pending", "0 pending; 2 of 6 log directories read"]
