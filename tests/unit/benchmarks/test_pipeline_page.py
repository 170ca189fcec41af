"""What is measured again takes its own place on the pipeline's page, and nothing else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.documents import Document, write
from benchmarks.pipeline import page, results
from benchmarks.pipeline.__main__ import parse
from benchmarks.pipeline.plot import svg


def measured(lines: int, seconds: float) -> dict[str, Any]:
    return {
        "lines": lines,
        "directories": lines // 10,
        "size_bytes": lines * 400,
        "seconds": seconds,
        "peak_bytes": 4_000_000_000,
        "stages": [("starting Spark", 0.0), ("auditing", seconds / 2), ("done", seconds)],
        "wrong": [],
    }


def document(*runs: dict[str, Any], cluster: dict[str, Any] | None = None) -> Document:
    return results.document(list(runs), cluster, ORIGIN)


ORIGIN: dict[str, Any] = {
    "when": "2026-01-02",
    "machine": {"processor": "a", "memory": "b", "system": "c"},
    "versions": {"Spark": "4.3.0"},
}


def test_a_size_that_is_measured_again_replaces_what_was_found_of_it() -> None:
    there = {**measured(1_000, 9.0), "local": measured(1_000, 8.0), "tables": {"surveys": {}}}
    earlier = document(measured(5_000_000, 400.0), measured(50_000_000, 3_000.0), cluster=there)
    found = results.merge_runs(earlier, document(measured(5_000_000, 300.0)))
    assert [(run["lines"], run["seconds"]) for run in found["runs"]] == [(5_000_000, 300.0), (50_000_000, 3_000.0)]
    assert found["cluster"] == {**there, "measured": ORIGIN}
    later = {**ORIGIN, "when": "2026-03-04"}
    mixed = results.merge_runs(earlier, results.document([measured(5_000_000, 300.0)], None, later))
    assert "* 5,000,000 lines: measured on 2026-03-04" in page.page(results.merge_runs(mixed, document()))
    again = results.merge_runs(found, document(measured(1_000_000, 100.0), cluster={**there, "seconds": 7.0}))
    assert [run["lines"] for run in again["runs"]] == [1_000_000, 5_000_000, 50_000_000]
    assert again["cluster"]["seconds"] == 7.0


def test_the_page_compares_the_largest_with_the_smallest() -> None:
    found = document(measured(5_000_000, 300.0), measured(50_000_000, 2_400.0))
    text = page.page(found)
    assert "10.0 times the lines take 8.0 times as long: 0.80 of what is linear." in text
    assert "| auditing | 150.0 | 1,200.0 | 8.0 |" in text
    assert "| 50,000,000 | 5,000,000 | 20.0 GB | 40 min 00 s | 20,833 | 4.0 GB | all of it |" in text
    assert svg(found).startswith("<svg")


def test_the_comparison_can_be_measured_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(document(measured(5_000_000, 300.0)), tmp_path / results.JSON_NAME)
    assert parse(["--sizes", "none", "--add", "--output", str(tmp_path)]).sizes == ()
    assert parse(["--sizes", "5:0.5,50:5", "--output", str(tmp_path)]).sizes == ((5, 0.5), (50, 5))
    for given, words in ((["--sizes", "none"], "--add leaves"), (["--sizes", "many"], "--sizes many: LINES")):
        with pytest.raises(SystemExit):
            parse([*given, "--output", str(tmp_path)])
        assert words in capsys.readouterr().err
