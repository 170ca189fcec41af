"""From journals and surveys to bronze tables, which only grow.

Lines are staged first, in one pass over the journal. A hash of two staged columns then decides whether any line is a
duplicate. Usually none is, and the staged files are moved into the table unchanged; otherwise the new lines are
selected.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lethe.pipeline.io.files import quoted
from lethe.pipeline.io.frames import frame_of
from lethe.pipeline.io.journal import COMPRESSED, damage, read_lines
from lethe.pipeline.io.lake import Lake, StagedRows
from lethe.pipeline.jobs.report import DayRange, Taken
from lethe.pipeline.literals import day_value
from lethe.pipeline.tables import CONTROLLER_EVENTS, QUARANTINE
from lethe.pipeline.transforms import bronze_events

KEY = ("source", "id")
_SOURCE_FILE: Final = StructType([StructField("_source_file", StringType())])


class Added(NamedTuple):
    """Counts of staged rows."""

    read: int
    new: int
    late: int
    """New rows of days before the newest day that bronze had."""


def ingest_journal(
    spark: SparkSession, lake: Lake, files: Sequence[str], days: DayRange, *, ingested_at: Column, batch_id: str
) -> tuple[Taken, list[datetime.date]]:
    """Add the new lines of these days from a journal's files. Return their counts, and the days of the files' lines."""
    damaged: dict[str, str] = {}
    late_before = lake.read(QUARANTINE).where(F.col("reason") == bronze_events.LATE)
    had_late = lake.has(QUARANTINE) and bool(late_before.limit(1).count())

    def stage() -> StagedRows:
        lines = read_lines(spark, files, damaged)
        if had_late:
            late = late_before.select(F.col("line").alias("value"), F.col("_source_file").alias("file"))
            lines = lines.unionByName(late)
        rows = bronze_events.to_stage(bronze_events.parse(lines), ingested_at=ingested_at, batch_id=batch_id)
        return lake.staged(CONTROLLER_EVENTS, rows.where(within(days)))

    staged = _past_damage(stage, files, damaged)
    touched = staged.days()
    had = lake.days(CONTROLLER_EVENTS)
    aside = bronze_events.quarantine_rows(staged.aside())
    quarantined = staged.aside().count() if staged.has_aside() else 0
    if damaged:
        aside = aside.unionByName(_damaged_files(spark, damaged))
        quarantined += len(damaged)
    replace_quarantined(lake, aside, quarantined, [*files, *_compressed_since(files)])
    lake.owe(touched)
    read, new, late = add_new(lake, staged, had)
    if had_late:
        _release_late(lake, days)
    return Taken(CONTROLLER_EVENTS.name, read + quarantined, new, read - new, late, quarantined), touched


def _compressed_since(files: Sequence[str]) -> list[str]:
    """What these files were called before they were rotated and compressed: their lines are read out of these now."""
    return [file.removesuffix(COMPRESSED) for file in files if file.endswith(COMPRESSED)]


def _past_damage(stage: Callable[[], StagedRows], files: Collection[str], damaged: dict[str, str]) -> StagedRows:
    """The result of `stage` once `damaged` has every damaged file, with the reason. Spark reports one at a time."""
    while True:
        try:
            return stage()
        except (PySparkException, Py4JJavaError) as error:
            found = damage(error, files)
            if found is None or found.file in damaged:
                raise
            damaged[found.file] = found.why


def _damaged_files(spark: SparkSession, damaged: Mapping[str, str]) -> DataFrame:
    """Rows of QUARANTINE."""
    nothing = hashlib.sha256().hexdigest()
    rows = (
        (quoted(file), nothing, "", bronze_events.DAMAGED, f"{why}: read as far as it goes", 1)
        for file, why in damaged.items()
    )
    return frame_of(spark, QUARANTINE.schema, rows)


def within(days: DayRange, day: Column | None = None) -> Column:
    """Whether a staged row is of these days; lines without a day are of all."""
    day = F.col("day") if day is None else day
    inside = F.lit(True)
    if days.first is not None:
        inside = inside & (day >= day_value(days.first))
    if days.last is not None:
        inside = inside & (day <= day_value(days.last))
    return day.isNull() | inside


def replace_quarantined(lake: Lake, aside: DataFrame, count: int, files: Collection[str]) -> None:
    """Replace the quarantined lines of these files by these `count` ones. Lines that the stream found late stay until
    they are in bronze."""
    if not lake.has(QUARANTINE):
        if count:
            lake.write_whole(QUARANTINE, aside)
        return
    whole = lake.read(QUARANTINE)
    is_late = F.col("reason") == bronze_events.LATE
    old = whole.where(~is_late)
    read = frame_of(aside.sparkSession, _SOURCE_FILE, ((quoted(file),) for file in files))
    if count or old.join(read, "_source_file", "left_semi").limit(1).count():
        others = old.join(read, "_source_file", "left_anti").unionByName(whole.where(is_late))
        lake.write_whole(QUARANTINE, others.unionByName(aside) if count else others)


def _release_late(lake: Lake, days: DayRange) -> None:
    """Drop quarantined late lines of these days, which are in bronze now."""
    is_late = F.col("reason") == bronze_events.LATE
    inside = within(days, bronze_events.late_day(F.col("detail")))
    lake.write_whole(QUARANTINE, lake.read(QUARANTINE).where(~(is_late & inside)))


def add_new(
    lake: Lake,
    staged: StagedRows,
    had: Sequence[datetime.date],
    together: Callable[[StagedRows], None] = lambda _: None,
) -> Added:
    """Add the new rows among the staged ones. `had` are the days that bronze has; `together` adds to the same
    change."""
    bronze = lake.read(CONTROLLER_EVENTS, staged.days())
    by_day = staged.rows_by_day()
    read = sum(by_day.values())
    if not _any_twice(staged.read(), bronze):
        together(staged)
        staged.keep()
        return Added(read, read, _late(by_day, had))
    once = Window.partitionBy(*KEY).orderBy("time", "_source_file", "type", "subject", "data")
    first = staged.read().withColumn("copy", F.row_number().over(once)).where("copy = 1").drop("copy")
    picked = lake.staged(CONTROLLER_EVENTS, first.join(bronze.select(*KEY), list(KEY), "left_anti"))
    by_day = picked.rows_by_day()
    together(picked)
    picked.keep()
    staged.forget()
    return Added(read, sum(by_day.values()), _late(by_day, had))


def _any_twice(staged: DataFrame, bronze: DataFrame) -> bool:
    """Whether a key is there twice among both, as far as hashes of 64 bits tell."""
    keys = staged.select(F.xxhash64(*KEY).alias("key")).unionByName(bronze.select(F.xxhash64(*KEY).alias("key")))
    return bool(keys.groupBy("key").count().where("count > 1").limit(1).collect())


def _late(by_day: Mapping[datetime.date, int], had: Sequence[datetime.date]) -> int:
    """Rows of days before the newest of `had`."""
    return sum(count for day, count in by_day.items() if had and day < max(had))
