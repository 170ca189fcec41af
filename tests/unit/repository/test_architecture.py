"""ARCHITECTURE.md says of every file of the core, and of every part of the pipeline, what belongs in it, and names no
file that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()


def named_in(section: str) -> list[str]:
    """What the first cells of the section's table name, in order."""
    (table,) = re.findall(rf"\n## {section}\n(.*?)\n## ", TEXT, re.DOTALL)
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return sorted(name for cell in first_cells for name in re.findall(r"`(\w+)`", cell))


def test_the_table_of_the_core_names_every_file_and_no_other() -> None:
    files = {path.stem for path in (ROOT / "controller" / "core").glob("*.py")} - {"__init__"}
    assert named_in("The controller's core") == sorted(files)


def test_the_table_of_the_pipeline_names_every_part_and_no_other() -> None:
    pipeline = ROOT / "pipeline"
    parts = {path.stem for path in pipeline.glob("*.py")} | {path.parent.name for path in pipeline.glob("*/*.py")}
    assert named_in("The pipeline") == sorted(parts - {"__init__"})


def test_the_hops_lead_through_files_that_are_there() -> None:
    hops = re.findall(r"\n## One \w+, five hops\n(.*?)(?=\n## )", TEXT, re.DOTALL)
    assert len(hops) == 2
    places = ("", "controller/core", "protocol", "pipeline", "pipeline/transforms", "pipeline/report")
    for name in re.findall(r"`([\w/]+\.py)`", "".join(hops)):
        assert any((ROOT / place / name).is_file() for place in places), name


def test_the_answers_to_where_are_files_that_are_there() -> None:
    (table,) = re.findall(r"\n## Where is …\?\n(.*?)\n## ", TEXT, re.DOTALL)
    named = re.findall(r"`([\w/]+\.py)`", table)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).is_file()] == []
