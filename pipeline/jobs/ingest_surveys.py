"""From kept surveys to the four bronze tables of surveys.

A survey is taken in once. Its row in `surveys` is added last, so that a survey of which a crash left only some tables
is gone on with. One whose files have fewer rows than its manifest says is being copied still: it is left for a later
run.

A survey is taken in whole or not at all. That a topic's znode is not among its rows means that there is no such topic,
and what lies on the disks of it is left over; so a survey with a single row that cannot be used, or that is another
survey's, is refused, and so is one with two rows of the same key. The rows of all its files are staged and counted
before the first of them is added to a table.

It is taken in as it was kept: a file whose lines do not come to the checksum in its manifest was changed since then, so
that of copies that differ the true one counts. What older versions kept has no checksums.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from lethe.pipeline import tables
from lethe.pipeline.io.files import Files, FileTrouble, quoted
from lethe.pipeline.io.frames import frame_of
from lethe.pipeline.io.journal import read_lines
from lethe.pipeline.io.lake import Lake, StagedRows
from lethe.pipeline.io.surveys import MANIFEST_NAME, KeptSurvey, RefusedSurvey, find_surveys, read_rows
from lethe.pipeline.jobs.ingest import replace_quarantined
from lethe.pipeline.jobs.report import DayRange, Refused, Taken
from lethe.pipeline.schemas import TEXT
from lethe.pipeline.tables import Table
from lethe.pipeline.transforms import bronze_surveys
from lethe.pipeline.transforms.bronze_events import KEPT
from lethe.pipeline.transforms.contract import to_schema
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue, time_from_text
from lethe.protocol.survey_records import DIRECTORIES, FILES, METADATA, ROW_FILES, ZNODES, File

TABLES: Final[Mapping[str, Table]] = {
    ZNODES.name: tables.ZNODE_SNAPSHOT,
    METADATA.name: tables.BROKER_METADATA,
    DIRECTORIES.name: tables.AGENT_INVENTORY,
}
_NO_SURVEY: Final = "not a survey of this form"
_REFUSALS: Final = StructType([StructField(name, TEXT) for name in ("_source_file", "line", "detail")])
_MANIFESTS: Final = StructType(
    [
        StructField(name, TEXT if name in ("taken_at", "_source_file") else tables.SURVEYS.schema[name].dataType)
        for name in (
            *("survey_id", "taken_at", "took_ms", "cluster_id", "complete", "in_motion", "problems"),
            "_source_file",
        )
    ]
)
"""As JSON has them: `taken_at` is a text."""


def ingest_surveys(
    spark: SparkSession, lake: Lake, places: Sequence[str], days: DayRange, *, ingested_at: Column, batch_id: str
) -> tuple[list[Taken], list[Refused], list[datetime.date]]:
    """Adds the new surveys of these days; what became of their rows, what was refused, and the days of those
    that are there now."""
    found, unusable = find_surveys(spark, places)
    manifests = [f"{path}/{MANIFEST_NAME}" for path in (*(one.path for one in found), *(one.path for one in unusable))]
    found = [survey for survey in found if _day(survey) in days]
    known = _known(lake, tables.SURVEYS, found)
    refused = [Refused(survey.path, survey.why) for survey in unusable]
    ours, strange = _of_one_cluster(found, lake.cluster_id)
    refused += strange
    unknown = [survey for survey in ours if survey.survey_id not in known]
    missing, changed = _looked_through(spark, unknown)
    refused += [Refused(path, why) for path, why in missing.items()]
    whole = [survey for survey in unknown if survey.path not in missing]
    taken, new, more = _ingest_rows(spark, lake, whole, changed, ingested_at=ingested_at, batch_id=batch_id)
    refused += more
    replace_quarantined(lake, _refused_manifests(spark, unusable), len(unusable), [*manifests, *_gone(spark, lake)])
    if new:
        rows = _survey_rows(spark, list(new.values()), ingested_at=ingested_at, batch_id=batch_id)
        lake.append(tables.SURVEYS, rows)
    ours, _ = _of_one_cluster(found, lake.cluster_id)
    counts = Taken(tables.SURVEYS.name, len(found) + len(unusable), len(new), len(ours) - len(new), 0, len(refused))
    there = known | new.keys()
    return [counts, *taken], refused, sorted({_day(survey) for survey in ours if survey.survey_id in there})


def _ingest_rows(
    spark: SparkSession,
    lake: Lake,
    whole: Sequence[KeptSurvey],
    changed: Mapping[str, str],
    *,
    ingested_at: Column,
    batch_id: str,
) -> tuple[list[Taken], dict[str, KeptSurvey], list[Refused]]:
    """Adds the rows of all files; what became of them, the surveys that they are of, by id, and why others are refused:
    those that were `changed`, by their paths, too.

    Only a survey that is taken in says which cluster the lake is of: one that turns out to be spoilt says nothing.
    """
    refused: list[Refused] = []
    tries: list[list[_File]] = []
    while True:
        cluster_id = lake.cluster_id or _earliest_cluster(whole)
        ours, strange = _of_one_cluster(whole, cluster_id)
        new, doubled = _once(ours)
        files = _stage_rows(spark, lake, list(new.values()), ingested_at=ingested_at, batch_id=batch_id)
        tries.append(files)
        spoilt = {survey.path: changed[survey.path] for survey in whole if survey.path in changed}
        # What is wrong with single rows says more.
        spoilt |= {path: why for each in reversed(files) for path, why in each.spoilt.items()}
        if not spoilt:
            break
        for each in files:
            if each.staged is not None:
                each.staged.forget()
        refused += [Refused(path, why) for path, why in spoilt.items()]
        whole = [survey for survey in whole if survey.path not in spoilt]
    if new and cluster_id is not None:
        lake.claim(cluster_id)
    lake.owe(sorted({_day(survey) for survey in new.values()}))
    taken = []
    for tried, each in zip(zip(*tries, strict=True), files, strict=True):
        for one in tried:
            if one.aside is not None and (one.wrong or one is tried[0]):
                replace_quarantined(lake, one.aside, one.wrong, [_path(survey, one.file) for survey in one.surveys])
        if each.staged is not None:
            each.staged.keep()
        wrong = sum(one.wrong for one in tried)
        taken.append(Taken(TABLES[each.file.name].name, each.usable + wrong, each.usable, 0, 0, wrong))
    return taken, new, [*refused, *strange, *doubled]


def _earliest_cluster(surveys: Sequence[KeptSurvey]) -> str | None:
    """That of the earliest survey that names one."""
    named = ((one.survey_id, one.cluster_id) for one in surveys if one.cluster_id is not None)
    return min(named, default=(None, None))[1]


def _of_one_cluster(found: Sequence[KeptSurvey], cluster_id: str | None) -> tuple[list[KeptSurvey], list[Refused]]:
    """Those of the lake's cluster, and why the others are refused; all where nobody has said yet which that is."""
    ours, strange = [], []
    for survey in found:
        if cluster_id is None or survey.cluster_id in (None, cluster_id):
            ours.append(survey)
        else:
            why = f"it is of the cluster {survey.cluster_id}, the lake of {cluster_id}: use a lake of its own"
            strange.append(Refused(survey.path, why))
    return ours, strange


