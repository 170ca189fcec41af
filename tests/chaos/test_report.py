"""Schedules, figures and the exit of a run, without a cluster."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lethe.cluster.daemons import BrokerDaemon, ControllerDaemon
from tests.chaos.__main__ import main
from tests.chaos.checker import RESIDUE, UNSEEN, Finding
from tests.chaos.control import Failover, unavailability
from tests.chaos.exercised import EXERCISES
from tests.chaos.report import AGAIN, GROWING, Report, demanded_kinds
from tests.chaos.schedule import EVERY_KIND_MINUTES, WEIGHTS, Harm, Target, draw, label
from tests.chaos.vitals import LEAST_S, Growth, Life, Sample, growths, look, unmeasured

LEFT = Finding(RESIDUE, "disks", "what was found")


def test_a_seed_draws_the_same_schedule_and_a_longer_run_begins_with_it() -> None:
    short, long = draw(7, 600), draw(7, 6_000)
    assert short == draw(7, 600)
    assert long[: len(short)] == short
    assert short != draw(8, 600)[: len(short)]
    assert {(each.target, each.harm) for each in long} == set(WEIGHTS)
    assert all(before.at_s <= after.at_s < 6_000 for before, after in itertools.pairwise(long))


def failover(seconds: float, others: int = 0) -> Failover:
    return Failover("SIGKILL of controller 1001", 1.0, seconds, 2, 1002, others)


def test_unavailability_is_the_median_and_the_worst() -> None:
    found = unavailability([failover(seconds) for seconds in (1.0, 2.0)] + [failover(9.0, 1)])
    assert (found.failovers, found.median_s, found.worst_s, found.worst_alone_s) == (3, 2.0, 9.0, 2.0)
    assert unavailability([]).median_s is None


def test_growth_is_that_of_the_longest_life_after_its_warm_up() -> None:
    young = Life("broker 1", 1, 0.0)
    short = Life("broker 1", 2, 0.0, Sample(10, 5, 1), Sample(90, 5, 1), seconds=90)
    long = Life("broker 1", 3, 0.0, Sample(100, 5, 1), Sample(160, 4, 3), seconds=160)
    (found,) = growths([young, short, long])
    assert (found.seconds, found.last, found.more) == (160, Sample(160, 4, 3), Sample(60, -1, 2))


def test_the_growth_of_a_short_life_is_unseen() -> None:
    short = Life("broker 1", 2, 0.0, Sample(10, 5, 1), Sample(10, 5, 1), seconds=22)
    assert growths([short]) == []
    text = Report(7, 10, "3.9.1", growth_unseen=unmeasured([short])).as_text()
    assert "unseen, since no life had 80 s: broker 1" in text


FEW = Sample(4096, 1, 1)
SEED_60 = (
    Growth("broker 1", 1818.2, Sample(75710464, 27, 10), Sample(7340032, 0, 0)),
    Growth("broker 2", 326.4, Sample(69787648, 28, 10), Sample(1392640, -1, 0)),
    Growth("broker 3", 342.4, Sample(70131712, 27, 10), Sample(2072576, 0, 0)),
    Growth("broker 4", 262.3, Sample(69894144, 28, 10), Sample(1576960, 1, 0)),
    Growth("broker 5", 144.4, Sample(69210112, 27, 10), Sample(1171456, 0, 0)),
    Growth("controller 1001", 386.4, Sample(81747968, 31, 8), Sample(7233536, 10, 1)),
    Growth("controller 1002", 146.2, Sample(77099008, 30, 8), Sample(1114112, 9, 0)),
    Growth("controller 1003", 168.2, Sample(78323712, 27, 8), Sample(2461696, -2, 0)),
)
"""Of a run of 30 minutes with 3,892 created topics, on 2026-11-27."""


def grown(*processes: Growth) -> list[str]:
    """Return what a run of 30 minutes with 3,892 topics has against this growth."""
    report = Report(60, 30, "3.9.1", topics={"created": 3892}, growth=list(processes))
    report.judge()
    return [each for each in report.violations if "grew" in each]


def test_the_growth_that_was_seen_so_far_is_within_the_limits() -> None:
    assert grown(*SEED_60) == []


@pytest.mark.parametrize(
    "more, problem",
    [
        (Sample(30 << 20, 0, 0), "grew by 31,457,280 bytes of memory in 386 s with about 835 created topics"),
        (Sample(0, 51, 0), "grew by 51 descriptors"),
        (Sample(0, 0, 21), "grew by 21 threads"),
    ],
)
def test_growth_above_a_limit_fails_a_run(more: Sample, problem: str) -> None:
    last = Sample(100 << 20, 90, 30)
    (violation,) = grown(*SEED_60, Growth("controller 1001", 386.4, last, more))
    assert violation.startswith(f"controller 1001 {problem}")


def test_a_longer_life_may_grow_more() -> None:
    """30 MiB are too many in 386 s with 835 topics, and not in the whole run with 3,892."""
    assert grown(Growth("controller 1001", 1818.2, FEW, Sample(30 << 20, 0, 0))) == []


def test_growth_is_demanded_only_where_the_schedule_leaves_a_life_that_is_long_enough() -> None:
    assert set(GROWING) == {ControllerDaemon.kind, BrokerDaemon.kind}
    seconds = EVERY_KIND_MINUTES * 60
    for seed in range(200):
        kills = [
            each.at_s for each in draw(seed, seconds) if (each.target, each.harm) == (Target.CONTROLLERS, Harm.KILL)
        ]
        lives = [after - before for before, after in itertools.pairwise([0.0, *kills, seconds])]
        assert max(lives) > LEAST_S + 20, seed


def test_a_look_at_this_process() -> None:
    seen = look(os.getpid())
    assert seen is not None
    assert min(seen.rss_bytes >> 20, seen.descriptors, seen.threads) > 0
    assert look(2**22 + 1) is None


@pytest.mark.parametrize("harm", [{"violations": ["what was found"]}, {"findings": [LEFT]}])
def test_a_run_passes_only_without_violation_and_finding(harm: Mapping[str, Any]) -> None:
    report = Report(7, 10, "3.9.1", "0123456-dirty")
    assert report.passed
    assert "Lethe 0123456-dirty" in report.as_text()
    assert "PASSED" in report.as_text()
    failed = replace(report, **harm)
    assert "what was found" in failed.as_text()
    assert "FAILED" in failed.as_text()
    assert json.loads(failed.as_json())["passed"] is False
    assert failed.residue == {"zookeeper": 0, "caches": 0, "disks": len(failed.findings)}


def test_a_run_that_did_nothing_is_told_apart() -> None:
    report = Report(
        7, 1, "3.9.1", faults={"SIGKILL an agent": 1}, topics={"created": 3, "deleted": 0}, records=1, scans=1
    )
    assert report.untried() == ["topic deleted"]
    assert len(Report(7, 1, "3.9.1").untried()) == 5


DONE: Mapping[str, Any] = {
    "faults": {"SIGKILL an agent": 1},
    "topics": {"created": 3, "deleted": 1},
    "records": 1,
    "scans": 1,
}
"""What the silence of a run of a minute needs."""


def test_a_run_that_did_what_it_must_has_no_violation() -> None:
    report = Report(7, 1, "3.9.1", **DONE)
    report.judge()
    assert report.passed


WORK = {"created": 3, "deleted": 2, AGAIN: 1, "expansions": 1, "partitions moved": 1}


@pytest.mark.parametrize("lacking", [*WORK, *EXERCISES, *GROWING, "failover", "SIGSTOP an agent"])
def test_each_kind_of_work_and_of_fault_counts(lacking: str) -> None:
    report = Report(
        7,
        10,
        "3.9.1",
        faults={"SIGKILL an agent": 9, "SIGSTOP an agent": int(lacking != "SIGSTOP an agent")},
        demanded=("SIGKILL an agent", "SIGSTOP an agent"),
        topics={**WORK, **({lacking: 0} if lacking in WORK else {})},
        exercised={what: int(what != lacking) for what in EXERCISES},
        growth=[Growth(f"{kind} 1", 90, FEW, FEW) for kind in GROWING if kind != lacking],
        failovers=[] if lacking == "failover" else [failover(1.0)],
        records=1,
        scans=1,
    )
    assert len(report.untried()) == 1


def test_a_run_of_six_minutes_has_each_kind_of_fault_and_must_perform_it() -> None:
    every = {label(*kind) for kind in WEIGHTS}
    for seed in range(200):
        assert {each.label for each in draw(seed, EVERY_KIND_MINUTES * 60)} == every
    schedule = draw(0, EVERY_KIND_MINUTES * 60)
    assert set(demanded_kinds(schedule, EVERY_KIND_MINUTES, has_disk=True)) == every
    assert set(demanded_kinds(schedule, EVERY_KIND_MINUTES, has_disk=False)) == every - {"fill an agent's small disk"}
    short = draw(7, 60)
    demanded = demanded_kinds(short, 1, has_disk=True)
    assert all([each.label for each in short].count(kind) >= 2 for kind in demanded)


def test_a_place_that_was_not_seen_has_no_residue_of_zero() -> None:
    findings = [Finding(UNSEEN, "caches", "broker 6 does not answer"), Finding(UNSEEN, "disks", "?"), LEFT]
    report = Report(7, 10, "3.9.1", findings=findings)
    assert report.residue == {"zookeeper": 0, "caches": None, "disks": 1}
    assert "zookeeper 0, caches unseen, disks 1" in report.as_text()
    assert json.loads(report.as_json())["residue"]["caches"] is None


def test_a_pass_names_what_was_left_out_and_a_failover_without_an_end() -> None:
    assert "residue 0, but for what is left out" in Report(7, 10, "3.9.1", left_out=["full disks: no root"]).as_text()
    text = Report(7, 10, "3.9.1", unended=["SIGKILL of controller 1 at 9 s"]).as_text()
    assert "no failover was seen to end: 1" in text
    assert "SIGKILL of controller 1 at 9 s" in text


@pytest.mark.parametrize(
    "problem", [{"failed_starts": ["broker 2 is not ready"]}, {"unended": ["SIGKILL of controller 1 at 9 s"]}]
)
def test_a_failed_start_and_control_that_stays_away_fail_a_run(problem: Mapping[str, Any]) -> None:
    report = Report(7, 1, "3.9.1", **DONE, **problem)
    report.judge()
    (violation,) = report.violations
    assert violation.endswith(next(iter(problem.values()))[0])
    assert not report.passed


def test_a_version_that_is_none_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--kafka", "9.9"])
    assert end.value.code == 2
    assert "give all three numbers" in capsys.readouterr().err
