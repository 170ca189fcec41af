"""What is installed everywhere (runtime.txt: the images, systemd, production.md) is all that the source imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROOMS = tuple(link for link in (ROOT / "lethe").iterdir() if link.is_symlink())
OF_EXTRAS = {"pyspark", "deltalake", "pyarrow", "py4j"}
"""What `lethe zookeeper` and the pipeline need; commands say so where they are missing."""


def named(requirement: str) -> str:
    """The package's name, in the form in which it is imported."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found[0].replace("-", "_").lower()


def imported() -> dict[str, str]:
    """Packages that any module imports, whenever it does so, and one that does."""
    found: dict[str, str] = {}
    for path in (path for room in ROOMS for path in room.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
                names = [node.module]
            for name in names:
                found[name.partition(".")[0]] = str(path.relative_to(ROOT))
    return {name: where for name, where in found.items() if name not in ("lethe", *sys.stdlib_module_names)}


def test_everything_that_is_imported_is_a_dependency_and_pinned() -> None:
    declared = {named(each) for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]}
    lines = (ROOT / "requirements" / "runtime.txt").read_text().splitlines()
    pinned = {named(line) for line in lines if line and not line.startswith((" ", "#", "-"))}
    needed = {name: where for name, where in imported().items() if name not in OF_EXTRAS}
    assert "aiokafka" in needed
    assert {name: where for name, where in needed.items() if name not in declared} == {}
    assert declared - pinned == set()
