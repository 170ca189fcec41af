"""What surveys found is what the lake has; of two sources of a log directory, the better one counts."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import Final

import orjson
import pytest
from pyspark.sql import DataFrame, SparkSession

from lethe.pipeline import schemas, tables
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.ingest_surveys import UNJUDGED, ingest_surveys
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.transforms.contract import Ingestion
from lethe.pipeline.transforms.leftover_by_broker import leftover_by_broker
from lethe.protocol.findings import Reason
from lethe.protocol.survey_records import LEFTOVERS, MANIFEST, survey_id
from lethe.survey.keep import save_survey
from lethe.survey.leftovers import leftovers as found_in_memory
from lethe.survey.views import Survey
from tests.fakes.random_surveys import draw_survey

SURVEYS: Final = 150

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def drawn() -> dict[str, Survey]:
    surveys = (draw_survey(seed, 1_700_000_000_000 + seed) for seed in range(SURVEYS))
    return {survey_id(survey.taken_at_ms, survey.host): survey for survey in surveys}


@pytest.fixture(scope="module")
def kept(drawn: dict[str, Survey], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("surveys")
    for survey in drawn.values():
        save_survey(survey, place)
    return place


def ingest(spark: SparkSession, kept: Path, root: Path) -> Lake:
    lake = Lake(spark, str(root))
    with lake.writer("a"):
        found = ingest_surveys(
            spark, lake, [str(kept)], DayRange(), Ingestion("a", datetime.datetime.now(datetime.UTC))
        )
    assert found.refused == []
    return lake


@pytest.fixture(scope="module")
def found(spark: SparkSession, kept: Path, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    return ingest(spark, kept, tmp_path_factory.mktemp("lake")).read(tables.LEFTOVERS)


def test_every_finding_and_no_other(found: DataFrame, drawn: dict[str, Survey]) -> None:
    wanted = Counter(
        (
            name,
            each.place.value,
            each.standing.code,
            each.reason.code,
            each.what,
            each.topic,
            each.broker,
            each.partition,
            each.size_bytes,
            each.detail or None,
        )
        for name, survey in drawn.items()
        for each in found_in_memory(survey)
    )
    columns = ("survey_id", *(column for column in LEFTOVERS.column_names if column not in ("survey_id", "taken_at")))
    assert Counter(tuple(row) for row in found.select(*columns).collect()) == wanted
    assert {reason for _, _, _, reason, *_ in wanted} == {reason.code for reason in Reason}, "every reason occurs"
    assert len(drawn) > len({name for name, *_ in wanted}), "some surveys are clean"


def test_what_an_older_version_did_not_judge_is_unseen(
    spark: SparkSession, drawn: dict[str, Survey], tmp_path: Path
) -> None:
    complete = next(survey for survey in drawn.values() if survey.is_complete and found_in_memory(survey))
    older = save_survey(complete, tmp_path / "surveys")
    (older / LEFTOVERS.name).unlink()
    manifest = orjson.loads((older / MANIFEST.name).read_bytes())
    for each in ("rows", "checksums"):
        del manifest[each][LEFTOVERS.name]
    (older / MANIFEST.name).write_bytes(orjson.dumps(manifest))
    lake = ingest(spark, older, tmp_path / "lake")
    assert lake.read(tables.LEFTOVERS).collect() == []
    (row,) = lake.read(tables.SURVEYS).collect()
    assert (row.complete, [each.asDict() for each in row.problems]) == (False, [UNJUDGED])


def test_findings_by_broker_add_up(found: DataFrame, drawn: dict[str, Survey]) -> None:
    counted = leftover_by_broker(found)
    assert counted.schema.simpleString() == schemas.LEFTOVER_BY_BROKER.simpleString()
    wanted = Counter[tuple[str, int | None, str]]()
    sizes = Counter[tuple[str, int | None, str]]()
    for name, survey in drawn.items():
        for one in found_in_memory(survey):
            wanted[name, one.broker, one.reason.code] += 1
            sizes[name, one.broker, one.reason.code] += one.size_bytes
    rows = counted.collect()
    assert {(row.survey_id, row.broker, row.reason): row.findings for row in rows} == wanted
    assert {(row.survey_id, row.broker, row.reason): row.size_bytes for row in rows if row.size_bytes} == {
        key: size for key, size in sizes.items() if size
    }
