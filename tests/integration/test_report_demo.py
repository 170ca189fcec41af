"""What `make report` records: surveys before, within and after the deletions, and something left to tell."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from lethe.cluster.demo_plan import DemoOptions
from lethe.cluster.demo_report import CONFIGURED, ORPHAN, WAITING, run_report_demo
from lethe.cluster.demo_watch import SilentWatcher

pytestmark = [pytest.mark.slow, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]


def rows(survey: Path, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (survey / name).read_text().splitlines()]


async def test_four_surveys_tell_the_story(tmp_path: Path) -> None:
    options = DemoOptions(
        topics=12,
        partitions=2,
        replication_factor=2,
        bytes_per_replica=4096,
        work_dir=tmp_path / "cluster",
        chaos=True,
        limit_s=240,
    )
    result = await run_report_demo(options, SilentWatcher(), tmp_path / "surveys")
    assert result.is_clean
    before, worst, clean, last = sorted((tmp_path / "surveys").iterdir())
    found = [
        Counter(str(row["kind"]) for row in rows(survey, "znodes.jsonl")) for survey in (before, worst, clean, last)
    ]
    assert [kinds["topic"] for kinds in found] == [12, 8, 0, 1]
    assert [kinds["marker"] for kinds in found] == [0, 8, 0, 1]
    assert [kinds["broker"] for kinds in found] == [3, 2, 3, 2]
    znodes = rows(last, "znodes.jsonl")
    assert {row["topic"] for row in znodes if row["kind"] == "marker"} == {WAITING}
    assert CONFIGURED in {row["topic"] for row in znodes if row["kind"] == "config"}
    assert [row["broker"] for row in rows(last, "directories.jsonl") if row["directory"] == ORPHAN] == [1]
    assert len(list(tmp_path.glob("cluster/*/journal/*.jsonl"))) == 5
