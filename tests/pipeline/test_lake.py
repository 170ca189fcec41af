"""The lake: one writer, whole changes, whatever moment the process dies at."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lethe.pipeline.io.files import FileSystem, FileSystemError
from lethe.pipeline.io.frames import frame_of
from lethe.pipeline.io.lake import ColumnMismatch, Lake, LakeUnusable, gathered
from lethe.pipeline.io.lock import LOCK, Locked, acquire
from lethe.pipeline.io.staged_rows import write_rows
from lethe.pipeline.io.staging import Staging
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.report.lake_reader import LakeReader, LakeUnreadable, of_days
from lethe.pipeline.tables import DAILY_RECLAIM, STUCK_NOW, Table
from lethe.protocol.lake import LOG
from tests.fakes.rights import open_directory, unprivileged

STRANGE = "a lake [1]{b,c}*"
"""Spark would take it for a pattern."""
LONG_AGO = datetime.date(5, 1, 6)
"""As a line may say whose writer had no clock."""
MONDAY, TUESDAY, WEDNESDAY = (datetime.date(2026, 1, day) for day in (5, 6, 7))


def reclaim(spark: SparkSession, *rows: tuple[int, datetime.date]) -> DataFrame:
    """Rows of DAILY_RECLAIM that differ in the broker alone."""
    return frame_of(spark, DAILY_RECLAIM.schema, [(broker, 1, 1, 1, 0, 1, day) for broker, day in rows])


def brokers(lake: Lake, table: Table = DAILY_RECLAIM) -> list[tuple[int, datetime.date]]:
    return sorted((row.broker, row.day) for row in lake.read(table).collect())


def found_in(root: str) -> list[tuple[int, datetime.date]]:
    """As `brokers`, by the reader that needs no Spark."""
    batches = LakeReader(root).batches(DAILY_RECLAIM, ["broker", "day"])
    return sorted((row["broker"], row["day"]) for batch in batches for row in batch.to_pylist())


def test_what_was_written_is_read_back_by_days(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path / STRANGE))
    assert lake.read(DAILY_RECLAIM).schema == DAILY_RECLAIM.schema
    assert lake.days(DAILY_RECLAIM) == []
    assert lake.written_tables() == []
    with lake.writer("a"):
        lake.append(DAILY_RECLAIM, reclaim(spark, (1, MONDAY), (2, TUESDAY)))
        lake.append(DAILY_RECLAIM, reclaim(spark, (3, MONDAY)))
        lake.append(DAILY_RECLAIM, reclaim(spark, (4, LONG_AGO)))
        lake.replace_partitions(DAILY_RECLAIM, lake.read(DAILY_RECLAIM, [LONG_AGO]), [LONG_AGO])
    again = Lake(spark, str(tmp_path / STRANGE))
    assert brokers(again) == [(1, MONDAY), (2, TUESDAY), (3, MONDAY), (4, LONG_AGO)]
    assert brokers(again) == found_in(again.root)
    assert again.read(DAILY_RECLAIM, [MONDAY]).count() == 2
    assert again.read(DAILY_RECLAIM, []).count() == 0
    assert again.days(DAILY_RECLAIM) == [LONG_AGO, MONDAY, TUESDAY]
    assert again.written_tables() == [DAILY_RECLAIM]
    assert again.read(DAILY_RECLAIM).columns == DAILY_RECLAIM.schema.names


def test_partitions_are_replaced_and_others_stay(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path))
    with lake.writer("a"):
        lake.append(DAILY_RECLAIM, reclaim(spark, (1, MONDAY), (2, TUESDAY), (3, WEDNESDAY)))
        lake.replace_partitions(DAILY_RECLAIM, reclaim(spark, (9, MONDAY)), [MONDAY, TUESDAY])
        assert brokers(lake) == [(3, WEDNESDAY), (9, MONDAY)]
        kept = lake.read(DAILY_RECLAIM, [MONDAY]).unionByName(reclaim(spark, (8, MONDAY)))
        lake.replace_partitions(DAILY_RECLAIM, kept, [MONDAY])
        assert brokers(lake) == [(3, WEDNESDAY), (8, MONDAY), (9, MONDAY)]
        lake.replace_partitions(DAILY_RECLAIM, reclaim(spark).limit(0), [MONDAY])
        assert (brokers(lake), lake.days(DAILY_RECLAIM)) == ([(3, WEDNESDAY)], [WEDNESDAY])
        assert LakeReader(str(tmp_path)).days(DAILY_RECLAIM) == {WEDNESDAY}
        assert not list(LakeReader(str(tmp_path)).batches(DAILY_RECLAIM, ["broker"], of_days(DayRange(last=TUESDAY))))
        lake.replace_table(DAILY_RECLAIM, reclaim(spark, (4, TUESDAY)))
        assert brokers(lake) == [(4, TUESDAY)]
        with pytest.raises(ValueError, match=r"2026-01-06 among those that are to replace \['2026-01-05'\]"):
            lake.replace_partitions(DAILY_RECLAIM, reclaim(spark, (9, TUESDAY)), [MONDAY])
    assert lake.count_files(DAILY_RECLAIM, TUESDAY) == 1
    assert not (tmp_path / "_work").exists() or not list((tmp_path / "_work").iterdir())


def test_a_table_without_days_is_replaced_as_a_whole_even_by_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path))
    one = frame_of(spark, STUCK_NOW.schema, [("orders", *[None] * (len(STUCK_NOW.schema) - 1))])
    with lake.writer("a"):
        lake.replace_table(STUCK_NOW, one)
        assert [row.topic for row in lake.read(STUCK_NOW).collect()] == ["orders"]
        lake.replace_table(STUCK_NOW, one.limit(0))
        assert lake.read(STUCK_NOW).count() == 0
        lake.replace_table(DAILY_RECLAIM, reclaim(spark, (1, MONDAY)))
        lake.replace_table(DAILY_RECLAIM, reclaim(spark).limit(0))
        assert lake.read(DAILY_RECLAIM).count() == 0


def test_staged_rows_are_seen_by_nobody_until_they_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path / STRANGE))
    with lake.writer("a"):
        staged = lake.stage(DAILY_RECLAIM, reclaim(spark, (1, MONDAY)))
        assert staged.days() == [MONDAY]
        assert [row.broker for row in staged.read().collect()] == [1]
        assert brokers(lake) == []
        staged.commit()
        assert brokers(lake) == [(1, MONDAY)]
        lake.stage(DAILY_RECLAIM, reclaim(spark, (2, MONDAY))).discard()
    assert brokers(lake) == [(1, MONDAY)]


def test_gathered_rows_of_a_day_are_one_file_however_many_tasks_made_them(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path))
    rows = reclaim(spark, *((broker, day) for broker in range(8) for day in (MONDAY, TUESDAY))).repartition(8)
    adaptive = "spark.sql.adaptive.enabled"
    before = str(spark.conf.get(adaptive))
    spark.conf.set(adaptive, "true")
    try:
        with lake.writer("a"):
            lake.append(DAILY_RECLAIM, gathered(rows))
    finally:
        spark.conf.set(adaptive, before)
    assert [lake.count_files(DAILY_RECLAIM, day) for day in (MONDAY, TUESDAY)] == [1, 1]
    assert len(brokers(lake)) == 16


def test_of_dropped_rows_only_the_files_are_written_again(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path / STRANGE))
    with lake.writer("a"):
        # Every frame is written by a task of its own.
        frames = reclaim(spark, (1, MONDAY), (2, TUESDAY)), reclaim(spark, (3, MONDAY), (4, MONDAY), (5, WEDNESDAY))
        staged = lake.stage(DAILY_RECLAIM, frames[0].unionByName(frames[1]))
        before = staged.read_placed().where("broker < 4").select("broker", "file").collect()
        assert staged.drop(staged.read_placed().where("broker > 9")) == {}
        assert staged.drop(staged.read_placed().where("broker IN (4, 5)")) == {MONDAY: 1, WEDNESDAY: 1}
        files = {row.broker: row.file for row in staged.read_placed().select("broker", "file").collect()}
        assert sorted(files) == [1, 2, 3]
        assert {row.broker for row in before if files[row.broker] == row.file} == {1, 2}
        assert staged.days() == [MONDAY, TUESDAY]
        staged.commit()
    assert brokers(lake) == [(1, MONDAY), (2, TUESDAY), (3, MONDAY)]


def test_undecided_rows_are_replaced_by_what_is_decided(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path / STRANGE))

    def kept(rows: DataFrame, where: str) -> DataFrame:
        return rows.withColumn("kept", F.expr(where))

    def decide(rows: DataFrame) -> DataFrame:
        found = rows.withColumns({"broker": F.col("broker") * 10, "day": F.lit(TUESDAY)})
        return kept(found, "broker <> 30")

    with lake.writer("a"):
        rows = reclaim(spark, (1, MONDAY), (2, MONDAY), (3, MONDAY), (4, WEDNESDAY))
        staged = lake.stage(
            DAILY_RECLAIM, kept(rows, "CASE WHEN broker IN (2, 3) THEN NULL ELSE broker = 1 END"), decide
        )
        assert sorted(row.broker for row in staged.read().collect()) == [1, 20]
        assert sorted(row.broker for row in staged.quarantined().collect()) == [4, 30]
        staged.commit()
    assert brokers(lake) == [(1, MONDAY), (20, TUESDAY)]


def test_other_columns_are_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path))
    with lake.writer("a"):
        frame = reclaim(spark, (1, MONDAY)).drop("files").withColumn("broker", F.lit("1")).withColumn("more", F.lit(1))
        with pytest.raises(ColumnMismatch) as refusal:
            lake.append(DAILY_RECLAIM, frame)
        for words in ("broker: string instead of int", "files: nothing instead of bigint", "more: int instead of noth"):
            assert words in str(refusal.value)
        with pytest.raises(ValueError, match="without a day"):
            lake.append(DAILY_RECLAIM, reclaim(spark, (1, MONDAY)).withColumn("day", F.lit(None).cast("date")))
    with pytest.raises(RuntimeError, match="writer"):
        lake.append(DAILY_RECLAIM, reclaim(spark, (1, MONDAY)))


def test_a_lake_is_of_one_cluster(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path))
    with lake.writer("a"):
        lake.set_cluster_id("abc")
        lake.set_cluster_id("abc")
        with pytest.raises(LakeUnusable, match="of the cluster abc, not of xyz"):
            lake.set_cluster_id("xyz")
    assert Lake(spark, str(tmp_path)).cluster_id == "abc"
    (tmp_path / "lake.json").write_text('{"version": 3, "cluster_id": "abc"}')
    with pytest.raises(LakeUnusable, match="version 3"):
        Lake(spark, str(tmp_path))
    (tmp_path / "lake.json").write_text("[]")
    with pytest.raises(LakeUnusable, match="what it is"):
        Lake(spark, str(tmp_path))


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    "name",
    ["_work/precious/thesis.txt", "_work/notes.txt", "gold/stuck_now/bar.txt", "_pending/x", "_lock", "_lake.json"],
)
def test_a_directory_of_somebody_else_is_left_as_it_is(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    (tmp_path / "photos").mkdir()
    before = contents(tmp_path)
    with pytest.raises(LakeUnusable, match=r"is no lake \(it has no lake.json\) and holds .*photos"):
        Lake(spark, str(tmp_path)).writer("a").__enter__()
    (tmp_path / "photos").rmdir()
    with pytest.raises(LakeUnusable, match=f"holds {name.partition('/')[0]}, so nothing was written"):
        Lake(spark, str(tmp_path)).writer("a").__enter__()
    assert contents(tmp_path) == before
    with pytest.raises(LakeUnusable, match="is a file: a lake is a directory"):
        Lake(spark, str(tmp_path / name)).writer("a").__enter__()


def test_what_a_lake_is_outlives_a_crash_while_it_is_written(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "_lake.json").write_text('{"vers')
    (tmp_path / LOCK).write_text(json.dumps({"host": "here", "pid": 1, "what": "the first run"}))
    with Lake(spark, str(tmp_path)).writer("a"):
        pass
    with (lake := Lake(spark, str(tmp_path))).writer("b"):
        lake.set_cluster_id("abc")
        (tmp_path / "bronze").mkdir()
    (tmp_path / "lake.json").rename(tmp_path / "_lake.json")
    other = Lake(spark, str(tmp_path))
    assert other.cluster_id == "abc"
    with other.writer("c"), pytest.raises(LakeUnusable, match="of the cluster abc, not of xyz"):
        other.set_cluster_id("xyz")
    assert (tmp_path / "lake.json").exists()


def test_a_writer_knows_what_another_has_said_meanwhile(spark: SparkSession, tmp_path: Path) -> None:
    early, other = Lake(spark, str(tmp_path)), Lake(spark, str(tmp_path))
    with other.writer("a"):
        other.set_cluster_id("abc")
    with early.writer("b"), pytest.raises(LakeUnusable, match="of the cluster abc, not of xyz"):
        early.set_cluster_id("xyz")


def test_a_lake_without_logs_is_taken_over(spark: SparkSession, tmp_path: Path, lake_before: Path) -> None:
    shutil.copytree(lake_before, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / DAILY_RECLAIM.path / "_delta_log")
    (tmp_path / STUCK_NOW.path).mkdir(parents=True)
    (tmp_path / DAILY_RECLAIM.path / f"day={TUESDAY}").mkdir()
    (tmp_path / DAILY_RECLAIM.path / f"day={TUESDAY}" / "_EMPTY").touch()
    (tmp_path / "lake.json").write_text('{"version": 1, "cluster_id": "abc"}')
    plan = tmp_path / "_work" / "run-1" / "plan.json"
    plan.parent.mkdir(parents=True)
    plan.write_text("[]")
    assert found_in(str(tmp_path)) == BEFORE
    lake = Lake(spark, str(tmp_path))
    assert not lake.has_logs
    with pytest.raises(LakeUnusable, match="an unfinished change .*let that version finish it"):
        lake.writer("a").__enter__()
    plan.unlink()
    for step in range(100):
        with contextlib.suppress(Crash), Lake(spark, str(tmp_path), Dying(spark, str(tmp_path), step)).writer("b"):
            break
        assert found_in(str(tmp_path)) == BEFORE
    assert step > 3
    assert json.loads((tmp_path / "lake.json").read_text()) == {"version": 2, "cluster_id": "abc"}
    assert (lake.has_logs, brokers(lake), lake.days(DAILY_RECLAIM)) == (True, BEFORE, [MONDAY, WEDNESDAY])
    assert lake.has(STUCK_NOW)
    with lake.writer("c"):
        lake.replace_partitions(DAILY_RECLAIM, reclaim(spark, (9, MONDAY)), [MONDAY])
    assert brokers(lake) == [(2, WEDNESDAY), (9, MONDAY)]


def test_the_last_state_of_each_day_stays(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path))
    now = datetime.datetime.now(datetime.UTC)
    ages = [datetime.timedelta(days=1, minutes=2), *(datetime.timedelta(hours=hours) for hours in (24, 3, 2, 0))]
    times = [now - age for age in ages]
    with lake.writer("a"):
        for version, then in enumerate(times):
            lake.replace_table(DAILY_RECLAIM, reclaim(spark, (version, MONDAY)).coalesce(1))
            _make_older(tmp_path / DAILY_RECLAIM.path, version + 1, then)
        _make_older(tmp_path / DAILY_RECLAIM.path, 0, times[0])
        (orphan := tmp_path / DAILY_RECLAIM.path / f"day={MONDAY}" / "part-9.parquet").touch()
        os.utime(orphan, (0, 0))
        lake.vacuum()
    assert not orphan.exists()
    files = (tmp_path / DAILY_RECLAIM.path).rglob("*.parquet")
    kept = {row["broker"] for file in files for row in pq.read_table(file, partitioning=None).to_pylist()}
    last = {then.date(): version for version, then in enumerate(times)}
    assert kept == {*last.values(), 3}, "the last one of each day, and what left the table a moment ago"
    yesterday = LakeReader(str(tmp_path), now - datetime.timedelta(days=1))
    assert [batch.to_pylist() for batch in yesterday.batches(DAILY_RECLAIM, ["broker"])] == [[{"broker": 1}]]
    before = LakeReader(str(tmp_path), now - datetime.timedelta(days=1, minutes=1))
    with pytest.raises(LakeUnreadable, match="keeps the last state"):
        list(before.batches(DAILY_RECLAIM, ["broker"]))
    with pytest.raises(LakeUnreadable, match="do not reach back"):
        LakeReader(str(tmp_path), now - datetime.timedelta(days=3))
    assert brokers(lake) == [(4, MONDAY)]


def _make_older(table: Path, version: int, then: datetime.datetime) -> None:
    """As if the change had been made then."""
    log = table / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        for name in ("timestamp", "deletionTimestamp", "modificationTime"):
            for body in action.values():
                if name in body:
                    body[name] = int(then.timestamp() * 1000)
                if name == "modificationTime" and "path" in body:
                    os.utime(table / body["path"], (then.timestamp(), then.timestamp()))
    log.write_text("\n".join(map(json.dumps, actions)))
    os.utime(log, (then.timestamp(), then.timestamp()))


def test_a_column_that_is_new_enters_the_log(spark: SparkSession, tmp_path: Path) -> None:
    schema = StructType([field for field in DAILY_RECLAIM.schema if field.name != "topics"])
    earlier = dataclasses.replace(DAILY_RECLAIM, schema=schema)
    lake = Lake(spark, str(tmp_path))
    with lake.writer("a"):
        lake.append(earlier, reclaim(spark, (1, MONDAY)).drop("topics"))
        lake.append(DAILY_RECLAIM, reclaim(spark, (2, TUESDAY)))
    found = DeltaTable(tmp_path / DAILY_RECLAIM.path)
    assert [field.name for field in found.schema().fields if field.name == "topics"] == ["topics"]
    assert sorted((row.broker, row.topics) for row in lake.read(DAILY_RECLAIM).collect()) == [(1, None), (2, 1)]


def test_a_table_that_has_lost_its_log_is_left_alone(spark: SparkSession, tmp_path: Path, lake_before: Path) -> None:
    shutil.copytree(lake_before, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / DAILY_RECLAIM.path / LOG)
    lake = Lake(spark, str(tmp_path))
    for look in (lake.read, lake.has, lake.days):
        with pytest.raises(FileSystemError, match="has files and no log"):
            look(DAILY_RECLAIM)
    with lake.writer("a"):
        for change in (_replace, _append, _write_whole):
            with pytest.raises(FileSystemError, match="has files and no log"):
                change(lake, spark)
        lake.vacuum()
    shutil.copytree(lake_before / DAILY_RECLAIM.path / LOG, tmp_path / DAILY_RECLAIM.path / LOG)
    assert brokers(lake) == BEFORE


# --- the lock -----------------------------------------------------------------------------------------------------

HOLDER = """
import sys
from pathlib import Path
from lethe.pipeline.io import lock
with lock.acquire_local(Path(sys.argv[1]), "run 7"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_told_of_the_first_until_that_dies(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path.cwd()
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(Locked, match=rf"process {holder.pid} on {socket.gethostname()} \(run 7\)"):
                lake.writer("b").__enter__()
        finally:
            holder.kill()
    with lake.writer("b"):
        pass


def test_a_file_of_the_locks_name_that_is_none_is_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("mine")
    with pytest.raises(FileSystemError, match=f"{LOCK} is no lock of a checkpoint: name another directory"):
        acquire(FileSystem(spark, str(tmp_path)), "stream", "checkpoint").__enter__()
    assert (tmp_path / LOCK).read_text() == "mine"
    for left in ("", '{"ho', '{"host": "here", "pid": 1, "what": "run 7"}'):
        (tmp_path / LOCK).write_text(left)
        with acquire(FileSystem(spark, str(tmp_path)), "stream", "checkpoint"):
            assert "stream" in (tmp_path / LOCK).read_text()


class Elsewhere(FileSystem):
    """A file system that is not local, as far as the lock knows."""

    @property
    def local_root(self) -> Path | None:
        return None


def test_where_the_system_has_no_locks_a_file_is_one(spark: SparkSession, tmp_path: Path) -> None:
    files = Elsewhere(spark, str(tmp_path))
    with acquire(files, "run 1"), pytest.raises(Locked, match=rf"process {os.getpid()} .*remove file:.*{LOCK}"):
        acquire(files, "run 2").__enter__()
    assert not (tmp_path / LOCK).exists()
    (tmp_path / LOCK).write_text("{")
    with pytest.raises(Locked, match="another process"):
        acquire(files, "run 2").__enter__()
    (tmp_path / LOCK).write_text(json.dumps({"host": "far away", "pid": 1, "what": "run 3"}))
    with pytest.raises(Locked, match=r"process 1 on far away \(run 3\)"):
        acquire(files, "run 2").__enter__()
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    (tmp_path / LOCK).write_text(json.dumps({"host": socket.gethostname(), "pid": gone.pid, "what": "run 4"}))
    with acquire(files, "run 5"):
        assert json.loads((tmp_path / LOCK).read_text())["what"] == "run 5"


# --- crashes ------------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process is gone."""


class Dying(FileSystem):
    """Dies at the n-th change of the file system: before it, and after half of what a removal does."""

    def __init__(self, spark: SparkSession, root: str, dies_at: int) -> None:
        super().__init__(spark, root)
        self.left = dies_at

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash

    def make_directory(self, path: str) -> None:
        self._count()
        super().make_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._count()
        super().rename(source, target)

    def write_text(self, path: str, text: str, *, new: bool = False) -> None:
        self._count()
        super().write_text(path, text, new=new)

    def remove(self, path: str) -> None:
        self._count()
        for item in self.list_directory(path)[:1]:
            super().remove(item.path)
        self._count()
        super().remove(path)


def _replace(lake: Lake, spark: SparkSession) -> None:
    frame = reclaim(spark, (7, MONDAY), (8, TUESDAY)).coalesce(1)
    lake.replace_partitions(DAILY_RECLAIM, frame, [MONDAY, TUESDAY, WEDNESDAY])


def _append(lake: Lake, spark: SparkSession) -> None:
    lake.append(DAILY_RECLAIM, reclaim(spark, (7, MONDAY), (8, TUESDAY)).coalesce(1))


def _write_whole(lake: Lake, spark: SparkSession) -> None:
    lake.replace_table(DAILY_RECLAIM, reclaim(spark, (7, MONDAY)).coalesce(1))


BEFORE = [(1, MONDAY), (2, WEDNESDAY)]


@pytest.fixture(scope="module")
def lake_before(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with these rows, to be copied."""
    root = tmp_path_factory.mktemp("before") / "lake"
    lake = Lake(spark, str(root))
    with lake.writer("a"):
        lake.append(DAILY_RECLAIM, reclaim(spark, *BEFORE).coalesce(1))
    return root


@pytest.mark.parametrize(
    "change, after",
    [
        (_replace, [(7, MONDAY), (8, TUESDAY)]),
        (_append, [(1, MONDAY), (2, WEDNESDAY), (7, MONDAY), (8, TUESDAY)]),
        (_write_whole, [(7, MONDAY)]),
    ],
)
def test_a_crash_at_any_step_leaves_all_or_nothing_to_the_next_writer(
    spark: SparkSession,
    tmp_path: Path,
    lake_before: Path,
    change: Callable[[Lake, SparkSession], None],
    after: list[tuple[int, datetime.date]],
) -> None:
    seen = []
    for step in range(100):
        root = str(tmp_path / str(step))
        shutil.copytree(lake_before, root)
        dying = Dying(spark, root, step)
        try:
            broken = Lake(spark, root, dying)
            with broken.writer("b"):
                change(broken, spark)
            assert found_in(root) == after
            break
        except Crash:
            with Lake(spark, root).writer("c"):
                seen.append(found_in(root))
                assert seen[-1] in (BEFORE, after)
                assert not list((tmp_path / str(step) / "_work").iterdir())
    else:
        pytest.fail("the change never came to its end")
    assert seen == sorted(seen, key=lambda rows: rows != BEFORE), "once decided, a change stays"
    assert BEFORE in seen
    assert after in seen


def test_a_crash_while_the_last_crash_is_settled_is_settled_too(
    spark: SparkSession, tmp_path: Path, lake_before: Path
) -> None:
    after, crashes, root = [(7, MONDAY), (8, TUESDAY)], 0, ""
    for last in range(100):
        root = str(tmp_path / str(last))
        shutil.copytree(lake_before, root)
        with contextlib.suppress(Crash), (lake := Lake(spark, root, Dying(spark, root, last))).writer("b"):
            _replace(lake, spark)
        if found_in(root) == after:
            break
    for step in range(1, 100):
        try:
            with Lake(spark, root, Dying(spark, root, step)).writer("c"):
                break
        except Crash:
            crashes += 1
    assert crashes > 1
    assert brokers(Lake(spark, root)) == after


class Refused:
    """A frame that cannot be written, as far as the lake uses one."""

    def __init__(self, spark: SparkSession, words: str) -> None:
        self.sparkSession = spark
        self.write = self
        self.words = words

    def mode(self, _: str) -> Refused:
        return self

    def options(self, **_: object) -> Refused:
        return self

    def parquet(self, path: str) -> None:
        raise PySparkException(
            f"[TASK_WRITE_FAILED] {path}\n\tat org.apache\nCaused by: java.io.{self.words}\n\tat a.b"
        )


def test_a_full_disk_is_told_in_a_line_and_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    staging = Staging(FileSystem(spark, str(tmp_path)), "a-1")
    for words in (
        "IOException: No space left on device",
        "FileNotFoundException: /data/a journal.jsonl (Permission denied)",
    ):
        (tmp_path / "_work" / "a-1").mkdir(parents=True)
        with pytest.raises(FileSystemError) as trouble:
            write_rows(cast("DataFrame", Refused(spark, words)), staging, "file:/lake/new", [])
        assert str(trouble.value) in (
            "cannot write: file:/lake/new: No space left on device",
            "cannot open /data/a journal.jsonl: Permission denied",
        )
        assert not (tmp_path / "_work" / "a-1").exists()
    with pytest.raises(PySparkException, match="a fault of ours"):
        write_rows(cast("DataFrame", Refused(spark, "IOException: a fault of ours")), staging, "file:/lake/new", [])


def test_a_pattern_passes_over_no_directory(spark: SparkSession) -> None:
    with open_directory() as root:
        for name in ("a", "b"):
            (root / name / "journal").mkdir(parents=True)
        pattern = f"{root}/*/journal"
        assert len(FileSystem(spark, pattern).glob(pattern)) == 2
        (root / "b").chmod(0)
        with unprivileged(), pytest.raises(PermissionError, match=f"cannot see what is in {root}/b"):
            FileSystem(spark, pattern).glob(f"file:{pattern}")
        (root / "b").chmod(0o700)


def test_trouble_names_the_path(spark: SparkSession, tmp_path: Path) -> None:
    files = FileSystem(spark, str(tmp_path))
    with pytest.raises(FileSystemError, match="cannot read: .*nowhere"):
        files.read_text(f"{files.root}/nowhere")
    with pytest.raises(FileSystemError, match="cannot rename"):
        files.rename(f"{files.root}/nowhere", f"{files.root}/there")
    with pytest.raises(FileSystemError, match="nosuch"):
        FileSystem(spark, "nosuch://host/lake")
    with pytest.raises(FileSystemError, match="names nothing"):
        FileSystem(spark, "")
    with pytest.raises(FileSystemError, match=r"a:b: .*no names with a colon"):
        files.glob(str(tmp_path / "a:b"))
    (tmp_path / "a.txt").write_text("x")
    assert [item.name for item in files.glob(f"{files.root}/*.txt")] == ["a.txt"]
    assert files.glob(f"{files.root}/*.none") == []
