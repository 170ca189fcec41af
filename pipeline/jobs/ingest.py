"""From journals to the bronze table of events, which only grows.

Only files that are not known (`pipeline.io.known_inputs`) are read. Their lines are staged first, in one pass. A hash
of two staged columns then decides which event records may be duplicates. Where none is, the staged files are moved
into the table unchanged. Otherwise the new records are selected; only those that may be duplicates are sorted.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lethe.pipeline.io.files import to_uri
from lethe.pipeline.io.frames import frame_of
from lethe.pipeline.io.journal import COMPRESSED_ENDING, find_damaged_file, find_other_damaged, read_lines
from lethe.pipeline.io.known_inputs import KnownFile, is_known
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.io.local_files import file_identity
from lethe.pipeline.io.staged_rows import SOURCE_FILE, StagedRows
from lethe.pipeline.io.table_log import Batch
from lethe.pipeline.jobs.records import stage_lines
from lethe.pipeline.jobs.report import DayRange, IngestCounts
from lethe.pipeline.literals import day_value
from lethe.pipeline.tables import CONTROLLER_EVENTS, QUARANTINE
from lethe.pipeline.transforms import bronze_events
from lethe.pipeline.transforms.contract import Ingestion

KEY = ("source", "id")
_SOURCE_FILE: Final = StructType([StructField("_source_file", StringType())])


class JournalIngest(NamedTuple):
    """What was read of a journal."""

    counts: IngestCounts
    """Of all its files, the known ones among them."""
    days: list[datetime.date]
    """The days of all event records."""
    known: dict[str, KnownFile]
    """What is known of these files now."""


def ingest_journal(
    spark: SparkSession,
    lake: Lake,
    files: Sequence[str],
    days: DayRange,
    ingestion: Ingestion,
    known: Mapping[str, KnownFile] = MappingProxyType({}),
) -> JournalIngest:
    """Add the new event records of these days from a journal's files, of which `known` ones are not read."""
    # Before they are read: what is written to them from now on makes them unknown again.
    identities = {path: file_identity(path) for path in files}
    read_before = {path: known[path] for path in files if is_known(known.get(path), identities[path])}
    unread = [path for path in files if path not in read_before]
    # A stream that quarantines lines has all files forgotten.
    may_be_late = not known and lake.has(QUARANTINE)
    late_before = lake.read(QUARANTINE).where(F.col("reason") == bronze_events.LATE) if may_be_late else None
    had_late = late_before is not None and bool(late_before.limit(1).count())
    before = counts_of_known_files(read_before.values(), days)
    if not (unread or had_late):
        return JournalIngest(before, days_of(read_before.values(), days), read_before)
    damaged: dict[str, str] = {}

    def stage() -> StagedRows:
        lines = read_lines(spark, unread, damaged)
        if had_late and late_before is not None:
            late = late_before.select(F.col("line").alias("value"), F.col("_source_file").alias("file"))
            lines = lines.unionByName(late)
        return stage_lines(lake, lines, ingestion, where=within(days))

    staged = _stage_around_damage(spark, stage, unread, damaged)
    aside = bronze_events.quarantine_rows(staged.quarantined())
    bad = staged.quarantined_by(SOURCE_FILE)
    if damaged:
        aside = aside.unionByName(_damaged_file_rows(spark, damaged))
        bad |= {to_uri(path): bad.get(to_uri(path), 0) + 1 for path in damaged}
    quarantined = sum(bad.values())
    replace_quarantined(lake, aside, quarantined, [*unread, *_names_before_compression(files)])
    by_file = staged.rows_by_file()
    by_day = count_by_day(by_file)
    added = add_new_records(lake, staged, by_day)
    now_known: dict[str, KnownFile] = read_before
    if had_late:
        _release_late(lake, days)
    elif days == DayRange():
        now_known = {**read_before, **_known_now(identities, unread, by_file, bad)}
    counts = IngestCounts(
        CONTROLLER_EVENTS.name,
        before.read + added.read + quarantined,
        added.new,
        before.duplicate + added.duplicate,
        added.late,
        before.quarantined + quarantined,
    )
    touched = sorted({*days_of(read_before.values(), days), *by_day})
    return JournalIngest(counts, touched, now_known)


def days_of(known: Iterable[KnownFile], days: DayRange) -> list[datetime.date]:
    """Return the days of these files' event records, within the range."""
    found = {datetime.date.fromisoformat(day) for one in known for day in one.records}
    return sorted(day for day in found if day in days)


