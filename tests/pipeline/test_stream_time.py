"""A stream keeps what depends on the time current, though no line comes."""

from __future__ import annotations

import datetime
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lethe.pipeline import tables
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.rules import RuleChanges, store_changes
from lethe.pipeline.jobs.stream import BatchProgress, Stream, StreamOptions
from tests.pipeline.test_batch import FIRST, rows

pytestmark = pytest.mark.timeout(600)
MARKED = datetime.datetime(2026, 1, 5, 23, 59, tzinfo=datetime.UTC)


def test_what_waits_becomes_stuck_though_no_line_comes(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "a.jsonl").write_bytes(b"".join(FIRST))
    lake = Lake(spark, str(tmp_path / "lake"))
    now = MARKED + datetime.timedelta(seconds=90)
    told: list[BatchProgress] = []
    seen: list[int] = []
    stopping = threading.Event()

    def time_passed() -> None:
        nonlocal now
        if not told:
            return  # Spark takes its time to begin the first batch: nothing waits yet.
        seen.append(len(rows(tmp_path, tables.STUCK_NOW)))
        now += datetime.timedelta(seconds=20)
        if len(seen) == 2:
            stopping.set()

    plan = StreamOptions(
        (str(tmp_path / "journal"),), every_s=1, rule_changes=RuleChanges(stuck_after_ms=100_000), refresh_s=0.1
    )
    stream = Stream(spark, lake, plan, lambda: now, told.append, stopping=stopping, on_time_refresh=time_passed)
    stream.run()
    assert seen == [0, 1]
    with lake.writer("another"):
        assert store_changes(lake.files, RuleChanges()).stuck_after_ms == 100_000, "whoever comes next goes by the same"
