"""The stream gives the same tables as the batch job, wherever it was interrupted."""

from __future__ import annotations

import datetime
import shutil
import subprocess
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from lethe.pipeline import tables
from lethe.pipeline.io import journal_source
from lethe.pipeline.io.frames import frame_of
from lethe.pipeline.io.lake import Lake, LakeUnusable
from lethe.pipeline.io.stream_commits import STREAMS
from lethe.pipeline.io.table_log import Batch
from lethe.pipeline.jobs import batch
from lethe.pipeline.jobs.micro_batch import MicroBatchRunner
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.transforms.bronze_events import LATE, LOST
from lethe.protocol.journal import EventRecordType
from tests.pipeline.streams import AT_THE_END, NEVER, NOW, Growing, Killed, follow
from tests.pipeline.test_batch import FIRST, SECOND, event, keep_survey, phase, rows, spans

COMPARED: Final = (
    *(tables.CONTROLLER_EVENTS, tables.QUARANTINE, tables.DELETION_SPANS, tables.REPLICA_DELETIONS),
    *(tables.DELETION_SLO, tables.SLOW_BROKERS, tables.DAILY_RECLAIM, tables.STUCK_NOW, tables.CONTROLLER_TENURES),
    tables.WAITING_DELETIONS,
)


def all_rows(root: Path) -> dict[str, list[str]]:
    return {table.name: rows(root, table) for table in COMPARED}


def run_batch(spark: SparkSession, lake: Path, journal: Path, name: str = "batch") -> None:
    batch.run(spark, Lake(spark, str(lake)), [str(journal)], [], DayRange(), lambda: NOW, batch_id=name)


def assert_like_batch(spark: SparkSession, root: Path, growing: Growing) -> None:
    streamed = all_rows(root)
    growing.restore()
    run_batch(spark, root / "batch" / "lake", growing.journal)
    expected = all_rows(root / "batch")
    assert all(expected[table.name] for table in COMPARED if table is not tables.SLOW_BROKERS)
    assert streamed == expected


# Before anything; at the end, before Spark has noted it; then, in the next batch, among the moves of its lines; in the
# middle of the tables.
EACH_STAGE: Final = (0, AT_THE_END, 2, 12)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("stages", [(2,), EACH_STAGE])
def test_a_stream_that_is_interrupted_gives_the_tables_of_one_run(
    spark: SparkSession, tmp_path: Path, stages: tuple[int, ...]
) -> None:
    lake, growing = tmp_path / "lake", Growing(tmp_path)
    removed: list[str] = []
    for dies_at in stages:
        if dies_at != 12:
            growing.grow()
        if dies_at == 2:
            growing.end_lines()
        with pytest.raises(Killed) if dies_at != NEVER else nullcontext():
            follow(spark, lake, growing.journal, dies_at)
        removed += growing.rotate(lake)
    assert removed or stages != EACH_STAGE, "some were rotated away"
    follow(spark, lake, growing.journal)
    assert follow(spark, lake, growing.journal) == []
    assert_like_batch(spark, tmp_path, growing)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "kills", [pytest.param((9,), id="once"), pytest.param((2, 9, AT_THE_END, 3, 14), id="five times")]
)
def test_a_stream_whose_process_is_killed_gives_the_tables_of_one_run(
    spark: SparkSession, tmp_path: Path, kills: tuple[int, ...]
) -> None:
    lake, growing = tmp_path / "lake", Growing(tmp_path)
    command = [sys.executable, "-m", "tests.pipeline.streams", str(lake), str(growing.journal)]
    for dies_at in kills:
        growing.grow()
        done = subprocess.run(
            [*command, str(dies_at)], start_new_session=True, capture_output=True, timeout=1_500, check=False
        )
        assert done.returncode == -9, done.stderr.decode()
        growing.rotate(lake)
    growing.end_lines()
    done = subprocess.run([*command, str(NEVER)], capture_output=True, timeout=1_500, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert_like_batch(spark, tmp_path, growing)


@pytest.mark.slow
@pytest.mark.long
def test_lines_later_than_the_watermark_are_taken_in_by_the_next_run(spark: SparkSession, tmp_path: Path) -> None:
    lake, journal = tmp_path / "lake", tmp_path / "journal"
    journal.mkdir()
    keep_survey(tmp_path / "surveys", "06T09:00:00.000")
    file = journal / "a.jsonl"
    file.write_bytes(b"".join(FIRST + SECOND))
    hour, surveys = datetime.timedelta(hours=1), (str(tmp_path / "surveys"),)
    (first,) = follow(spark, lake, journal, delay=hour, surveys=surveys)
    assert (first.done.counts.new, first.done.surveys, first.done.watermark, first.behind_bytes) == (4, 1, None, 0)
    before = spans(tmp_path)
    with file.open("ab") as appended:
        appended.write(phase(9, "05T12:00:00", "queued", "late") + phase(10, "06T08:10:00", "started", "users"))
    (second,) = follow(spark, lake, journal, delay=hour, max_files_per_day=1)
    assert (second.done.counts.new, second.done.counts.late) == (1, 1)
    assert second.done.watermark == datetime.datetime(2026, 1, 6, 7, tzinfo=datetime.UTC)
    assert spans(tmp_path) == before
    assert Lake(spark, str(lake)).count_files(tables.CONTROLLER_EVENTS, datetime.date(2026, 1, 6)) == 1
    aside = Lake(spark, str(lake)).read(tables.QUARANTINE)
    (late,) = aside.collect()
    assert late.reason == LATE
    assert late.detail.startswith("2026-01-05T12:00:00Z is before the watermark 2026-01-06T07:00:00Z")
    file.unlink()
    other = tmp_path / "other"
    other.mkdir()
    run_batch(spark, lake, other)
    assert spans(tmp_path) == {**before, "late": ("open", datetime.date(2026, 1, 5))}
    assert rows(tmp_path, tables.QUARANTINE) == []
    assert len(rows(tmp_path, tables.LEFTOVERS)) > 0


@pytest.mark.slow
@pytest.mark.long
def test_a_repeated_batch_tells_of_what_was_lost_since(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))
    this = Batch("12345678-stream", 0)
    seen = ("file:/a", "hash", "no line", "malformed", "", 1)
    with lake.writer("killed"):
        lake.replace_table(tables.QUARANTINE, frame_of(spark, tables.QUARANTINE.schema, [seen]), this)
    lines = spark.createDataFrame([(None, "file:/a", 7, 5)], journal_source.SCHEMA)
    runner = MicroBatchRunner(spark, lake, this.stream_id, [], datetime.timedelta(days=7), lambda: NOW)
    for _ in range(2):
        runner.run(lines, this.number)
        found = {row["reason"]: row["copies"] for row in lake.read(tables.QUARANTINE).collect()}
        assert found == {"malformed": 1, LOST: 1}
    (tmp_path / "lake" / STREAMS / this.stream_id / "000000001.taken").touch()
    assert runner.run(lines, 1).counts.lost == 0, "an earlier version of Lethe has made this batch"
    assert runner.run(lines, 2).counts.lost == 1


