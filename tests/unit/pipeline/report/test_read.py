"""From Parquet to values: sums, percentiles, which rows are chosen, days, what is missing or unreadable."""

from __future__ import annotations

import datetime
import shutil
import statistics
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lethe.pipeline import tables
from lethe.pipeline.io.table_log import TableFile, TableLog
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.report.lake_reader import LakeReader, LakeUnreadable
from lethe.pipeline.report.page import page
from lethe.pipeline.report.read import read_report
from lethe.pipeline.report.read_spans import read_deletions, step_width
from lethe.pipeline.report.summary import summarize
from lethe.pipeline.report.values import Promises
from lethe.protocol.lake import IDENTITY, LOG, encode_identity
from tests.fakes.lakes import at, day_of, note_audited, write
from tests.fakes.report_lake import BEGAN_MS, MS_PER_DAY, span, write_lake


def test_deletions_are_added_up(tmp_path: Path) -> None:
    found = read_report(str(write_lake(tmp_path, 60))).deletions
    assert (found.total, found.done, found.open, found.let_go) == (61, 60, 1, 0)
    assert found.freed_bytes == 16_384 * 15 * (4 + 4 + 12 + 120)
    assert sum(bar.size_bytes for bar in found.freed) == found.freed_bytes
    assert sum(bar.topics for bar in found.freed) == 60


def test_what_is_promised(tmp_path: Path) -> None:
    found = read_report(str(write_lake(tmp_path, 2))).promises
    assert [(row.broker, row.open, row.owed_bytes) for row in found.brokers.shown] == [(3, 1, 700)]
    assert ([row.topic for row in found.debts.shown], found.debts.total) == (["audit-2022"], 1)
    assert found.closed == {"paid": 1, "written off": 1}
    assert [row.topic for row in found.trash.shown] == ["finance"]


def test_owing_deletions_are_told_apart_and_an_older_lake_has_none(tmp_path: Path) -> None:
    rows = [span(number, BEGAN_MS) for number in range(4)]
    rows[0] |= {"owed_replicas": 2}
    rows[1] |= {"owed_replicas": 2, "settled_at": at(BEGAN_MS)}
    rows[2] |= {"owed_replicas": 0}
    write(tmp_path, tables.DELETION_SPANS, rows)
    report = read_report(str(tmp_path))
    assert (report.deletions.done, report.deletions.owing) == (4, 1)
    assert summarize(report).sentence.startswith("4 deletions, all done, 1 owed in part, ")
    (file,) = (tmp_path / tables.DELETION_SPANS.path).glob("day=*/*.parquet")
    table = pq.read_table(file)
    pq.write_table(table.drop_columns(["owed_by", "owed_replicas", "settled_at"]), file)
    older = read_report(str(tmp_path))
    assert {row.owed_by for row in older.deletions.shown} == {()}
    assert (older.deletions.done, older.deletions.owing, older.promises) == (4, 0, Promises())


def test_what_somebody_else_removed_is_neither_done_nor_open(tmp_path: Path) -> None:
    unfinished = dict.fromkeys(("znodes_gone_at", "done_at", "bytes_gone_at", "deleted_ms", "reclaimed_ms"))
    rows = [span(number, BEGAN_MS) for number in range(4)]
    for row, ms in zip(rows, (7_000, 9_000, 8_000), strict=False):
        row |= unfinished | {"outcome": "vanished", "vanished_at": at(BEGAN_MS + ms)}
    write(tmp_path, tables.DELETION_SPANS, rows)
    found = read_report(str(tmp_path)).deletions
    assert (found.total, found.done, found.open, found.vanished) == (4, 1, 0, 3)
    assert found.last_vanished_at == BEGAN_MS + 9_000
    assert {each.deletions for each in found.latencies if each.size_class == "all"} == {1}


def test_percentiles_are_exact(tmp_path: Path) -> None:
    rows = [span(number, BEGAN_MS) for number in range(101)]
    write(tmp_path, tables.DELETION_SPANS, rows)
    found = {each.measure: each for each in read_report(str(tmp_path)).deletions.latencies if each.size_class == "all"}
    took = sorted(row["deleted_ms"] for row in rows)
    assert found["deleted"].p50 == statistics.median(took)
    assert found["deleted"].p90 == took[90]
    assert found["deleted"].p99 == took[99]
    assert found["deleted"].max == took[-1]
    assert sum(found["reclaimed"].bins.values()) == 101


