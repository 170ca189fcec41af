"""Manifests of kept surveys: what is not whole is refused, because what a survey does not name seems not to exist."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from lethe.pipeline.io.surveys import KeptSurvey, RefusedSurvey, _parse_manifest
from lethe.protocol.survey_records import DIRECTORIES, LEFTOVERS, MANIFEST, ROW_FILES, ZNODES

ROWS = {file.name: number for number, file in enumerate(ROW_FILES)}


def manifest(**changes: Any) -> str:
    values = dict.fromkeys(MANIFEST.column_names) | {"version": 1, "survey_id": "s", "rows": ROWS}
    values |= {"taken_at": "2026-01-05T09:00:00.000Z", "in_motion": [], "problems": [], "complete": True}
    return orjson.dumps(values | changes).decode()


def test_a_manifest_says_how_many_rows_each_file_has() -> None:
    kept = _parse_manifest("/s", manifest())
    assert isinstance(kept, KeptSurvey)
    assert {file.name: kept.row_count(file) for file in ROW_FILES} == ROWS


def test_a_manifest_of_before_there_were_checksums_is_read() -> None:
    older = {name: value for name, value in orjson.loads(manifest()).items() if name != "checksums"}
    kept = _parse_manifest("/s", orjson.dumps(older).decode())
    assert isinstance(kept, KeptSurvey)
    assert not any(kept.checksum(file) for file in ROW_FILES)


def test_a_manifest_of_before_findings_were_kept_is_read() -> None:
    kept = _parse_manifest("/s", manifest(rows={name: rows for name, rows in ROWS.items() if name != LEFTOVERS.name}))
    assert isinstance(kept, KeptSurvey)
    assert (kept.has_leftovers, kept.row_count(LEFTOVERS)) == (False, 0)


@pytest.mark.parametrize(
    "rows,names",
    [
        ({}, tuple(name for name in ROWS if name != LEFTOVERS.name)),
        ({name: count for name, count in ROWS.items() if name != ZNODES.name}, (ZNODES.name,)),
        ({**ROWS, DIRECTORIES.name: -1}, (DIRECTORIES.name,)),
        ({**ROWS, LEFTOVERS.name: -1}, (LEFTOVERS.name,)),
    ],
)
def test_a_manifest_that_leaves_a_file_out_is_refused(rows: dict[str, int], names: tuple[str, ...]) -> None:
    refused = _parse_manifest("/s", manifest(rows=rows))
    assert isinstance(refused, RefusedSurvey)
    for name in names:
        assert f"'rows' does not say how many rows {name} has" in refused.why


@pytest.mark.parametrize("version", [0, -1])
def test_a_form_that_never_was_is_refused(version: int) -> None:
    refused = _parse_manifest("/s", manifest(version=version))
    assert isinstance(refused, RefusedSurvey)
    assert refused.why == f"it has form {version}, and there is none before 1: take it anew"
