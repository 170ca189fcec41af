"""Leftovers found by joins are those that `lethe survey` finds in memory, in every survey that can be drawn."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from lethe.pipeline import schemas
from lethe.pipeline.transforms.directories import directories
from lethe.pipeline.transforms.leftover_by_broker import leftover_by_broker
from lethe.pipeline.transforms.leftovers import leftovers
from lethe.protocol.findings import Reason
from lethe.protocol.survey_records import survey_id
from lethe.survey.leftovers import leftovers as found_in_memory
from lethe.survey.views import Survey
from tests.fakes.random_surveys import draw_survey
from tests.fakes.survey_rows import frame, frames

SURVEYS: Final = int(os.environ.get("LETHE_SURVEYS", "400"))

pytestmark = pytest.mark.timeout(600)

Finding = tuple[str, str, str, str, str, str, int | None, int | None, int, str | None]


def in_memory(survey: Survey) -> list[Finding]:
    return [
        (
            survey_id(survey.taken_at_ms),
            found.place.value,
            found.standing.code,
            found.reason.code,
            found.what,
            found.topic,
            found.broker,
            found.partition,
            found.size_bytes,
            found.detail or None,
        )
        for found in found_in_memory(survey)
    ]


@pytest.fixture(scope="module")
def drawn() -> dict[str, Survey]:
    surveys = (draw_survey(seed, 1_700_000_000_000 + seed) for seed in range(SURVEYS))
    return {survey_id(survey.taken_at_ms): survey for survey in surveys}


@pytest.fixture(scope="module")
def found(spark: SparkSession, drawn: dict[str, Survey]) -> DataFrame:
    surveys, znodes, metadata, inventory = frames(spark, drawn.values())
    return leftovers(surveys, znodes, metadata, directories(inventory)).cache()


def test_every_finding_and_no_other(found: DataFrame, drawn: dict[str, Survey]) -> None:
    wanted = Counter(finding for survey in drawn.values() for finding in in_memory(survey))
    columns = (
        "survey_id",
        "place",
        "standing",
        "reason",
        "what",
        "topic",
        "broker",
        "partition",
        "size_bytes",
        "detail",
    )
    has = Counter(tuple(row) for row in found.select(*columns).collect())
    missing, invented = wanted - has, has - wanted
    assert (sorted(missing.elements())[:3], sorted(invented.elements(), key=str)[:3]) == ([], [])
    assert {reason for _, _, _, reason, *_ in wanted} == {reason.code for reason in Reason}, "every reason occurs"


def test_some_surveys_are_clean(drawn: dict[str, Survey]) -> None:
    clean = sum(not found_in_memory(survey) for survey in drawn.values())
    assert clean >= SURVEYS // 50


def test_findings_have_the_columns_of_their_table(found: DataFrame) -> None:
    assert found.schema.simpleString() == schemas.LEFTOVERS.simpleString()


def test_nothing_is_compared_with_everything(found: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    found.explain("extended")
    plan = capsys.readouterr().out
    assert "Join" in plan
    assert "CartesianProduct" not in plan
    assert "NestedLoopJoin" not in plan


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


def test_what_was_read_is_preferred_to_what_was_told(spark: SparkSession) -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    head = {"survey_id": "s", "taken_at": when, "day": when.date()}

    def row(broker: int, log_dir: str, source: str, directory: str | None) -> dict[str, object]:
        kind = "replica" if directory else "log-dir"
        return {**head, "broker": broker, "log_dir": log_dir, "source": source, "kind": kind, "directory": directory}

    inventory = frame(
        spark,
        schemas.AGENT_INVENTORY,
        [
            row(1, "/d1", "local", None),
            row(1, "/d1", "local", "orders-0"),
            row(1, "/d1", "broker", None),
            row(1, "/d1", "broker", "orders-0"),
            row(1, "/d1", "broker", "gone-meanwhile-0"),
            row(1, "/d2", "broker", None),
            row(1, "/d2", "broker", "orders-1"),
            row(2, "/d1", "broker", None),
            row(2, "/d1", "broker", "orders-0"),
        ],
    )
    seen = directories(inventory)
    assert seen.schema.simpleString() == schemas.DIRECTORIES.simpleString()
    assert {(r.broker, r.log_dir, r.directory, r.source) for r in seen.collect()} == {
        (1, "/d1", None, "local"),
        (1, "/d1", "orders-0", "local"),
        (1, "/d2", None, "broker"),
        (1, "/d2", "orders-1", "broker"),
        (2, "/d1", None, "broker"),
        (2, "/d1", "orders-0", "broker"),
    }
