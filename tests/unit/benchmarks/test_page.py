"""The page of the benchmarks has the part of each whose results are there."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.against_kafka import many_page as many
from benchmarks.against_kafka import results as of_controllers
from benchmarks.page import DOCS, HEAD, NAME, generated, page
from benchmarks.pipeline import results as of_pipeline
from benchmarks.pipeline.results import TURNS_NAME
from benchmarks.security import results as of_security
from benchmarks.world import page as world


def test_the_page_has_the_parts_whose_results_are_there(tmp_path: Path) -> None:
    assert page(tmp_path) == HEAD
    shutil.copy(of_pipeline.JSON, tmp_path)
    assert "## The data pipeline" in page(tmp_path)
    assert "Kafka's, side by side" not in page(tmp_path)
    shutil.copy(DOCS / world.JSON_NAME, tmp_path)
    shutil.copy(DOCS / many.JSON_NAME, tmp_path)
    shutil.copy(of_controllers.JSON, tmp_path)
    shutil.copy(of_security.JSON, tmp_path)
    shutil.copy(DOCS / TURNS_NAME, tmp_path)
    assert page(tmp_path) == generated()


def test_the_page_lies_beside_its_results() -> None:
    assert (DOCS / NAME).read_text().rstrip() == generated().rstrip()
