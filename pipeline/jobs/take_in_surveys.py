"""From kept surveys to the four bronze tables of surveys.

A survey is taken in once. Its row in `surveys` is added last, so that a survey of which a crash left only some tables
is gone on with. One whose files have fewer rows than its manifest says is being copied still: it is left for a later
run.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from pipeline import tables
from pipeline.io.files import Files, quoted
from pipeline.io.frames import frame_of
from pipeline.io.journal import read_lines
from pipeline.io.lake import Lake
from pipeline.io.surveys import MANIFEST_NAME, KeptSurvey, RefusedSurvey, find_surveys, read_rows
from pipeline.jobs.report import DayRange, Refused, Taken
from pipeline.jobs.take_in import keep_aside
from pipeline.schemas import TEXT
from pipeline.tables import Table
from pipeline.transforms import bronze_surveys
from pipeline.transforms.bronze_events import KEPT
from pipeline.transforms.contract import to_schema
from protocol.journal import JsonValue, time_from_text
from protocol.survey_records import DIRECTORIES, METADATA, ROW_FILES, ZNODES, File

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


def take_in_surveys(
    spark: SparkSession, lake: Lake, places: Sequence[str], days: DayRange, *, ingested_at: Column, batch_id: str
) -> tuple[list[Taken], list[Refused], list[datetime.date]]:
    """Adds the new surveys of these days; what became of their rows, what was refused, and the days of all surveys."""
    found, unusable = find_surveys(spark, places)
    found = [survey for survey in found if _day(survey) in days]
    known = _known(lake, tables.SURVEYS, found)
    refused = [Refused(survey.path, survey.why) for survey in unusable]
    ours, strange = _of_one_cluster(lake, found)
    refused += strange
    unknown = [survey for survey in ours if survey.survey_id not in known]
    missing = _missing(spark, unknown)
    refused += [Refused(path, why) for path, why in missing.items()]
    new: dict[str, KeptSurvey] = {}
    for survey in unknown:
        if survey.path not in missing:
            new.setdefault(survey.survey_id, survey)
    lake.owe(sorted({_day(survey) for survey in new.values()}))
    taken = [
        _take_in_file(spark, lake, list(new.values()), file, ingested_at=ingested_at, batch_id=batch_id)
        for file in ROW_FILES
    ]
    names = [f"{survey.path}/{MANIFEST_NAME}" for survey in unusable]
    keep_aside(lake, _refused_manifests(spark, unusable), len(unusable), names)
    if new:
        rows = _survey_rows(spark, list(new.values()), ingested_at=ingested_at, batch_id=batch_id)
        lake.append(tables.SURVEYS, rows)
    counts = Taken(tables.SURVEYS.name, len(found) + len(unusable), len(new), len(ours) - len(new), 0, len(refused))
    return [counts, *taken], refused, sorted({_day(survey) for survey in ours})


def _of_one_cluster(lake: Lake, found: Sequence[KeptSurvey]) -> tuple[list[KeptSurvey], list[Refused]]:
    """Those of the lake's cluster, and why the others are refused. A lake that is of none yet becomes one of the
    cluster of the earliest survey."""
    named = sorted((one.survey_id, one.cluster_id) for one in found if one.cluster_id is not None)
    if lake.cluster_id is None and named:
        lake.claim(str(named[0][1]))
    ours, strange = [], []
    for survey in found:
        if survey.cluster_id is None or survey.cluster_id == lake.cluster_id:
            ours.append(survey)
        else:
            why = f"it is of the cluster {survey.cluster_id}, the lake of {lake.cluster_id}: use a lake of its own"
            strange.append(Refused(survey.path, why))
    return ours, strange


def _missing(spark: SparkSession, surveys: Sequence[KeptSurvey]) -> dict[str, str]:
    """Why surveys are not whole, by their paths; those that are whole are not in it."""
    expected = {
        f"{survey.path}/{file.name}": (survey.path, file.name, survey.rows(file))
        for survey in surveys
        for file in ROW_FILES
        if survey.rows(file)
    }
    there = [path for path in expected if Files(spark, path).exists(path)]
    lines = read_lines(spark, there).where(F.trim("value") != "")
    counted = {row["file"]: row["count"] for row in lines.groupBy("file").count().collect()} if there else {}
    found: dict[str, str] = {}
    for path, (survey, name, rows) in expected.items():
        if counted.get(path, 0) != rows:
            why = f"{name} has {counted.get(path, 0)} rows and its manifest says {rows}: copy the survey whole"
            found.setdefault(survey, why)
    return found


def _take_in_file(
    spark: SparkSession, lake: Lake, new: Sequence[KeptSurvey], file: File, *, ingested_at: Column, batch_id: str
) -> Taken:
    table = TABLES[file.name]
    to_do = [survey for survey in new if survey.survey_id not in _known(lake, table, new) and survey.rows(file)]
    if not to_do:
        return Taken(table.name, 0, 0, 0, 0, 0)
    parsed = bronze_surveys.parse(read_rows(spark, to_do, file), file, table.schema)
    rows = bronze_surveys.rows(parsed, file, table.schema, ingested_at=ingested_at, batch_id=batch_id)
    # A row of another survey would be of a directory that holds two.
    staged = lake.staged(table, rows.where(F.col("survey_id").isin([survey.survey_id for survey in to_do])))
    count = staged.read().count()
    aside = bronze_surveys.set_aside(parsed)
    # All lines of these files have been counted: where as many are rows, none has to be looked for.
    is_whole = count == sum(survey.rows(file) for survey in to_do)
    wrong = 0 if is_whole else int(aside.agg(F.coalesce(F.sum("copies"), F.lit(0))).collect()[0][0])
    keep_aside(lake, aside, wrong, [f"{survey.path}/{file.name}" for survey in to_do])
    staged.keep()
    return Taken(table.name, count + wrong, count, 0, 0, wrong)


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
            f"{survey.path}/{MANIFEST_NAME}",
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
