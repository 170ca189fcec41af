"""`lethe report`: the page is written, and what it comes to is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lethe.cli.main import app
from tests.fakes.report_lake import write_lake


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return write_lake(tmp_path / "lake", 12)


def test_it_writes_the_page_and_says_the_verdict(lake: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["report", "--lake", str(lake), "--out", str(out), "--title", "Friday's clean-up"])
    assert done.exit_code == 0
    assert done.stdout.startswith("13 deletions, 12 done, 1 stuck, 2 left over")
    assert str(out) in done.stdout
    assert "<h1>Friday&#x27;s clean-up</h1>" in out.read_text()


def test_json_has_the_numbers(lake: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["report", "--lake", str(lake), "--out", str(out), "--json"])
    found = json.loads(done.stdout)
    assert (found["deletions"], found["done"], found["open"], found["stuck"]) == (13, 12, 1, 1)
    assert found["findings"] == {"left_over": 2, "pending": 1, "set_aside": 1}
    assert found["size_bytes"] == out.stat().st_size


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--from", "yesterday"], "--from 'yesterday' is not a day such as 2026-01-31"),
        (["--from", "2026-02-01", "--to", "2026-01-01"], "--from 2026-02-01 is after --to 2026-01-01"),
        (["--lake", "/nowhere"], "--lake /nowhere: there is no such directory"),
        (["--out", "/nowhere/report.html"], "--out /nowhere/report.html: No such file or directory"),
    ],
)
def test_what_is_wrong_is_named(lake: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    usual = {"--lake": str(lake), "--out": str(tmp_path / "report.html")}
    words = [word for name, value in usual.items() if name not in arguments for word in (name, value)]
    done = CliRunner().invoke(app, ["report", *words, *arguments])
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_where_no_page_can_be_is_said_before_the_lake_is_read(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", "--lake", str(tmp_path / "none"), "--out", str(tmp_path)])
    assert (done.exit_code, done.stderr) == (2, f"lethe: --out {tmp_path}: Is a directory\n")
