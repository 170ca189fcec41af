"""From kept surveys to their tables: the four of bronze, and the leftovers that they found.

A survey is ingested once, and whole or not at all:

    survey                                                    result
    a file has another number of rows than in the manifest    refused; ingested once it is copied whole
    a row cannot be used, or is of another survey             refused
    two rows with one key                                     refused
    a file does not match its checksum                        refused: it was changed after it was kept
    all rows are valid                                        ingested

A missing row means that something does not exist: without a topic's znode, its replicas would be leftovers. So the rows
of all files are staged and counted before the first one is added to a table. The row in `surveys` is added last: a
survey that a crash left in some tables is continued. Surveys of older versions have no checksums. Where one does not
say what is left over, that is unseen: it counts as incomplete, with a problem that says so.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from lethe.pipeline import tables
from lethe.pipeline.io.files import FileSystem, FileSystemError, to_uri
from lethe.pipeline.io.frames import frame_of
from lethe.pipeline.io.journal import read_lines
from lethe.pipeline.io.known_inputs import KnownSurveys
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.io.staged_rows import StagedRows
from lethe.pipeline.io.surveys import MANIFEST_NAME, KeptSurvey, RefusedSurvey, find_surveys, read_rows
from lethe.pipeline.jobs.ingest import replace_quarantined
from lethe.pipeline.jobs.report import DayRange, IngestCounts, SurveyRefusal
from lethe.pipeline.schemas import STRING
from lethe.pipeline.tables import Table
from lethe.pipeline.transforms import bronze_surveys
from lethe.pipeline.transforms.contract import Ingestion, union_of
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue, time_from_text
from lethe.protocol.survey_records import DIRECTORIES, FILES, LEFTOVERS, METADATA, ROW_FILES, ZNODES, SurveyFile

TABLE_OF_FILE: Final[Mapping[str, Table]] = {
    ZNODES.name: tables.ZNODE_SNAPSHOT,
    METADATA.name: tables.BROKER_METADATA,
    DIRECTORIES.name: tables.AGENT_INVENTORY,
    LEFTOVERS.name: tables.LEFTOVERS,
}
COPY_AGAIN: Final = "copy the survey again, or take a new one"
OTHER_CLUSTER: Final = "it is of the cluster {survey}, and the lake is of the cluster {lake}: use another lake"
WRONG_ROW_COUNT: Final = f"{{file}} has {{rows}}, and the manifest says {{said}}: {COPY_AGAIN}"
WRONG_CHECKSUM: Final = f"{{file}} does not match its checksum in the manifest: {COPY_AGAIN}"
UNJUDGED: Final = {
    "where": "/",
    "what": "what is left over is unknown, as this survey is of an older version: take a new survey",
}
_BAD_MANIFEST: Final = "not a survey of this form"
_REFUSED_MANIFEST_SCHEMA: Final = StructType([StructField(name, STRING) for name in ("file", "value", "detail")])


class SurveyIngest(NamedTuple):
    """What was read of kept surveys."""

    counts: list[IngestCounts]
    """Of the surveys, and of the rows of their files."""
    refused: list[SurveyRefusal]
    days: list[datetime.date]
    """Of all these surveys that the lake has now."""
    new_days: list[datetime.date]
    """Of the new ones."""


def ingest_surveys(
    spark: SparkSession, lake: Lake, places: Sequence[str], days: DayRange, ingestion: Ingestion
) -> SurveyIngest:
    """Add the new surveys of these days."""
    found, unusable = find_surveys(spark, places)
    manifests = [f"{path}/{MANIFEST_NAME}" for path in (*(one.path for one in found), *(one.path for one in unusable))]
    found = [survey for survey in found if _day(survey) in days]
    known = _ingested_ids(lake, tables.SURVEYS, found)
    refused = [SurveyRefusal(survey.path, survey.why) for survey in unusable]
    ours, strange = _split_by_cluster(found, lake.cluster_id)
    refused += strange
    unknown = [survey for survey in ours if survey.survey_id not in known]
    missing, changed = _verify_files(spark, unknown)
    refused += [SurveyRefusal(path, why) for path, why in missing.items()]
    whole = [survey for survey in unknown if survey.path not in missing]
    taken, new, more = _ingest_rows(spark, lake, whole, changed, ingestion)
    refused += more
    replace_quarantined(
        lake,
        _manifest_quarantine_rows(spark, unusable),
        len(unusable),
        [*manifests, *_removed_quarantined_files(spark, lake)],
    )
    if new:
        lake.append(tables.SURVEYS, _survey_rows(spark, list(new.values()), ingestion))
    ours, _ = _split_by_cluster(found, lake.cluster_id)
    counts = IngestCounts(
        tables.SURVEYS.name, len(found) + len(unusable), len(new), len(ours) - len(new), 0, len(refused)
    )
    there = (survey for survey in ours if survey.survey_id in known | new.keys())
    return SurveyIngest([counts, *taken], refused, _days(there), _days(new.values()))


def counts_of_known_surveys(known: KnownSurveys) -> list[IngestCounts]:
    """Return the counts of surveys that are known: nothing of them is new."""
    nothing = (IngestCounts(table.name) for table in TABLE_OF_FILE.values())
    return [IngestCounts(tables.SURVEYS.name, known.read, duplicate=known.of_cluster), *nothing]


def _ingest_rows(
    spark: SparkSession, lake: Lake, whole: Sequence[KeptSurvey], changed: Mapping[str, str], ingestion: Ingestion
) -> tuple[list[IngestCounts], dict[str, KeptSurvey], list[SurveyRefusal]]:
    """Add the rows of all files. Return their counts, the ingested surveys by id, and the refused ones. `changed` are
    surveys with wrong checksums: path → reason.

    Only an ingested survey sets the lake's cluster; a refused one does not.
    """
    refused: list[SurveyRefusal] = []
    aside = [_manifest_quarantine_rows(spark, ())]
    looked_at: list[str] = []
    wrong: Counter[str] = Counter()
    while True:
        cluster_id = lake.cluster_id or _earliest_cluster(whole)
        ours, strange = _split_by_cluster(whole, cluster_id)
        new, doubled = _one_per_id(ours)
        files = _stage_rows(spark, lake, list(new.values()), ingestion)
        looked_at += [_file_path(survey, file) for survey in new.values() for file in ROW_FILES]
        aside += [each.aside for each in files if each.aside is not None]
        wrong.update({each.file.name: each.wrong for each in files})
        unusable = {survey.path: changed[survey.path] for survey in whole if survey.path in changed}
        # What is wrong with single rows says more.
        unusable |= {path: why for each in reversed(files) for path, why in each.unusable.items()}
        if not unusable:
            break
        for each in files:
            each.staged.discard()
        refused += [SurveyRefusal(path, why) for path, why in unusable.items()]
        whole = [survey for survey in whole if survey.path not in unusable]
    if new and cluster_id is not None:
        lake.set_cluster_id(cluster_id)
    lake.add_pending_days(_days(new.values()))
    if looked_at:
        replace_quarantined(lake, union_of(aside), wrong.total(), looked_at)
    for each in files:
        each.staged.commit()
    usable = Counter({each.file.name: each.usable for each in files})
    taken = [
        IngestCounts(table.name, usable[name] + wrong[name], usable[name], quarantined=wrong[name])
        for name, table in TABLE_OF_FILE.items()
    ]
    return taken, new, [*refused, *strange, *doubled]


def _earliest_cluster(surveys: Sequence[KeptSurvey]) -> str | None:
    """Return the cluster id of the earliest survey that has one."""
    named = ((one.survey_id, one.cluster_id) for one in surveys if one.cluster_id is not None)
    return min(named, default=(None, None))[1]


def _split_by_cluster(
    found: Sequence[KeptSurvey], cluster_id: str | None
) -> tuple[list[KeptSurvey], list[SurveyRefusal]]:
    """Return the surveys of the lake's cluster, and refusals for the others. Without a cluster id, all are accepted."""
    ours, strange = [], []
    for survey in found:
        if cluster_id is None or survey.cluster_id in (None, cluster_id):
            ours.append(survey)
        else:
            why = OTHER_CLUSTER.format(survey=survey.cluster_id, lake=cluster_id)
            strange.append(SurveyRefusal(survey.path, why))
    return ours, strange