def test_size_classes_are_those_of_the_gold_table(tmp_path: Path) -> None:
    sizes = (1, 9, 10, 99, 100, 999, 1000, 50_000)
    unknown = span(99, BEGAN_MS) | {"replicas": None}
    rows = [span(n, BEGAN_MS, replicas=size) for n, size in enumerate(sizes)]
    write(tmp_path, tables.DELETION_SPANS, [*rows, unknown])
    known = read_report(str(tmp_path)).deletions.latencies
    counts = [(each.size_class, each.deletions) for each in known if each.measure == "deleted"]
    assert counts == [("all", 9), ("1-9", 2), ("10-99", 2), ("100-999", 2), ("1000+", 2), ("unknown", 1)]


def test_progress_ends_with_all_of_them(tmp_path: Path) -> None:
    progress = read_report(str(write_lake(tmp_path, 60))).deletions.progress
    assert progress is not None
    assert progress.reached["marked_at"][-1] == 61
    assert progress.reached["bytes_gone_at"][-1] == 60
    assert all(list(counts) == sorted(counts) for counts in progress.reached.values())


def test_of_many_the_open_the_slowest_and_the_newest_are_shown(tmp_path: Path) -> None:
    many = [span(number, BEGAN_MS + number * 50) for number in range(1_000)]
    slow = [{**span(2_000 + n, BEGAN_MS), "reclaimed_ms": 9_000_000 + n} for n in range(5)]
    still = [{**span(3_000 + n, BEGAN_MS), "outcome": "open", "reclaimed_ms": None} for n in range(120)]
    write(tmp_path, tables.DELETION_SPANS, [*many, *slow])
    write(tmp_path, tables.DELETION_SPANS, still, more=True)
    shown = [row.topic for row in read_deletions(LakeReader(str(tmp_path)), None, 200).shown]
    assert len(shown) == len(set(shown)) == 200
    assert sum(topic >= "demo-3000" for topic in shown) == 80
    assert {row["topic"] for row in slow} <= set(shown)
    assert "demo-0999" in shown


def test_what_is_shown_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    rows = [{**span(number, BEGAN_MS), "deleted_ms": 5, "reclaimed_ms": 7} for number in range(500)]
    write(tmp_path / "one", tables.DELETION_SPANS, rows)
    write(tmp_path / "two", tables.DELETION_SPANS, rows[::-1])
    one, two = (read_deletions(LakeReader(str(tmp_path / name)), None, 200) for name in ("one", "two"))
    assert one == two


def test_instants_are_read_however_they_were_written(tmp_path: Path) -> None:
    for name, int96 in (("old", True), ("new", False)):
        write(tmp_path / name, tables.DELETION_SPANS, [span(1, BEGAN_MS + 7)], int96=int96)
    (old,), (new,) = (read_report(str(tmp_path / name)).deletions.shown for name in ("old", "new"))
    assert old == new
    assert old.marked_at == BEGAN_MS + 7
    assert old.held[0].since == BEGAN_MS + 7


def test_only_the_days_that_are_asked_for(tmp_path: Path) -> None:
    lake = str(write_lake(tmp_path, 60, days=3))
    second = day_of(BEGAN_MS + MS_PER_DAY)
    assert read_report(lake).deletions.total == 61
    assert read_report(lake, days=DayRange(second, second)).deletions.total == 20
    assert read_report(lake, days=DayRange(first=second)).deletions.total == 40
    none = read_report(lake, days=DayRange(datetime.date(2031, 1, 1)))
    assert (none.deletions.total, none.surveys.total, none.stuck.total) == (0, 0, 1)
    with pytest.raises(ValueError, match="is after --to"):
        DayRange(datetime.date(2026, 2, 1), datetime.date(2026, 1, 1))


def test_findings_are_those_of_the_newest_survey_with_what_is_pending_last(tmp_path: Path) -> None:
    report = read_report(str(write_lake(tmp_path)))
    assert [row.survey_id for row in report.surveys.shown] == ["s1", "s0"]
    assert [row.standing for row in report.findings.shown] == ["left_over", "left_over", "set_aside", "pending"]
    assert report.as_of == BEGAN_MS + 61_000


def test_a_lake_with_no_tables_is_empty_and_a_directory_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeUnreadable, match="no tables in it"):
        read_report(str(tmp_path))
    with pytest.raises(LakeUnreadable, match="no such directory"):
        read_report(str(tmp_path / "nowhere"))
    (tmp_path / "lake.json").write_text(encode_identity(None))
    assert read_report(str(tmp_path)).deletions.total == 0
    assert read_report(f"file:{tmp_path}").deletions.total == 0


@pytest.mark.parametrize(
    "text, words",
    [
        ('{"version": 9, "cluster_id": null}', "version 9, .* use a newer one"),
        ("garbage", "says of no lake what it is"),
    ],
)
def test_a_lake_of_another_version_is_not_read(tmp_path: Path, text: str, words: str) -> None:
    (write_lake(tmp_path) / "lake.json").write_text(text)
    with pytest.raises(LakeUnreadable, match=f"--lake {tmp_path}: lake.json: .*{words}"):
        LakeReader(str(tmp_path))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    write_lake(tmp_path)
    (file,) = (tmp_path / "gold/stuck_now").glob("*.parquet")
    file.write_bytes(b"not parquet")
    with pytest.raises(LakeUnreadable, match="gold/stuck_now cannot be read"):
        read_report(str(tmp_path))


