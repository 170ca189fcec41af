"""From journals to the bronze table of events, which only grows.

Lines are staged first, in one pass over the journal. A hash of two staged columns then decides whether any event record
is a duplicate. Usually none is, and the staged files are moved into the table unchanged. Otherwise the new records are
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

from lethe.pipeline.io.files import to_uri
from lethe.pipeline.io.frames import frame_of
from lethe.pipeline.io.journal import COMPRESSED_ENDING, find_damaged_file, read_lines
from lethe.pipeline.io.lake import Lake, StagedRows
from lethe.pipeline.jobs.report import DayRange, IngestCounts
from lethe.pipeline.literals import day_value
from lethe.pipeline.tables import CONTROLLER_EVENTS, QUARANTINE
from lethe.pipeline.transforms import bronze_events

KEY = ("source", "id")
_SOURCE_FILE: Final = StructType([StructField("_source_file", StringType())])


class AddedCounts(NamedTuple):
    """Counts of staged rows."""

    read: int
    new: int
    late: int
    """New rows of days before the newest day that bronze had."""


def ingest_journal(
    spark: SparkSession, lake: Lake, files: Sequence[str], days: DayRange, *, ingested_at: Column, batch_id: str
) -> tuple[IngestCounts, list[datetime.date]]:
    """Add the new event records of these days from a journal's files. Return their counts, and the days of the files'
    records."""
    damaged: dict[str, str] = {}
    late_before = lake.read(QUARANTINE).where(F.col("reason") == bronze_events.LATE)
    had_late = lake.has(QUARANTINE) and bool(late_before.limit(1).count())

    def stage() -> StagedRows:
        lines = read_lines(spark, files, damaged)
        if had_late:
            late = late_before.select(F.col("line").alias("value"), F.col("_source_file").alias("file"))
            lines = lines.unionByName(late)
        rows = bronze_events.with_staging_columns(
            bronze_events.parse(lines), ingested_at=ingested_at, batch_id=batch_id
        )
        return lake.stage(CONTROLLER_EVENTS, rows.where(within(days)))

    staged = _stage_around_damage(stage, files, damaged)
    touched = staged.days()
    had = lake.days(CONTROLLER_EVENTS)
    aside = bronze_events.quarantine_rows(staged.quarantined())
    quarantined = staged.quarantined().count() if staged.has_quarantined() else 0
    if damaged:
        aside = aside.unionByName(_damaged_file_rows(spark, damaged))
        quarantined += len(damaged)
    replace_quarantined(lake, aside, quarantined, [*files, *_names_before_compression(files)])
    lake.add_pending_days(touched)
    read, new, late = add_new_records(lake, staged, had)
    if had_late:
        _release_late(lake, days)
    return IngestCounts(CONTROLLER_EVENTS.name, read + quarantined, new, read - new, late, quarantined), touched


def _names_before_compression(files: Sequence[str]) -> list[str]:
    """Return the names of these files before rotation compressed them: their quarantined lines are read again from
    here."""
    return [file.removesuffix(COMPRESSED_ENDING) for file in files if file.endswith(COMPRESSED_ENDING)]


def _stage_around_damage(
    stage: Callable[[], StagedRows], files: Collection[str], damaged: dict[str, str]
) -> StagedRows:
    """Return the result of `stage` once `damaged` has every damaged file and its reason. Spark reports one file at a
    time."""
    while True:
        try:
            return stage()
        except (PySparkException, Py4JJavaError) as error:
            found = find_damaged_file(error, files)
            if found is None or found.file in damaged:
                raise
            damaged[found.file] = found.why


def _damaged_file_rows(spark: SparkSession, damaged: Mapping[str, str]) -> DataFrame:
    """Rows of QUARANTINE."""
    nothing = hashlib.sha256().hexdigest()
    rows = (
        (to_uri(file), nothing, "", bronze_events.DAMAGED, f"{why}: read as far as it goes", 1)
        for file, why in damaged.items()
    )
    return frame_of(spark, QUARANTINE.schema, rows)


def within(days: DayRange, day: Column | None = None) -> Column:
    """Return whether a staged row is in the range; rows without a day always are."""
    day = F.col("day") if day is None else day
    inside = F.lit(True)
    if days.first is not None:
        inside = inside & (day >= day_value(days.first))
    if days.last is not None:
        inside = inside & (day <= day_value(days.last))
    return day.isNull() | inside


def replace_quarantined(lake: Lake, aside: DataFrame, count: int, files: Collection[str]) -> None:
    """Replace the quarantined lines of these files by `count` new rows. Late lines of the stream stay until they are in
    bronze."""
    if not lake.has(QUARANTINE):
        if count:
            lake.replace_table(QUARANTINE, aside)
        return
    whole = lake.read(QUARANTINE)
    is_late = F.col("reason") == bronze_events.LATE
    old = whole.where(~is_late)
    read = frame_of(aside.sparkSession, _SOURCE_FILE, ((to_uri(file),) for file in files))
    if count or old.join(read, "_source_file", "left_semi").limit(1).count():
        others = old.join(read, "_source_file", "left_anti").unionByName(whole.where(is_late))
        lake.replace_table(QUARANTINE, others.unionByName(aside) if count else others)


def _release_late(lake: Lake, days: DayRange) -> None:
    """Drop quarantined late lines of these days, which are in bronze now."""
    is_late = F.col("reason") == bronze_events.LATE
    inside = within(days, bronze_events.late_day(F.col("detail")))
    lake.replace_table(QUARANTINE, lake.read(QUARANTINE).where(~(is_late & inside)))


def add_new_records(
    lake: Lake,
    staged: StagedRows,
    had: Sequence[datetime.date],
    add_to_change: Callable[[StagedRows], None] = lambda _: None,
) -> AddedCounts:
    """Add the new rows among the staged ones. `had` are the days of bronze. `add_to_change` extends the same change."""
    bronze = lake.read(CONTROLLER_EVENTS, staged.days())
    by_day = staged.rows_by_day()
    read = sum(by_day.values())
    if not _has_duplicates(staged.read(), bronze):
        add_to_change(staged)
        staged.commit()
        return AddedCounts(read, read, _count_late(by_day, had))
    once = Window.partitionBy(*KEY).orderBy("time", "_source_file", "type", "subject", "data")
    first = staged.read().withColumn("copy", F.row_number().over(once)).where("copy = 1").drop("copy")
    picked = lake.stage(CONTROLLER_EVENTS, first.join(bronze.select(*KEY), list(KEY), "left_anti"))
    by_day = picked.rows_by_day()
    add_to_change(picked)
    picked.commit()
    staged.discard()
    return AddedCounts(read, sum(by_day.values()), _count_late(by_day, had))


def _has_duplicates(staged: DataFrame, bronze: DataFrame) -> bool:
    """Return True if a key may occur twice among both, by 64-bit hashes."""
    keys = staged.select(F.xxhash64(*KEY).alias("key")).unionByName(bronze.select(F.xxhash64(*KEY).alias("key")))
    return bool(keys.groupBy("key").count().where("count > 1").limit(1).collect())


def _count_late(by_day: Mapping[datetime.date, int], had: Sequence[datetime.date]) -> int:
    """Rows of days before the newest of `had`."""
    return sum(count for day, count in by_day.items() if had and day < max(had))
