"""The file that `spark-submit` runs says what the driver's Python lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lethe.admin.refusal import Exit

MAIN = Path(__file__).parents[3] / "deploy" / "spark" / "lethe-spark.py"
RUN = f"import runpy, sys; sys.argv = ['lethe-spark.py', 'pipeline', 'tables']; {{}}; runpy.run_path({str(MAIN)!r})"


def said(before: str, path: Path, *flags: str) -> str:
    """What the file says, with `path` alone beside Python's own modules, after these words of Python."""
    command = [sys.executable, *flags, "-c", RUN.format(before)]
    environment = {"PYTHONPATH": str(path)}
    done = subprocess.run(command, cwd=MAIN.parent, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (Exit.USAGE, ""), done
    return done.stderr


@pytest.mark.parametrize("version", ["(2, 7, 18)", "(3, 9, 2)"])
def test_an_older_python(version: str, tmp_path: Path) -> None:
    text = said(f"sys.version_info = {version}", tmp_path)
    assert "is too old for Lethe, which needs 3.11: --conf spark.pyspark.driver.python=PYTHON names another" in text


def test_no_lethe(tmp_path: Path) -> None:
    text = said("pass", tmp_path, "-S")
    assert f"the driver's Python ({sys.executable}," in text
    assert "does not find Lethe: name its wheel (--py-files FILE.whl), or install it there" in text


def test_lethe_without_what_it_requires() -> None:
    text = said("pass", MAIN.parents[2], "-S")
    assert "lacks a package of Lethe, or has it for another Python: No module named 'typer': pip install" in text
