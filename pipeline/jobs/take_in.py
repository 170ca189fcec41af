"""From journals and surveys to bronze tables, which only grow.

Lines are staged first, in one pass over the journal. Whether any of them is there twice, or was there before, is then
asked of two columns of what was staged, by hash: as a rule the answer is no, and the staged files become the table's as
they are. Only otherwise are the new ones picked out.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pipeline.io.files import quoted
from pipeline.io.journal import journal_files, read_lines
from pipeline.io.lake import Lake, StagedRows
from pipeline.jobs.report import DayRange, Taken
from pipeline.tables import CONTROLLER_EVENTS, QUARANTINE
from pipeline.transforms import bronze_events

KEY = ("source", "id")


def take_in_journal(
    spark: SparkSession, lake: Lake, places: Sequence[str], days: DayRange, *, ingested_at: Column, batch_id: str
) -> tuple[Taken, list[datetime.date]]:
    """Adds the journal's new lines of these days; what became of them, and the days that have lines in the journal."""
    files = journal_files(spark, places)
    late_before = lake.read(QUARANTINE).where(F.col("reason") == bronze_events.LATE)
    had_late = bool(late_before.limit(1).count())
    lines = read_lines(spark, files)
    if had_late:
        lines = lines.unionByName(late_before.select(F.col("line").alias("value"), F.col("_source_file").alias("file")))
    parsed = bronze_events.parse(lines)
    staged = lake.staged(
        CONTROLLER_EVENTS,
        bronze_events.to_stage(parsed, ingested_at=ingested_at, batch_id=batch_id).where(within(days)),
    )
    touched = staged.days()
    had = lake.days(CONTROLLER_EVENTS)
    aside = bronze_events.set_aside(staged.aside())
    quarantined = keep_aside(lake, aside, files)
    read = staged.read().count()
    lake.owe(touched)
    new, late = add_new(lake, staged, had)
    if had_late:
        _release_late(lake, days)
    return Taken(CONTROLLER_EVENTS.name, read + quarantined, new, read - new, late, quarantined), touched


def within(days: DayRange, day: Column | None = None) -> Column:
    """Whether a staged row is of these days; lines without a day are of all."""
    day = F.col("day") if day is None else day
    inside = F.lit(True)
    if days.first is not None:
        inside = inside & (day >= F.lit(days.first))
    if days.last is not None:
        inside = inside & (day <= F.lit(days.last))
    return day.isNull() | inside


def keep_aside(lake: Lake, aside: DataFrame, files: Collection[str]) -> int:
    """Lines of these files that are set aside take the place of those that were before; how many they are. Lines that
    the stream found late stay until they are in bronze."""
    whole = lake.read(QUARANTINE)
    is_late = F.col("reason") == bronze_events.LATE
    old = whole.where(~is_late)
    count = aside.agg(F.coalesce(F.sum("copies"), F.lit(0))).collect()[0][0]
    read = old.sparkSession.createDataFrame([(quoted(file),) for file in files], "_source_file string")
    if count or old.join(read, "_source_file", "left_semi").limit(1).count():
        others = old.join(read, "_source_file", "left_anti").unionByName(whole.where(is_late))
        lake.write_whole(QUARANTINE, others.unionByName(aside))
    return int(count)


def _release_late(lake: Lake, days: DayRange) -> None:
    """Lines that came late and are of these days are in bronze by now."""
    is_late = F.col("reason") == bronze_events.LATE
    inside = within(days, bronze_events.late_day(F.col("detail")))
    lake.write_whole(QUARANTINE, lake.read(QUARANTINE).where(~(is_late & inside)))


def add_new(
    lake: Lake,
    staged: StagedRows,
    had: Sequence[datetime.date],
    together: Callable[[StagedRows], None] = lambda _: None,
) -> tuple[int, int]:
    """Adds what is new of the staged rows; how many rows that is, and how many of them are of days before the newest of
    `had`. `together` adds to the change what is to happen with it."""
    bronze = lake.read(CONTROLLER_EVENTS, staged.days())
    is_late = F.col("day") < F.lit(max(had)) if had else F.lit(False)
    if not _any_twice(staged.read(), bronze):
        new, late = _counts(staged.read(), is_late)
        together(staged)
        staged.keep()
        return new, late
    once = Window.partitionBy(*KEY).orderBy("time", "_source_file", "type", "subject", "data")
    first = staged.read().withColumn("copy", F.row_number().over(once)).where("copy = 1").drop("copy")
    picked = lake.staged(CONTROLLER_EVENTS, first.join(bronze.select(*KEY), list(KEY), "left_anti"))
    new, late = _counts(picked.read(), is_late)
    together(picked)
    picked.keep()
    staged.forget()
    return new, late


def _any_twice(staged: DataFrame, bronze: DataFrame) -> bool:
    """Whether a key is there twice among both, as far as hashes of 64 bits tell."""
    keys = staged.select(F.xxhash64(*KEY).alias("key")).unionByName(bronze.select(F.xxhash64(*KEY).alias("key")))
    return bool(keys.groupBy("key").count().where("count > 1").limit(1).collect())


def _counts(rows: DataFrame, is_late: Column) -> tuple[int, int]:
    row = rows.agg(F.count(F.lit(1)), F.coalesce(F.sum(is_late.cast("int")), F.lit(0))).collect()[0]
    return int(row[0]), int(row[1])
