"""Tables that are made anew for some lines say what they would say had all lines come at once."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lethe.controller.core.deletion_memory import DISABLED
from lethe.pipeline import tables
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.refresh import refresh_deletions
from tests.pipeline.journals import Journal, events

DAY = datetime.date(2026, 1, 2)


@pytest.mark.slow
@pytest.mark.long
def test_a_late_line_about_a_broker_tells_why_it_was_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    journal = Journal()
    journal.phases(0, "waits", ("queued", "started"))
    journal.moved(3000, "waits", 2, "DELETION_INELIGIBLE")
    journal.broker(2000, 2, "failed")
    journal.broker(5000, 2, "started")
    journal.broker(6000, 2, "modified")
    lake = Lake(spark, str(tmp_path / "lake"))
    reasons, written = [], []
    with lake.writer("refresh"):
        for new in (journal.lines[:-3], *([line] for line in journal.lines[-3:])):
            lake.append(tables.CONTROLLER_EVENTS, events(spark, new))
            changed = F.col("id").isin([line.id for line in new])
            written.append(refresh_deletions(lake, [DAY], lambda _: None, changed))
            (span,) = lake.read(tables.DELETION_SPANS).select("waited_for").collect()
            reasons.append([wait["reason"] for wait in span["waited_for"]])
    assert reasons == [["unreachable"], ["broker_to_return"], ["unreachable"], ["unreachable"]]
    assert written == [{DAY}, {DAY}, {DAY}, set()], "nothing is made anew for what changes nothing"


def test_the_refusal_of_who_took_over_ends_a_deletion(spark: SparkSession, tmp_path: Path) -> None:
    journal = Journal()
    journal.phases(0, "begun", ("queued", "started"))
    journal.refused(9000, "begun", DISABLED, by=1002)
    lake = Lake(spark, str(tmp_path / "lake"))
    outcomes = []
    with lake.writer("refresh"):
        for new in (journal.lines[:-1], journal.lines[-1:]):
            lake.append(tables.CONTROLLER_EVENTS, events(spark, new))
            refresh_deletions(lake, [DAY], lambda _: None, F.col("id").isin([line.id for line in new]))
            outcomes += [row["outcome"] for row in lake.read(tables.DELETION_SPANS).collect()]
    assert outcomes == ["open", "let go"]
