"""ARCHITECTURE.md says of every file of the core what belongs in it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_table_of_the_core_names_every_file_and_no_other() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    (table,) = re.findall(r"\n## The controller's core\n(.*?)\n## ", text, re.DOTALL)
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)]
    files = {path.stem for path in (ROOT / "controller" / "core").glob("*.py")} - {"__init__"}
    assert sorted(named) == sorted(files)
