"""The files of a kept survey: names that sort, and rows that are told from what is none."""

from __future__ import annotations

import re

import pytest

from lethe.protocol.findings import Place, Standing
from lethe.protocol.journal import JsonValue
from lethe.protocol.survey_records import (
    DIRECTORIES,
    FILES,
    KINDS,
    LEFTOVERS,
    MANIFEST,
    METADATA,
    ROW_FILES,
    SurveyFile,
    row_problems,
    survey_id,
)


def test_ids_sort_as_times_do() -> None:
    assert survey_id(1_767_323_045_678) == "20260102T030405.678Z"
    assert survey_id(1_767_323_045_678, "Broker_1.example") == "20260102T030405.678Z-Broker-1.example"
    assert survey_id(1_767_323_045_678, "../x y/") == "20260102T030405.678Z-x-y"
    assert survey_id(0, "b") < survey_id(1, "a")
    times = [0, 1, 999, 1_000, 86_400_000, 1_767_323_045_678, 4_102_444_800_000]
    assert sorted(map(survey_id, times)) == [survey_id(time) for time in times]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_columns_have_names_of_their_own_and_a_meaning(file: SurveyFile) -> None:
    assert len(set(file.column_names)) == len(file.columns)
    assert all(column.meaning for column in file.columns)


@pytest.mark.parametrize("file", [file for file in ROW_FILES if file.name in KINDS], ids=lambda file: file.name)
def test_every_kind_of_row_is_told(file: SurveyFile) -> None:
    (meaning,) = (column.meaning for column in file.columns if column.name == "kind")
    assert KINDS[file.name] == tuple(re.findall("`([a-z-]+)`", meaning))


def test_every_place_and_standing_is_told() -> None:
    place, standing = (column for column in LEFTOVERS.columns if column.name in ("place", "standing"))
    assert re.findall("`([a-z_]+)`", place.meaning) == [each.value for each in Place]
    assert re.findall("`([a-z_]+)`", standing.meaning) == [each.code for each in Standing]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_all_may_be_null(file: SurveyFile) -> None:
    assert row_problems(file, dict.fromkeys(file.column_names)) == []


@pytest.mark.parametrize(
    "file, name, good, bad",
    [
        (METADATA, "kind", "topic", 1),
        (METADATA, "broker", -1, 2**31),
        (METADATA, "broker", 2**31 - 1, True),
        (METADATA, "answered", False, 0),
        (METADATA, "partitions", [0, 1], [0, "1"]),
        (DIRECTORIES, "size_bytes", 2**63 - 1, 2**63),
        (DIRECTORIES, "taken_at", "2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05Z"),
        (DIRECTORIES, "newest_write", "2026-01-02T03:04:05.678Z", "yesterday"),
        (MANIFEST, "in_motion", ["a"], [1]),
        (MANIFEST, "problems", [{"where": "/a", "what": "gone"}], [{"where": "/a"}]),
        (MANIFEST, "rows", {"znodes.jsonl": 3}, {"znodes.jsonl": "3"}),
    ],
)
def test_values_of_the_wrong_kind_are_named(file: SurveyFile, name: str, good: JsonValue, bad: JsonValue) -> None:
    row: dict[str, JsonValue] = dict.fromkeys(file.column_names)
    assert row_problems(file, {**row, name: good}) == []
    (problem,) = row_problems(file, {**row, name: bad})
    assert problem.startswith(repr(name))


def test_missing_and_strange_columns_are_named() -> None:
    row: dict[str, JsonValue] = dict.fromkeys(METADATA.column_names[1:])
    assert row_problems(METADATA, {**row, "more": 1}) == [
        "'more' is no column of metadata.jsonl",
        "'survey_id' is missing",
    ]