def _once(surveys: Sequence[KeptSurvey]) -> tuple[dict[str, KeptSurvey], list[Refused]]:
    """One of each id, and why others with the same id are refused, unless they are copies."""
    new: dict[str, KeptSurvey] = {}
    doubled = []
    for survey in surveys:
        other = new.setdefault(survey.survey_id, survey)
        if other.manifest != survey.manifest:
            why = f"{other.path} is another survey with the same id: take this one anew"
            doubled.append(Refused(survey.path, why))
    return new, doubled


def _gone(spark: SparkSession, lake: Lake) -> list[str]:
    """The files of surveys that lines were set aside of and that exist no more: nothing has to be done about them."""
    if not lake.has(tables.QUARANTINE):
        return []
    is_of_survey = F.substring_index("_source_file", "/", -1).isin([file.name for file in FILES])
    rows = lake.read(tables.QUARANTINE).where(is_of_survey).select("_source_file").distinct().collect()
    return [path for row in rows if not _may_exist(spark, path := unquote(row["_source_file"]))]


def _may_exist(spark: SparkSession, path: str) -> bool:
    try:
        return Files(spark, path).exists(path)
    except FileTrouble:
        return True


def _path(survey: KeptSurvey, file: File) -> str:
    """As it is opened; rows name it `quoted`."""
    return f"{survey.path}/{file.name}"


