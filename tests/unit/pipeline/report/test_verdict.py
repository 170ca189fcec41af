"""One sentence, and how loud it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.pipeline.report.values import (
    Deletions,
    Disks,
    Earlier,
    FindingCount,
    LogDir,
    Report,
    Rows,
    Stuck,
    SurveyRow,
    Violation,
)
from lethe.pipeline.report.verdict import Level, figures, verdict
from lethe.protocol.clocks import CLOCKS_DIFFER_MS

_STUCK = Stuck("orders", None, 1, 0, 5, "queued", ("waits",), (3,), "both", "lethe explain orders")
_SURVEY = SurveyRow("s1", 5, 1, None, True, (), ())
_BROKEN = Violation("acks", "error", "topic/orders", 1, "…", ())


CLEAN = "3 deletions, all done, nothing left over; 4.20 MB reclaimed"
READ = "nothing left over on the 2 of 6 log directories that were read (brokers told of the others)"
TOLD = "nothing left over as far as brokers tell of their disks"


def counted(standing: str, many: int) -> FindingCount:
    return FindingCount("s1", 5, 1, "disk", standing, "reason", many, 0)


DONE = Report(
    deletions=Deletions(total=3, done=3, freed_bytes=4_200_000),
    newest=_SURVEY,
    disks=Disks(6, 6),
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
        (Report(), Level.EMPTY, "Nothing is recorded in this lake yet."),
        (DONE, Level.GOOD, "3 deletions, all done, nothing left over; 4.20 MB reclaimed, no audit violations."),
        (
            replace(DONE, audited_days=0),
            Level.ATTENTION,
            "3 deletions, all done, nothing left over; 4.20 MB reclaimed, not audited.",
        ),
        (
            Report(
                deletions=Deletions(total=2, done=1, open=1), stuck=Rows((_STUCK,), 1), recorded_days=1, audited_days=1
            ),
            Level.ATTENTION,
            "2 deletions, 1 done, 1 stuck, not surveyed; no audit violations.",
        ),
        (
            replace(DONE, newest=None),
            Level.ATTENTION,
            "3 deletions, all done, not surveyed; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, newest=_SURVEY._replace(complete=False)),
            Level.ATTENTION,
            "3 deletions, all done, nothing left over as far as could be seen; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, deletions=Deletions(), as_of=3 * 86_400_000 + 5),
            Level.ATTENTION,
            "No deletions, nothing left over, last surveyed 3 d before; no audit violations.",
        ),
        (
            replace(DONE, disks=Disks(6, 2, UNREAD)),
            Level.ATTENTION,
            f"3 deletions, all done, {READ}; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, disks=Disks(4, 0, UNREAD)),
            Level.ATTENTION,
            f"3 deletions, all done, {TOLD}; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, disks=None),
            Level.ATTENTION,
            f"3 deletions, all done, {TOLD}; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, audited_days=12),
            Level.ATTENTION,
            f"{CLEAN}, no audit violations, 12 of 30 days audited.",
        ),
        (
            replace(DONE, audited_days=12, violations_by_rule={("error", "a"): 1}, violations=Rows((_BROKEN,), 1)),
            Level.BAD,
            f"{CLEAN}, the audit found 1 error, 12 of 30 days audited.",
        ),
        (
            replace(DONE, earlier=Earlier(Rows((), 2), {"set_aside": 2})),
            Level.ATTENTION,
            "3 deletions, all done, 2 set aside; 4.20 MB reclaimed, no audit violations.",
        ),
        (
            replace(DONE, deletions=VANISHED, newest=_SURVEY._replace(taken_at=LATER - 1)),
            Level.ATTENTION,
            f"3 deletions, 2 done, 1 vanished, nothing left over, {UNSEEN}; no audit violations.",
        ),
        (
            replace(DONE, deletions=VANISHED, newest=_SURVEY._replace(taken_at=LATER)),
            Level.GOOD,
            "3 deletions, 2 done, 1 vanished, nothing left over; no audit violations.",
        ),
        (
            Report(stuck=Rows((_STUCK,), 1), newest=_SURVEY, disks=Disks(1, 1), counts=(counted("pending", 4),)),
            Level.ATTENTION,
            "No deletions, 1 topic stuck, nothing left over; not audited.",
        ),
        (
            Report(newest=_SURVEY, counts=(counted("left_over", 2), counted("missing", 1))),
            Level.ATTENTION,
            "No deletions, 2 left over, 1 missing; not audited.",
        ),
        (
            Report(violations=Rows((_BROKEN,), 2), violations_by_rule={("error", "acks"): 1, ("warning", "b"): 1}),
            Level.BAD,
            "No deletions, not surveyed; the audit found 1 error.",
        ),
    ],
)
def test_verdicts(report: Report, level: Level, sentence: str) -> None:
    found = verdict(report)
    assert (found.level, found.sentence.replace("\u00a0", " ")) == (level, sentence)


def test_without_a_survey_nothing_is_said_to_be_clean() -> None:
    assert "left over" not in verdict(Report(deletions=Deletions(total=1, done=1))).sentence
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
    reports = (DONE, replace(DONE, disks=Disks(6, 2, UNREAD)))
    shown = [{figure.name: figure for figure in figures(report)}["Left over"].note for report in reports]
    assert shown == ["0 pending", "0 pending; 2 of 6 log directories read"]
