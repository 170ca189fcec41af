"""What is taken in and what is quarantined, and when that is forgotten."""

from __future__ import annotations

import datetime
import gzip
import shutil
from pathlib import Path
from typing import Final

import orjson
from pyspark.sql import SparkSession

from lethe.pipeline import tables
from lethe.pipeline.io.journal import journal_files
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.ingest import ingest_journal
from lethe.pipeline.jobs.ingest_surveys import WRONG_CHECKSUM, WRONG_ROW_COUNT, ingest_surveys
from lethe.pipeline.jobs.report import DayRange, IngestCounts, SurveyRefusal
from lethe.pipeline.transforms.contract import Ingestion
from lethe.protocol.survey_records import DIRECTORIES, MANIFEST, METADATA, ZNODES
from tests.pipeline.test_batch import CLUSTER, FIRST, keep_survey

INGESTED_AT: Final = datetime.datetime(2026, 1, 9, tzinfo=datetime.UTC)


def surveys(spark: SparkSession, lake: Lake, place: Path, name: str) -> tuple[dict[str, int], list[SurveyRefusal]]:
    """What is new in each table, and what was refused."""
    with lake.writer(name):
        taken, refused, *_ = ingest_surveys(spark, lake, [str(place)], DayRange(), Ingestion(name, INGESTED_AT))
    return {one.table: one.new for one in taken}, refused


def journal(spark: SparkSession, lake: Lake, place: Path, name: str) -> IngestCounts:
    with lake.writer(name):
        files = journal_files(spark, [str(place)])
        return ingest_journal(spark, lake, files, DayRange(), Ingestion(name, INGESTED_AT))[0]


def quarantined(lake: Lake) -> list[str]:
    """The files that lines were quarantined of."""
    return sorted(Path(row["_source_file"]).name for row in lake.read(tables.QUARANTINE).collect())


def with_rows(survey: Path, **rows: int | None) -> None:
    """Changes what its manifest says of its files; None: nothing."""
    path = survey / MANIFEST.name
    manifest = orjson.loads(path.read_bytes())
    changed = {**manifest["rows"], **{f"{name}.jsonl": count for name, count in rows.items()}}
    manifest["rows"] = {name: count for name, count in changed.items() if count is not None}
    path.write_bytes(orjson.dumps(manifest))