def test_columns_that_a_file_does_not_have_are_null(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory = tmp_path / "silver/deletion_spans/day=2026-11-21"
    directory.mkdir(parents=True)
    pq.write_table(
        pa.table({"topic": ["orders"], "marked_at": [at(BEGAN_MS)], "of_later": [1]}), directory / "a.parquet"
    )
    of_day = TableFile("day=2026-11-21/a.parquet", datetime.date(2026, 11, 21), 1)
    TableLog(str(tmp_path), tables.DELETION_SPANS).create([of_day])
    (row,) = read_report(str(tmp_path)).deletions.shown
    assert (row.topic, row.marked_at, row.replicas, row.held) == ("orders", BEGAN_MS, None, ())


@pytest.mark.parametrize("extent_ms", [0, 1, 5_000, 86_400_000, 40 * 86_400_000, 4_000 * 86_400_000])
def test_steps_are_few_enough_to_be_drawn(extent_ms: int) -> None:
    step = step_width(0, extent_ms)
    assert extent_ms / step <= 160


def test_files_that_no_change_has_added_are_not_read(tmp_path: Path) -> None:
    whole = read_report(str(write_lake(tmp_path)))
    write(tmp_path, tables.DELETION_SPANS, [span(7, BEGAN_MS)], with_log=False)
    write(tmp_path, tables.DEBTS, [{"day": day_of(BEGAN_MS)}], with_log=False)
    assert read_report(str(tmp_path)) == whole


def test_a_table_without_a_log_is_the_files_of_its_directory(tmp_path: Path) -> None:
    days = [BEGAN_MS, BEGAN_MS + MS_PER_DAY]
    for part in range(2):
        write(tmp_path, tables.DELETION_SPANS, [span(part, ms) for ms in days], with_log=False)
    write(tmp_path, tables.STUCK_NOW, [], with_log=False)
    (tmp_path / IDENTITY).write_text('{"version": 1, "cluster_id": null}')
    reader = LakeReader(str(tmp_path))
    assert reader.days(tables.DELETION_SPANS) == set(map(day_of, days))
    assert sum(batch.num_rows for batch in reader.batches(tables.DELETION_SPANS, ["topic"])) == 4
    assert reader.has(tables.STUCK_NOW)
    assert not reader.has(tables.DEBTS)


@pytest.mark.parametrize("identity", ["", encode_identity(None)])
def test_a_table_that_has_lost_its_log_is_not_read(tmp_path: Path, identity: str) -> None:
    write_lake(tmp_path)
    if identity:
        (tmp_path / IDENTITY).write_text(identity)
    shutil.rmtree(tmp_path / tables.STUCK_NOW.path / LOG)
    with pytest.raises(LakeUnreadable, match="the table has files and no log"):
        read_report(str(tmp_path))


def test_files_that_go_while_they_are_read_are_told_from_damage(tmp_path: Path) -> None:
    days = [BEGAN_MS + number * MS_PER_DAY for number in range(3)]
    write(tmp_path, tables.DELETION_SPANS, [span(1, ms) for ms in days])
    shutil.rmtree(tmp_path / f"silver/deletion_spans/day={day_of(days[1])}")
    with pytest.raises(LakeUnreadable, match="files of it were removed"):
        list(LakeReader(str(tmp_path)).batches(tables.DELETION_SPANS, ["topic"]))


def test_a_day_counts_as_audited_that_was_not_written_to_since(tmp_path: Path) -> None:
    days = [day_of(BEGAN_MS + number * MS_PER_DAY) for number in range(5)]
    write(tmp_path, tables.CONTROLLER_EVENTS, [{"day": day} for day in days[:4]])
    write(tmp_path, tables.ZNODE_SNAPSHOT, [{"day": day} for day in days[3:]])
    write(tmp_path, tables.VIOLATIONS, [{"rule": "acks", "severity": "warning", "day": day} for day in days[:3]])
    note_audited(tmp_path, days[:3])
    write(tmp_path, tables.CONTROLLER_EVENTS, [{"day": days[2]}], more=True)
    report = read_report(str(tmp_path))
    assert (report.recorded_days, report.audited_days) == (5, 2), "one was written to since, two were never audited"
    first = read_report(str(tmp_path), days=DayRange(days[0], days[1]))
    assert (first.recorded_days, first.audited_days) == (2, 2)
    assert "2 of 5 days audited. lethe pipeline run audits the others." in page(report)
    assert "audits the others" not in page(first)
