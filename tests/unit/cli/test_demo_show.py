"""What the demo says at the end, and while it runs where nobody sits at a terminal."""

from __future__ import annotations

import dataclasses

import orjson
import pytest

from lethe.admin.refusal import Exit
from lethe.cli.demo_show import answer, watching
from lethe.cluster.demo_plan import DemoOptions
from lethe.cluster.demo_result import BrokerTotals, DemoResult, phase_times
from lethe.cluster.demo_totals import ClusterChange
from lethe.cluster.demo_waits import WaitLog
from lethe.cluster.demo_watch import ProgressBar
from lethe.protocol.findings import Place, Reason
from lethe.protocol.vocabulary import BrokerId
from lethe.survey.leftovers import Leftover
from lethe.survey.views import Problem, Survey, ZooKeeperTree

SEEN = Survey(0, 1, ZooKeeperTree())
CLEAN = DemoResult(
    DemoOptions(topics=2, partitions=3, replication_factor=2),
    started_s=1.0,
    created_s=2.0,
    deleted_s=3.0,
    reclaimed_s=4.0,
    phases=(phase_times("removed", "znodes gone", [1_100, 1_300, 1_900], 1_000),),
    brokers=(BrokerTotals(1, 6, 5_000_000, 6, 5_000_000, 12, 0), BrokerTotals(2, 6, 5_000_000, 6, 5_000_000, 12, 100)),
    survey=SEEN,
    findings=(),
)
GHOST = Leftover(Place.DISK, Reason.DIRECTORY_WITHOUT_TOPIC, "/d/ghost-0", "ghost", BrokerId(2), 0, 10)


def test_a_clean_demo_says_so_and_exits_with_0() -> None:
    shown = answer(CLEAN)
    assert (shown.exit, shown.lines[0][:6]) == (Exit.OK, "Clean:")
    assert isinstance(shown.data, dict)
    assert (shown.data["clean"], shown.data["replicas"], shown.data["bytes_reclaimed"]) == (True, 12, 9_999_900)
    assert "chaos" not in shown.data
    assert orjson.loads(orjson.dumps(shown.data)) == shown.data


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"findings": (GHOST,)}, "1 finding"),
        ({"limit_passed": "not within 5 s"}, "not within 5 s"),
        (
            {"survey": dataclasses.replace(SEEN, zookeeper=ZooKeeperTree(problems=(Problem("broker 1", "silent"),)))},
            "1 place could not be seen",
        ),
    ],
)
def test_anything_else_exits_with_1_and_says_why(changes: dict[str, object], said: str) -> None:
    shown = answer(dataclasses.replace(CLEAN, **changes))  # type: ignore[arg-type]
    assert shown.exit is Exit.NO
    assert shown.lines[0].startswith("NOT clean:")
    assert said in shown.lines[0]
    assert isinstance(shown.data, dict)
    assert (shown.data["clean"], said in str(shown.data["problem"])) == (False, True)


def test_each_finding_is_shown_in_its_place() -> None:
    tables = {table.title: table for table in answer(dataclasses.replace(CLEAN, findings=(GHOST,))).tables}
    assert tables["What the survey found"].rows[2] == ("disks", "1", "0", "0", "0", "0")
    assert tables["Findings"].rows[0][:4] == ("disk", "2", "left over", "/d/ghost-0")


def test_phases_are_counted_from_the_marks() -> None:
    (phase,) = CLEAN.phases
    assert (phase.reached, phase.first_s, phase.median_s, phase.last_s) == (3, 0.1, 0.3, 0.9)
    assert phase_times("removed", "", [], 1_000)[2:] == (0, 0.0, 0.0, 0.0)


def test_chaos_tells_its_story_in_order_and_why_topics_waited() -> None:
    waits = WaitLog()
    wait = {"waiting_for": "GONE", "meaning": "it is gone", "broker": 3, "attempts": 2, "last_error": None}
    for now_ms in (2_000, 3_500):
        waits.note(1001, {"topics": {"a": [wait], "b": [wait]}}, now_ms)
    happenings = (ClusterChange(4_000, "second"), ClusterChange(1_500, "first"))
    shown = answer(dataclasses.replace(CLEAN, waits=waits, happenings=happenings, began_ms=1_000))
    tables = {table.title: table for table in shown.tables}
    assert tables["What happened"].rows == (("0.5", "first"), ("3.0", "second"))
    assert tables["Why topics waited"].rows == (("2", "GONE", "3", "it is gone", "1.5", "1001"),)
    assert isinstance(shown.data, dict)
    chaos = shown.data["chaos"]
    assert isinstance(chaos, dict)
    assert orjson.loads(orjson.dumps(chaos["waits"]))["a"][0]["waited_s"] == 1.5


def test_without_a_terminal_lines_are_written_when_something_has_changed(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(quiet=False) as watcher:
        watcher.stage("Deleting")
        for done in (1, 2, 2):
            watcher.bars(
                [ProgressBar("removed", done, 2), ProgressBar("broker 1 freed", 500_000, 1_000_000, is_bytes=True)]
            )
        watcher.note("it is done")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "== Deleting" in shown.err
    assert "removed 2/2, broker 1 freed 0.5/1.0 MB" in shown.err
    assert shown.err.count("removed 2/2") == 1
    assert shown.err.rstrip().endswith("it is done")


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(quiet=True) as watcher:
        watcher.stage("Deleting")
        watcher.bars([ProgressBar("removed", 1, 2)])
        watcher.note("it is done")
    assert capsys.readouterr() == ("", "")