def _looked_through(spark: SparkSession, surveys: Sequence[KeptSurvey]) -> tuple[dict[str, str], dict[str, str]]:
    """Why surveys are not whole, and why those that are whole are not as they were kept, by their paths."""
    files = {_path(survey, file): (survey, file) for survey in surveys for file in ROW_FILES}
    there = [path for path in files if Files(spark, path).exists(path)]
    crc = F.crc32(F.col("value").cast("binary"))
    lines = read_lines(spark, there).where(F.trim("value") != "").groupBy("file")
    sums = lines.agg(F.count(F.lit(1)).alias("rows"), F.sum(crc).alias("checksum")).collect() if there else []
    found = {row["file"]: (row["rows"], row["checksum"]) for row in sums}
    missing: dict[str, str] = {}
    changed: dict[str, str] = {}
    for path, (survey, file) in files.items():
        rows, checksum = found.get(quoted(path), (0, 0))
        if rows != survey.rows(file):
            why = (
                f"{file.name} has {counted(rows, 'row')} "
                f"and its manifest says {survey.rows(file)}: copy the survey whole"
            )
            missing.setdefault(survey.path, why)
        elif survey.checksum(file) not in (None, checksum):
            why = f"{file.name} has been changed since it was kept, by its checksum: copy the survey anew"
            changed.setdefault(survey.path, why)
    return missing, changed


class _File(NamedTuple):
    """What a file of some surveys came to."""

    file: File
    surveys: list[KeptSurvey]
    staged: StagedRows | None
    aside: DataFrame | None
    spoilt: dict[str, str]
    """Why surveys cannot be used, by their paths."""
    usable: int = 0
    wrong: int = 0


def _stage_rows(
    spark: SparkSession, lake: Lake, new: Sequence[KeptSurvey], *, ingested_at: Column, batch_id: str
) -> list[_File]:
    """The surveys' rows, where nobody sees them yet."""
    return [_stage_file(spark, lake, new, file, ingested_at=ingested_at, batch_id=batch_id) for file in ROW_FILES]