def _one_per_id(surveys: Sequence[KeptSurvey]) -> tuple[dict[str, KeptSurvey], list[SurveyRefusal]]:
    """Return one survey per id, and refusals for others with the same id that are not copies."""
    new: dict[str, KeptSurvey] = {}
    doubled = []
    for survey in surveys:
        other = new.setdefault(survey.survey_id, survey)
        if other.manifest != survey.manifest:
            why = f"{other.path} is another survey with the same id: take this survey again"
            doubled.append(SurveyRefusal(survey.path, why))
    return new, doubled


def _removed_quarantined_files(spark: SparkSession, lake: Lake) -> list[str]:
    """Return the survey files with quarantined lines that no longer exist: their lines need no action."""
    if not lake.has(tables.QUARANTINE):
        return []
    is_of_survey = F.substring_index("_source_file", "/", -1).isin([file.name for file in FILES])
    rows = lake.read(tables.QUARANTINE).where(is_of_survey).select("_source_file").distinct().collect()
    return [path for row in rows if not _may_exist(spark, path := unquote(row["_source_file"]))]


def _may_exist(spark: SparkSession, path: str) -> bool:
    try:
        return FileSystem(spark, path).exists(path)
    except FileSystemError:
        return True


def _file_path(survey: KeptSurvey, file: SurveyFile) -> str:
    """Return the path for opening; rows have it as `to_uri`."""
    return f"{survey.path}/{file.name}"


