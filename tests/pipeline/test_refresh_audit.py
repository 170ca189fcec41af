"""An audit of some days finds of each of them what an audit of all days finds."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lethe.pipeline import tables
from lethe.pipeline.io.frames import frame_of
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.refresh_audit import audit_changes, dependent_days, refresh_audit
from lethe.pipeline.jobs.refresh_lasting import refresh_lasting
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.tables import Table
from tests.pipeline.journals import bronze
from tests.pipeline.planted import START, Plants, planted

STRETCH: Final = 173
"""What is planted within half an hour comes to lie on several days."""
HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR


def day(number: int) -> datetime.date:
    return datetime.date(2026, 1, number)


def stretched(value: Any) -> Any:
    return START + (value - START) * STRETCH if isinstance(value, datetime.datetime) else value


def over_days() -> Plants:
    """What is planted, stretched, and what rests on days long before."""
    plants = planted()
    plants.lines = [(*map(stretched, row[:-1]), stretched(row[2]).date()) for row in plants.lines]
    for rows in (plants.spans, plants.inventory, plants.znodes, plants.debts):
        rows[:] = [{name: stretched(value) for name, value in row.items()} for row in rows]
    zombie, new = plants.controller(3001), plants.controller(3002)
    zombie.election(0, "elected", 101)
    new.election(DAY, "elected", 102)
    zombie.wrote(4 * DAY)
    plants.controller(3003).election(3 * DAY, "elected", 102)
    moving = plants.controller(3004)
    moving.moved(4 * HOUR, "slowly", "ONLINE", "OFFLINE")
    moving.moved(3 * DAY, "slowly", "DELETION_STARTED", "DELETION_SUCCESSFUL")
    moving.moved(4 * DAY, "slowly", "DELETION_STARTED", "DELETION_SUCCESSFUL")
    quiet = plants.agent(3005)
    quiet.obeyed(0, 9, NONE=1)
    quiet.seq += 2
    quiet.obeyed(4 * DAY, 8, NONE=1)
    gapped = plants.controller(3006)
    said = {"first": "2026-01-02T11:30:00Z", "last": "2026-01-02T12:30:00Z", "reason": "disk full"}
    gapped.line(HOUR, "gap", "controller/3006", count=3, **said)
    gapped.unasked(2 * DAY, "held-by-nobody", broker=3006, partitions="0-2")
    ended = START + datetime.timedelta(days=4)
    of_days = {"queued_at": None, "done_at": ended, "last_at": ended}
    for topic, started, acked in (("gapped", 0, 3), ("short", 2, 3), ("held-by-nobody", 1, 1)):
        begun = START + datetime.timedelta(days=started, hours=2)
        plants.span(topic, acked_replicas=acked, marked_at=begun, started_at=begun, **of_days)
    plants.span("tail", acked_replicas=0, marked_at=None, started_at=None, **of_days)
    # Days that nobody read lie between.
    plants.controller(3007).election(10 * DAY, "elected", 103)
    late = START + datetime.timedelta(days=10)
    for topic, started in (("over-unread-days", 4), ("after-unread-days", 10)):
        begun = START + datetime.timedelta(days=started)
        plants.span(topic, acked_replicas=3, marked_at=begun, started_at=begun, done_at=late, last_at=late)
    return plants


def frame(spark: SparkSession, table: Table, rows: list[dict[str, Any]], *times: str) -> DataFrame:
    """The rows, each of the day of the first of these times that it has."""
    names = table.schema.fieldNames()
    whole = [{**row, "day": next(row[time] for time in times if row.get(time)).date()} for row in rows]
    return frame_of(spark, table.schema, (tuple(row.get(name) for name in names) for row in whole))


def lake_of(spark: SparkSession, root: Path, plants: Plants) -> Lake:
    lake = Lake(spark, str(root / "lake"))
    steps = ("marked_at", "queued_at", "started_at", "done_at", "last_at")
    with lake.writer("planting"):
        lake.append(tables.CONTROLLER_EVENTS, bronze(spark, plants.lines))
        lake.append(tables.DELETION_SPANS, frame(spark, tables.DELETION_SPANS, plants.all_spans(), *steps))
        lake.append(tables.AGENT_INVENTORY, frame(spark, tables.AGENT_INVENTORY, plants.inventory, "taken_at"))
        lake.append(tables.ZNODE_SNAPSHOT, frame(spark, tables.ZNODE_SNAPSHOT, plants.znodes, "taken_at"))
        lake.append(tables.DEBTS, frame(spark, tables.DEBTS, plants.debts, "since"))
    return lake


def violations(root: Path) -> list[dict[str, Any]]:
    lake = LakeReader(str(root / "lake"))
    batches = lake.batches(tables.VIOLATIONS, tables.VIOLATIONS.schema.names)
    return sorted((row for batch in batches for row in batch.to_pylist()), key=str)


def audit(lake: Lake, *days: datetime.date) -> None:
    with lake.writer("audit"):
        refresh_lasting(lake, lake.days(tables.CONTROLLER_EVENTS))
        refresh_audit(lake, days)


def subjects(rows: list[dict[str, Any]], rule: str) -> set[str]:
    return {row["subject"] for row in rows if row["rule"] == rule}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_auditing_days_again_changes_nothing(spark: SparkSession, tmp_path: Path, seed: int | None) -> None:
    lake = lake_of(spark, tmp_path, over_days())
    days = lake.days(tables.CONTROLLER_EVENTS)
    assert lake.unaudited_days() == {*days, *lake.days(tables.DELETION_SPANS), *lake.days(tables.AGENT_INVENTORY)}
    audit(lake, *lake.unaudited_days())
    assert lake.unaudited_days() == set()
    found = violations(tmp_path)
    assert len({row["day"] for row in found}) >= 4
    assert len({row["rule"] for row in found}) >= 12
    assert "controller/3001" in subjects(found, "fenced-writes"), "of an epoch that began four days before"
    assert "controller/3003" in subjects(found, "rising-epochs")
    unacknowledged = {"topic/short", "topic/after-unread-days", "topic/in-a-gap"}
    assert subjects(found, "all-acknowledged") == unacknowledged, "the last lies far from its gap here, others in it"
    keys = [tuple(row[name] for name in tables.VIOLATIONS.key) for row in found]
    assert len(set(keys)) == len(keys)
    alone = [day(6)]
    if seed is not None:
        alone = days
        random.Random(seed).shuffle(alone)
    for one in alone:
        audit(lake, one)
        assert violations(tmp_path) == found, one


@pytest.mark.slow
@pytest.mark.long
def test_new_surveys_are_audited_by_the_rules_on_surveys(spark: SparkSession, tmp_path: Path) -> None:
    whole = lake_of(spark, tmp_path / "whole", over_days())
    days = whole.unaudited_days()
    audit(whole, *days)
    plants = over_days()
    inventory, znodes = plants.inventory[:], plants.znodes[:]
    plants.inventory.clear()
    plants.znodes.clear()
    lake = lake_of(spark, tmp_path / "parts", plants)
    audit(lake, *days)
    assert violations(tmp_path / "parts") != violations(tmp_path / "whole")
    stages: list[str] = []
    with lake.writer("surveys"):
        found = lake.read(tables.VIOLATIONS)
        mark = F.when(F.col("rule") == "fenced-writes", "as it was").otherwise(F.col("detail"))
        lake.replace_partitions(tables.VIOLATIONS, found.withColumn("detail", mark), lake.days(tables.VIOLATIONS))
        lake.append(tables.AGENT_INVENTORY, frame(spark, tables.AGENT_INVENTORY, inventory, "taken_at"))
        lake.append(tables.ZNODE_SNAPSHOT, frame(spark, tables.ZNODE_SNAPSHOT, znodes, "taken_at"))
        audit_changes(lake, [], [], stages.append)
    assert stages == ["auditing"]
    assert lake.unaudited_days() == set()
    others = [
        {**row, "detail": "as it was"} if row["rule"] == "fenced-writes" else row
        for row in violations(tmp_path / "whole")
    ]
    assert violations(tmp_path / "parts") == sorted(others, key=str), "no other rule was applied again"


def test_a_day_that_was_written_to_is_owed_an_audit(spark: SparkSession, tmp_path: Path) -> None:
    plants = Plants()
    for number in range(2):
        plants.agent(21).obeyed(number * DAY, 1, NONE=1)
    lake = lake_of(spark, tmp_path, plants)
    with lake.writer("audit of nothing"):
        lake.note_audited(lake.days(tables.CONTROLLER_EVENTS))
    assert lake.unaudited_days() == set()
    late = Plants()
    late.agent(22).obeyed(DAY, 1, NONE=1)
    with lake.writer("stream"):
        lake.append(tables.CONTROLLER_EVENTS, bronze(spark, late.lines))
    assert lake.unaudited_days() == {day(3)}


def test_what_was_found_of_later_days_is_looked_at_again(spark: SparkSession, tmp_path: Path) -> None:
    plants = Plants()
    for number in range(9):
        plants.agent(21).obeyed(number * DAY, 1, NONE=1)
    first, third, sixth = (START + datetime.timedelta(days=number) for number in (0, 2, 5))
    plants.span("long", marked_at=first, done_at=third, last_at=sixth)
    plants.span("open", outcome="open", marked_at=first, done_at=None, last_at=third)
    plants.span("of another day", marked_at=third, done_at=START + datetime.timedelta(days=8))
    lake = lake_of(spark, tmp_path, plants)
    active = (first, third + datetime.timedelta(days=1), third + datetime.timedelta(days=4))
    tenures = [{"controller": 1, "epoch": epoch, "active_at": at, "day": at.date()} for epoch, at in enumerate(active)]
    bad = [("all-acknowledged", 7), ("no-gap", 9), ("all-acknowledged", 10), ("some-outcome", 1)]
    found = [{"rule": rule, "severity": "error", "day": day(number)} for rule, number in bad]

    def rows(table: Table, said: list[dict[str, Any]]) -> DataFrame:
        return frame_of(spark, table.schema, (tuple(row.get(name) for name in table.schema.names) for row in said))

    with lake.writer("planting"):
        lake.append(tables.CONTROLLER_TENURES, rows(tables.CONTROLLER_TENURES, tenures))
        lake.append(tables.VIOLATIONS, rows(tables.VIOLATIONS, found))
    # Found on days 7 and 10; `long` ended on days 4 and 7; the first controller after `open` came on day 5.
    assert dependent_days(lake, [day(2)]) == {day(4), day(5), day(7), day(10)}
    assert dependent_days(lake, [day(8)]) == {day(10)}