def _stage_file(
    spark: SparkSession, lake: Lake, new: Sequence[KeptSurvey], file: File, *, ingested_at: Column, batch_id: str
) -> _File:
    table = TABLES[file.name]
    had = _known(lake, table, new)
    to_do = [survey for survey in new if survey.survey_id not in had and survey.rows(file)]
    if not to_do:
        return _File(file, to_do, None, None, {})
    parsed = bronze_surveys.parse(read_rows(spark, to_do, file), file, table.schema)
    rows = bronze_surveys.rows(parsed, file, table.schema, ingested_at=ingested_at, batch_id=batch_id)
    staged = lake.staged(table, rows)
    taken_ms = F.unix_millis("taken_at")
    seen = {
        row["_source_file"]: row
        for row in staged.read()
        .groupBy("_source_file")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.array_sort(F.array_distinct(F.array(F.min("survey_id"), F.max("survey_id")))).alias("surveys"),
            F.array_sort(F.array_distinct(F.array(F.min(taken_ms), F.max(taken_ms)))).alias("times"),
        )
        .collect()
    }
    usable = sum(row["rows"] for row in seen.values())
    # Two keys may have one hash; then no line is found that has another one's key.
    hashes = staged.read().groupBy(F.xxhash64("_source_file", *table.key)).count()
    is_double = bool(hashes.where("count > 1").limit(1).collect())
    aside = bronze_surveys.quarantine_rows(bronze_surveys.with_doubles(parsed, table.key) if is_double else parsed)
    # All lines of these files have been counted: where as many are rows, none has to be looked for.
    is_whole = usable == sum(survey.rows(file) for survey in to_do) and not is_double
    found = [] if is_whole else aside.groupBy("_source_file").agg(F.sum("copies"), F.min("detail")).collect()
    wrong = {row[0]: (int(row[1]), row[2]) for row in found}
    spoilt = {}
    for survey in to_do:
        path = quoted(_path(survey, file))
        row = seen.get(path)
        unread = survey.rows(file) - (0 if row is None else row["rows"])
        taken_at = time_from_text(str(survey.manifest["taken_at"]))
        if unread or path in wrong:
            many, detail = wrong.get(path, (unread, None))
            spoilt[survey.path] = _spoilt(f"{many} of {counted(survey.rows(file), 'row')}", file, detail)
        elif row is not None and (row["surveys"], row["times"]) != ([survey.survey_id], [taken_at]):
            spoilt[survey.path] = _spoilt("rows", file, "they are of another survey")
    return _File(file, to_do, staged, aside, spoilt, usable, sum(many for many, _ in wrong.values()))


def _spoilt(which: str, file: File, detail: str | None) -> str:
    return (
        f"{which} of {file.name} cannot be used ({detail or 'not told'}). Without them something would seem not to "
        "exist, so nothing of this survey is taken: copy it anew, or take another"
    )


def _known(lake: Lake, table: Table, surveys: Sequence[KeptSurvey]) -> set[str]:
    """Which of these surveys the table has."""
    days = {_day(survey) for survey in surveys}
    if days.isdisjoint(lake.days(table)):
        return set()
    rows = lake.read(table, days)
    return {row["survey_id"] for row in rows.select("survey_id").distinct().collect()}


def _survey_rows(spark: SparkSession, new: Sequence[KeptSurvey], *, ingested_at: Column, batch_id: str) -> DataFrame:
    """The rows of SURVEYS, from manifests."""
    names = ("survey_id", "taken_at", "took_ms", "cluster_id", "complete", "in_motion")
    rows = [
        (
            *(survey.manifest[name] for name in names),
            _problems(survey.manifest["problems"]),
            quoted(f"{survey.path}/{MANIFEST_NAME}"),
        )
        for survey in new
    ]
    frame = frame_of(spark, _MANIFESTS, rows).withColumn("taken_at", F.col("taken_at").cast("timestamp"))
    stamped = frame.withColumns(
        {"_ingested_at": ingested_at, "_batch_id": F.lit(batch_id), "day": F.to_date("taken_at")}
    )
    return to_schema(stamped, tables.SURVEYS.schema)


def _problems(value: JsonValue) -> list[dict[str, str]] | None:
    if not isinstance(value, list):
        return None
    return [{"where": str(one["where"]), "what": str(one["what"])} for one in value if isinstance(one, dict)]


def _refused_manifests(spark: SparkSession, unusable: Sequence[RefusedSurvey]) -> DataFrame:
    """The rows of QUARANTINE for manifests."""
    rows = [(quoted(f"{one.path}/{MANIFEST_NAME}"), one.manifest, one.why) for one in unusable]
    frame = frame_of(spark, _REFUSALS, rows)
    return frame.select(
        "_source_file",
        F.sha2("line", 256).alias("line_hash"),
        F.substring("line", 1, KEPT).alias("line"),
        F.lit(_NO_SURVEY).alias("reason"),
        "detail",
        F.lit(1).cast("long").alias("copies"),
    )


def _day(survey: KeptSurvey) -> datetime.date:
    moment = time_from_text(str(survey.manifest["taken_at"])) / 1000
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).date()