def _verify_files(spark: SparkSession, surveys: Sequence[KeptSurvey]) -> tuple[dict[str, str], dict[str, str]]:
    """Return why surveys are incomplete, and why complete ones were changed since they were kept, by path."""
    files = {_file_path(survey, file): (survey, file) for survey in surveys for file in ROW_FILES}
    there = [path for path in files if FileSystem(spark, path).exists(path)]
    crc = F.crc32(F.col("value").cast("binary"))
    lines = read_lines(spark, there).where(F.trim("value") != "").groupBy("file")
    sums = lines.agg(F.count(F.lit(1)).alias("rows"), F.sum(crc).alias("checksum")).collect() if there else []
    found = {row["file"]: (row["rows"], row["checksum"]) for row in sums}
    missing: dict[str, str] = {}
    changed: dict[str, str] = {}
    for path, (survey, file) in files.items():
        rows, checksum = found.get(to_uri(path), (0, 0))
        if rows != survey.row_count(file):
            why = WRONG_ROW_COUNT.format(file=file.name, rows=counted(rows, "row"), said=survey.row_count(file))
            missing.setdefault(survey.path, why)
        elif survey.checksum(file) not in (None, checksum):
            changed.setdefault(survey.path, WRONG_CHECKSUM.format(file=file.name))
    return missing, changed


class _StagedFile(NamedTuple):
    """The rows of one file of several surveys."""

    file: SurveyFile
    surveys: list[KeptSurvey]
    parsed: DataFrame
    staged: StagedRows
    aside: DataFrame | None = None
    """Lines to quarantine."""
    unusable: Mapping[str, str] = MappingProxyType({})
    """Why surveys cannot be used, by path."""
    usable: int = 0
    wrong: int = 0


def _stage_rows(spark: SparkSession, lake: Lake, new: Sequence[KeptSurvey], ingestion: Ingestion) -> list[_StagedFile]:
    """Stage the surveys' rows, file by file, and look at those of all files at once."""
    read = []
    for file in ROW_FILES:
        table = TABLE_OF_FILE[file.name]
        had = _ingested_ids(lake, table, new)
        if to_do := [survey for survey in new if survey.survey_id not in had and survey.row_count(file)]:
            parsed = bronze_surveys.parse(read_rows(spark, to_do, file), file, table.schema)
            rows = bronze_surveys.rows(parsed, file, table.schema, ingestion)
            read.append(_StagedFile(file, to_do, parsed, lake.stage(table, rows)))
    looks = [_look_at(TABLE_OF_FILE[one.file.name], one.staged.read()) for one in read]
    seen = {row["_source_file"]: row for row in union_of(looks).collect()} if looks else {}
    return [_judged(one, seen) for one in read]


def _look_at(table: Table, staged: DataFrame) -> DataFrame:
    """Return _source_file, rows, most (rows of one key), surveys, times (of surveys): a row for each file."""
    named = ("survey_id", F.unix_millis("taken_at").alias("taken_ms"))
    # Two keys may have one hash; then no line is found that has another one's key.
    by_key = staged.groupBy("_source_file", F.xxhash64(*table.key).alias("hash"), *named).count()
    return by_key.groupBy("_source_file").agg(
        F.sum("count").alias("rows"),
        F.max("count").alias("most"),
        F.sort_array(F.collect_set("survey_id")).alias("surveys"),
        F.sort_array(F.collect_set("taken_ms")).alias("times"),
    )