def test_only_what_is_taken_in_says_whose_the_lake_is(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "surveys"
    copied = keep_survey(place, "03T09:00:00.000", cluster="copied")
    (copied / ZNODES.name).write_bytes((copied / ZNODES.name).read_bytes()[:40])
    spoilt = keep_survey(place, "04T09:00:00.000", cluster="spoilt")
    metadata = (spoilt / METADATA.name).read_bytes()
    (spoilt / METADATA.name).write_bytes(metadata.replace(b'"broker":1', b'"broker":"1"', 1))
    keep_survey(place, "05T09:00:00.000")
    without = keep_survey(place, "06T09:00:00.000")
    with_rows(without, znodes=None)
    empty = keep_survey(place, "07T09:00:00.000")
    with_rows(empty, znodes=0)
    torn = keep_survey(place, "08T09:00:00.000")
    manifest = (torn / MANIFEST.name).read_bytes()
    (torn / MANIFEST.name).write_bytes(manifest[:20])
    walled = keep_survey(place, "09T09:00:00.000")
    (walled / MANIFEST.name).rename(tmp_path / "manifest")
    (walled / MANIFEST.name).mkdir()
    lake = Lake(spark, str(tmp_path / "lake"))

    new, refused = surveys(spark, lake, place, "a")
    assert new == {"surveys": 1, "znode_snapshot": 3, "broker_metadata": 2, "agent_inventory": 3, "leftovers": 1}
    assert lake.cluster_id == CLUSTER
    by_name = {Path(one.path).name: one.why for one in refused}
    assert sorted(by_name) == [one.name for one in (copied, spoilt, without, empty, torn, walled)]
    assert "znodes.jsonl has 1 row" in by_name[copied.name]
    assert "1 of 2 rows of metadata.jsonl cannot be used" in by_name[spoilt.name]
    assert "does not say how many rows znodes.jsonl has" in by_name[without.name]
    assert WRONG_ROW_COUNT.format(file="znodes.jsonl", rows="3 rows", said=0) in by_name[empty.name]
    assert "its survey.json: cannot read: " in by_name[walled.name]
    assert quarantined(lake) == [METADATA.name, *[MANIFEST.name] * 3]

    (torn / MANIFEST.name).write_bytes(manifest)
    (walled / MANIFEST.name).rmdir()
    (tmp_path / "manifest").rename(walled / MANIFEST.name)
    with_rows(without, znodes=3)
    shutil.rmtree(spoilt)
    new, refused = surveys(spark, lake, place, "b")
    assert (new["surveys"], len(refused)) == (3, 2)
    assert quarantined(lake) == [], "whole by now, or gone as its message advised"


def test_what_was_changed_since_it_was_kept_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "surveys"
    copies = [keep_survey(tmp_path / f"{number}", "03T09:00:00.000") for number in range(3)]
    place.mkdir()
    for number, copy in enumerate(copies):
        if number != 1:
            disks = (copy / DIRECTORIES.name).read_bytes()
            (copy / DIRECTORIES.name).write_bytes(disks.replace(b'"size_bytes":10', b'"size_bytes":11', 1))
        copy.rename(place / f"{number}")
    lake = Lake(spark, str(tmp_path / "lake"))

    new, refused = surveys(spark, lake, place, "a")
    assert new == {"surveys": 1, "znode_snapshot": 3, "broker_metadata": 2, "agent_inventory": 3, "leftovers": 1}
    assert [(Path(one.path).name, one.why) for one in refused] == [
        (name, WRONG_CHECKSUM.format(file="directories.jsonl")) for name in ("0", "2")
    ]
    sizes = lake.read(tables.AGENT_INVENTORY).where("size_bytes is not null").select("size_bytes").collect()
    assert {row["size_bytes"] for row in sizes} == {10}


def test_of_two_rows_about_the_same_thing_none_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "surveys"
    keep_survey(place, "03T09:00:00.000")
    equal, differing = (keep_survey(place, f"{day}T09:00:00.000") for day in ("04", "05"))
    for survey, size in ((equal, b"10"), (differing, b"11")):
        path = survey / DIRECTORIES.name
        last = path.read_bytes().splitlines(keepends=True)[-1]
        path.write_bytes(path.read_bytes() + last.replace(b'"size_bytes":10', b'"size_bytes":' + size))
        with_rows(survey, directories=4)
    lake = Lake(spark, str(tmp_path / "lake"))

    new, refused = surveys(spark, lake, place, "a")
    assert new == {"surveys": 1, "znode_snapshot": 3, "broker_metadata": 2, "agent_inventory": 3, "leftovers": 1}
    assert sorted(Path(one.path).name for one in refused) == [equal.name, differing.name]
    said = "2 of 4 rows of directories.jsonl cannot be used (2 rows have the same survey_id, broker, log_dir, directory"
    assert [one.why for one in refused if not one.why.startswith(said)] == []
    aside = lake.read(tables.QUARANTINE).collect()
    found = sorted((Path(row["_source_file"]).parent.name, row["copies"]) for row in aside)
    assert found == [(equal.name, 2), (differing.name, 1), (differing.name, 1)]
    assert all('"directory":"gone-0"' in row["line"] for row in aside)


def test_a_line_that_was_cut_off_is_forgotten_once_its_file_is_compressed(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "journal"
    place.mkdir()
    lake = Lake(spark, str(tmp_path / "lake"))
    for name in ("a.jsonl", "b.jsonl"):
        (place / name).write_bytes(FIRST[0] + FIRST[1][:-20])
    assert journal(spark, lake, place, "a").new == 1
    (place / "a.jsonl").unlink()
    (place / "a.jsonl.gz").write_bytes(gzip.compress(b"".join(FIRST)))
    (place / "b.jsonl").unlink()
    assert journal(spark, lake, place, "b").new == 1
    assert quarantined(lake) == ["b.jsonl"], "nobody has seen the rest of that one"
