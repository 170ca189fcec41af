"""Tables that are made anew for some lines say what they would say had all lines come at once."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lethe.controller.core.deletion_memory import DISABLED
from lethe.pipeline import tables
from lethe.pipeline.io.frames import frame_of
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.refresh import refresh_deletions
from lethe.pipeline.jobs.refresh_lasting import refresh_lasting, refresh_topic_ids
from lethe.pipeline.tables import Table
from lethe.protocol.journal_trash import BACK, TRASHED
from tests.pipeline.journals import START, Journal, events

DAY = datetime.date(2026, 1, 2)
DAY_MS: Final = 86_400_000
_BEFORE: Final = datetime.datetime(2026, 1, 2, 9, tzinfo=datetime.UTC)
_AFTER: Final = datetime.datetime(2026, 1, 2, 11, tzinfo=datetime.UTC)


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
            refresh_lasting(lake, [DAY])
            written.append(refresh_deletions(lake, [DAY], lambda _: None, changed))
            (span,) = lake.read(tables.DELETION_SPANS).select("waited_for").collect()
            reasons.append([wait["reason"] for wait in span["waited_for"]])
    assert reasons == [["unreachable"], ["broker_to_return"], ["unreachable"], ["unreachable"]]
    assert written == [{DAY}, {DAY}, {DAY}, set()], "nothing is made anew for what changes nothing"


def test_later_lines_end_deletions_debts_and_stays_in_the_trash(spark: SparkSession, tmp_path: Path) -> None:
    journal = Journal()
    journal.phases(0, "begun", ("queued", "started"))
    for topic in ("owed", "kept"):
        journal.phases(0, topic, ("queued", "started"), topic)
        journal.moved(2000, topic, 1, "DELETION_SUCCESSFUL", topic_id=topic)
        journal.debt(2500, topic, "written", 3, topic_id=topic)
        journal.phases(3000, topic, ("removed", "done"), topic)
        journal.freed(9000, topic, 1, topic)
    journal.trash(0, "back", TRASHED, "id")
    journal.phases(0, "of-an-older-lake", ("queued", "done"), "old")
    first = len(journal.lines)
    journal.refused(9000, "begun", DISABLED, by=1002)
    journal.debt(60_000, "owed", "paid", 3, by="broker/3", topic_id="owed", owed_since_ms=START + 2500)
    journal.freed(61_000, "owed", 3, "owed")
    journal.trash(70_000, "back", BACK, "id")
    lake = Lake(spark, str(tmp_path / "lake"))
    seen: list[list[tuple[Any, ...]]] = []
    with lake.writer("refresh"):
        lake.append(tables.AGENT_INVENTORY, _seen_directories(spark))
        for new in (journal.lines[:first], journal.lines[first:]):
            lake.append(tables.CONTROLLER_EVENTS, events(spark, new))
            refresh_lasting(lake, [DAY])
            refresh_deletions(lake, [DAY], lambda _: None, F.col("id").isin([line.id for line in new]))
            seen.append([row for table, columns in _COLUMNS.items() for row in _rows(lake, table, columns)])
            _make_older(Path(lake.root.removeprefix("file:")) / tables.DELETION_SPANS.path)
    assert seen[0] == [
        ("begun", "open", 0, False, False),
        ("kept", "done", 2, False, False),
        ("of-an-older-lake", "done", 0, False, False),
        ("owed", "done", 2, False, False),
        ("kept", 1, None, None),
        ("owed", 1, None, None),
        ("back", None),
        (3, 2, 0, 2, 70, 1),
    ], "bytes that are owed are not reclaimed; of one debt a survey tells the size"
    assert seen[1] == [
        ("begun", "let go", 0, False, False),
        ("kept", "done", None, False, False),
        ("of-an-older-lake", "done", None, False, False),
        ("owed", "done", 2, True, True),
        ("kept", 1, None, None),
        ("owed", 1, "paid", "/lethe/broker/3"),
        ("back", "back"),
        (3, 2, 1, 1, 0, 1),
    ]


@pytest.mark.parametrize("is_older", [False, True])
def test_deletions_that_bear_on_later_days_stay_in_their_table(
    spark: SparkSession, tmp_path: Path, is_older: bool
) -> None:
    journal = Journal()
    for topic in ("open", "ends", "waited"):
        journal.phases(0, topic, ("queued", "started"), topic)
    journal.moved(2000, "waited", 2, "DELETION_INELIGIBLE", topic_id="waited")
    journal.moved(3000, "waited", 2, "DELETION_SUCCESSFUL", topic_id="waited")
    journal.phases(4000, "waited", ("done",), "waited")
    first = len(journal.lines)
    journal.phases(DAY_MS, "ends", ("done",), "ends")
    lake = Lake(spark, str(tmp_path / "lake"))
    table, days = tables.LASTING_DELETIONS, [DAY, DAY + datetime.timedelta(days=1)]
    with lake.writer("refresh"):
        for new, on in zip((journal.lines[:first], journal.lines[first:]), days, strict=True):
            lake.append(tables.CONTROLLER_EVENTS, events(spark, new))
            refresh_deletions(lake, [on], lambda _: None, F.col("id").isin([line.id for line in new]))
            if is_older and on == DAY:
                shutil.rmtree(tmp_path / "lake" / table.path)
    assert _rows(lake, table, "topic outcome") == [("open", "open"), ("waited", "done")]
    assert lake.days(tables.DELETION_SPANS) == [DAY]


@pytest.mark.parametrize("is_older", [False, True])
def test_the_first_survey_that_saw_a_topic_id_counts(spark: SparkSession, tmp_path: Path, is_older: bool) -> None:
    def seen(day: int, topic: str, topic_id: str | None, kind: str = "topic") -> dict[str, Any]:
        at = datetime.datetime(2026, 1, day, tzinfo=datetime.UTC)
        return {"taken_at": at, "day": at.date(), "kind": kind, "topic": topic, "topic_id": topic_id}

    lake = Lake(spark, str(tmp_path / "lake"))
    names = tables.ZNODE_SNAPSHOT.schema.fieldNames()
    surveys = (
        [seen(3, "a", "one"), seen(3, "b", None), seen(3, "c", "three", "marker")],
        [seen(4, "a", "one"), seen(4, "a", "two")],
        [seen(2, "a", "one")],
    )
    with lake.writer("refresh"):
        for number, rows in enumerate(surveys):
            whole = (tuple(row.get(name) for name in names) for row in rows)
            lake.append(tables.ZNODE_SNAPSHOT, frame_of(spark, tables.ZNODE_SNAPSHOT.schema, whole))
            refresh_topic_ids(lake, [rows[0]["day"]])
            if is_older and not number:
                shutil.rmtree(tmp_path / "lake" / tables.TOPIC_IDS.path)
    found = lake.read(tables.TOPIC_IDS).select("topic", "topic_id", F.dayofmonth("taken_at")).collect()
    assert sorted(map(tuple, found)) == [("a", "one", 2), ("a", "two", 4)]


_COLUMNS: Final = {
    tables.DELETION_SPANS: "topic outcome owed_replicas settled_at bytes_gone_at",
    tables.DEBTS: "topic span how closed_by",
    tables.TRASH: "topic how",
    tables.OWED_BY_BROKER: "broker written paid open owed_bytes unsized",
}


def _make_older(table: Path) -> None:
    """The rows as an earlier release wrote them."""
    for file in table.rglob("*.parquet"):
        rows = pq.read_table(file)
        later = {"owed_by", "owed_replicas", "settled_at"}.intersection(rows.column_names)
        pq.write_table(rows.drop_columns(list(later)), file)
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


def _rows(lake: Lake, table: Table, columns: str) -> list[tuple[Any, ...]]:
    """Of instants, whether they are known."""
    rows = lake.read(table).select(*columns.split()).collect()
    return sorted(
        tuple(row[name] is not None if name.endswith("_at") else row[name] for name in columns.split()) for row in rows
    )


def _seen_directories(spark: SparkSession) -> DataFrame:
    """A survey before the debts, and one that saw what is no debt's."""
    of: dict[str, Any] = {"broker": 3, "kind": "replica", "topic_id": "owed", "topic": "owed", "day": DAY}
    rows = [
        of | {"survey_id": "before", "taken_at": at, "partition": number, "size_bytes": size}
        for at, number, size in ((_BEFORE, 0, 30), (_BEFORE, 1, 40), (_AFTER, 0, 9), (_BEFORE, 2, 500))
    ]
    names = tables.AGENT_INVENTORY.schema.fieldNames()
    return frame_of(spark, tables.AGENT_INVENTORY.schema, (tuple(row.get(name) for name in names) for row in rows))