def _judged(read: _StagedFile, rows: Mapping[str, Row]) -> _StagedFile:
    """Return it with what is wrong, by the rows of `_look_at`."""
    file, to_do, parsed = read.file, read.surveys, read.parsed
    seen = {path: rows[path] for survey in to_do if (path := to_uri(_file_path(survey, file))) in rows}
    usable = sum(row["rows"] for row in seen.values())
    is_double = any(row["most"] > 1 for row in seen.values())
    aside: DataFrame | None = None
    wrong: dict[str, tuple[int, str]] = {}
    # All lines of these files have been counted: where as many are rows, none has to be looked for.
    if is_double or usable != sum(survey.row_count(file) for survey in to_do):
        key = TABLE_OF_FILE[file.name].key
        aside = bronze_surveys.quarantine_rows(bronze_surveys.mark_duplicates(parsed, key) if is_double else parsed)
        found = aside.groupBy("_source_file").agg(F.sum("copies"), F.min("detail")).collect()
        wrong = {row[0]: (int(row[1]), row[2]) for row in found}
    unusable = {}
    for survey in to_do:
        path = to_uri(_file_path(survey, file))
        row = seen.get(path)
        unread = survey.row_count(file) - (0 if row is None else row["rows"])
        taken_at = time_from_text(str(survey.manifest["taken_at"]))
        if unread or path in wrong:
            many, detail = wrong.get(path, (unread, None))
            unusable[survey.path] = _unusable_rows_text(
                f"{many} of {counted(survey.row_count(file), 'row')}", file, detail
            )
        elif row is not None and (row["surveys"], row["times"]) != ([survey.survey_id], [taken_at]):
            unusable[survey.path] = _unusable_rows_text("rows", file, "they are of another survey")
    wrong_rows = sum(many for many, _ in wrong.values())
    return read._replace(aside=aside, unusable=unusable, usable=usable, wrong=wrong_rows)


def _unusable_rows_text(which: str, file: SurveyFile, detail: str | None) -> str:
    return (
        f"{which} of {file.name} cannot be used ({detail or 'no detail'}), so nothing of the survey is ingested: "
        f"{COPY_AGAIN}"
    )


def _ingested_ids(lake: Lake, table: Table, surveys: Sequence[KeptSurvey]) -> set[str]:
    """Return the ids among these surveys that the table has."""
    days = {_day(survey) for survey in surveys}
    if days.isdisjoint(lake.days(table)):
        return set()
    rows = lake.read(table, days)
    return {row["survey_id"] for row in rows.select("survey_id").distinct().collect()}


def _survey_rows(spark: SparkSession, new: Sequence[KeptSurvey], ingestion: Ingestion) -> DataFrame:
    """Return rows of SURVEYS, from manifests."""
    rows = [
        (
            survey.survey_id,
            _taken_at(survey),
            survey.manifest["took_ms"],
            survey.cluster_id,
            survey.manifest["complete"] if survey.has_leftovers else False,
            survey.manifest["in_motion"],
            _problems(survey),
            ingestion.at,
            to_uri(f"{survey.path}/{MANIFEST_NAME}"),
            ingestion.batch_id,
            _day(survey),
        )
        for survey in new
    ]
    return frame_of(spark, tables.SURVEYS.schema, rows)


def _problems(survey: KeptSurvey) -> list[JsonValue] | None:
    found = survey.manifest["problems"]
    if survey.has_leftovers:
        return found if isinstance(found, list) else None
    return [*(found if isinstance(found, list) else ()), UNJUDGED]


def _manifest_quarantine_rows(spark: SparkSession, unusable: Sequence[RefusedSurvey]) -> DataFrame:
    """Return rows of QUARANTINE, from unusable manifests."""
    rows = [(to_uri(f"{one.path}/{MANIFEST_NAME}"), one.manifest, one.why) for one in unusable]
    return bronze_surveys.quarantine_rows(frame_of(spark, _REFUSED_MANIFEST_SCHEMA, rows), _BAD_MANIFEST)


def _days(surveys: Iterable[KeptSurvey]) -> list[datetime.date]:
    return sorted({_day(survey) for survey in surveys})


def _day(survey: KeptSurvey) -> datetime.date:
    return _taken_at(survey).date()


def _taken_at(survey: KeptSurvey) -> datetime.datetime:
    return datetime.datetime.fromisoformat(str(survey.manifest["taken_at"])).astimezone(datetime.UTC)