def test_a_pause_is_told_though_nobody_was_elected(spark: SparkSession, tmp_path: Path) -> None:
    lake, journal = tmp_path / "lake", tmp_path / "journal"
    journal.mkdir()
    file = journal / "a.jsonl"
    active = event(1, "06T07:00:00", EventRecordType.ELECTION, what="active", epoch=1, loading_ms=30)
    file.write_bytes(active + phase(2, "06T08:00:00", "queued", "users"))
    waits = []
    for _ in range(2):
        follow(spark, lake, journal)
        waits += [row.remedy for row in Lake(spark, str(lake)).read(tables.STUCK_NOW).collect()]
        with file.open("ab") as appended:
            appended.write(event(3, "06T09:00:00", EventRecordType.EVENT, what="deletions are paused"))
    assert waits == ["lethe explain users", "lethe topics resume-deletions"]


def test_a_stream_waits_for_another_writer_from_its_beginning_on(spark: SparkSession, tmp_path: Path) -> None:
    lake, journal = tmp_path / "lake", tmp_path / "journal"
    journal.mkdir()
    (journal / "a.jsonl").write_bytes(FIRST[0])
    waited_for: list[str] = []
    with ExitStack() as other:
        other.enter_context(Lake(spark, str(lake)).writer("another run"))

        def end_other(reason: str) -> None:
            waited_for.append(reason)
            other.close()

        (done,) = follow(spark, lake, journal, on_wait=end_other)
    assert done.done.counts.new == 1
    (reason,) = waited_for
    assert "(another run)" in reason


def test_what_a_stream_cannot_go_on_with_is_said(spark: SparkSession, tmp_path: Path) -> None:
    lake, journal = tmp_path / "lake", tmp_path / "journal"
    journal.mkdir()
    (journal / "a.jsonl").write_bytes(FIRST[0])
    with Lake(spark, str(lake)).writer("an earlier run"):
        pass
    with pytest.raises(Killed):
        follow(spark, lake, journal, 0)
    (journal / "a.jsonl").unlink()
    lost, *_ = follow(spark, lake, journal)
    assert (lost.done.counts.new, lost.done.counts.lost) == (0, 1)
    (aside,) = Lake(spark, str(lake)).read(tables.QUARANTINE).collect()
    assert (aside.reason, aside.line) == (LOST, f"bytes 0 to {len(FIRST[0])}")
    (journal / "b.jsonl").write_bytes(FIRST[1])
    shutil.rmtree(lake / STREAMS)
    with pytest.raises(LakeUnusable, match="remove the checkpoint"):
        follow(spark, lake, journal)