def counts_of_known_files(known: Collection[KnownFile], days: DayRange) -> IngestCounts:
    """Return the counts of files that are not read again."""
    records = sum(
        count for one in known for day, count in one.records.items() if datetime.date.fromisoformat(day) in days
    )
    quarantined = sum(one.quarantined for one in known)
    return IngestCounts(CONTROLLER_EVENTS.name, records + quarantined, 0, records, 0, quarantined)


def count_by_day(by_file: Mapping[tuple[str, datetime.date], int]) -> Counter[datetime.date]:
    """Return the number of rows by day."""
    found: Counter[datetime.date] = Counter()
    for (_, day), count in by_file.items():
        found[day] += count
    return found


def _known_now(
    identities: Mapping[str, str | None],
    files: Sequence[str],
    by_file: Mapping[tuple[str, datetime.date], int],
    bad: Mapping[str, int],
) -> dict[str, KnownFile]:
    """Return what is known of the files that were just read, by path; nothing if Spark names one otherwise."""
    records: dict[str, dict[str, int]] = {}
    for (uri, day), count in by_file.items():
        records.setdefault(uri, {})[str(day)] = count
    paths = {to_uri(path): path for path in files}
    if not paths.keys() >= {*records, *bad}:
        return {}
    return {
        path: KnownFile(identity, records.get(uri, {}), bad.get(uri, 0))
        for uri, path in paths.items()
        if (identity := identities[path]) is not None
    }


def _names_before_compression(files: Sequence[str]) -> list[str]:
    """Return the names that these files had before rotation compressed them, of those that are gone: their quarantined
    lines are read again from here."""
    names = (file.removesuffix(COMPRESSED_ENDING) for file in files if file.endswith(COMPRESSED_ENDING))
    return [name for name in names if name not in files]


def _stage_around_damage(
    spark: SparkSession, stage: Callable[[], StagedRows], files: Collection[str], damaged: dict[str, str]
) -> StagedRows:
    """Return the result of `stage` once `damaged` has every damaged file and its reason. Spark reports one of them:
    then all others are looked for at once."""
    while True:
        try:
            return stage()
        except (PySparkException, Py4JJavaError) as error:
            found = find_damaged_file(error, files)
            if found is None or found.file in damaged:
                raise
            damaged[found.file] = found.why
            damaged |= find_other_damaged(spark, [path for path in files if path not in damaged])


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
    lake: Lake, staged: StagedRows, by_day: Counter[datetime.date], batch: Batch | None = None
) -> IngestCounts:
    """Add the new rows among the staged ones, of which there are so many `by_day`."""
    had = lake.days(CONTROLLER_EVENTS)
    days = staged.days()
    lake.fit_shuffles(days, staged)
    bronze = lake.read(CONTROLLER_EVENTS, days)
    new = Counter(by_day)
    doubled = _doubled_keys(staged.read(), bronze).persist()
    try:
        if doubled.count():
            new.subtract(staged.drop(_known_rows(staged.read_placed(), bronze, doubled)))
    finally:
        doubled.unpersist()
    lake.add_pending_days(staged.days())
    staged.commit(batch)
    late = sum(count for day, count in new.items() if had and day < had[-1])
    return IngestCounts(CONTROLLER_EVENTS.name, by_day.total(), new.total(), by_day.total() - new.total(), late)


def _doubled_keys(staged: DataFrame, bronze: DataFrame) -> DataFrame:
    """Return (key): 64-bit hashes of keys that occur more than once among both, or seem to."""
    keys = staged.select(_hash()).unionByName(bronze.select(_hash()))
    return keys.groupBy("key").count().where("count > 1").select("key")


def _known_rows(placed: DataFrame, bronze: DataFrame, doubled: DataFrame) -> DataFrame:
    """Return the staged rows that bronze has, and all but the first of those with one key. Only rows with a doubled key
    are compared."""
    once = Window.partitionBy(*KEY).orderBy("time", "_source_file", "type", "subject", "data")
    had = (
        bronze.select(*KEY, _hash()).join(doubled, "key", "left_semi").select(*KEY, F.lit(True).alias("had")).distinct()
    )
    several = placed.withColumn("key", _hash()).join(doubled, "key", "left_semi")
    return several.withColumn("copy", F.row_number().over(once)).join(had, list(KEY), "left").where("copy > 1 or had")


def _hash() -> Column:
    return F.xxhash64(*KEY).alias("key")
