"""A result says where it comes from, one sentence for one run and a list for several, and with which interpreter."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import provenance
from benchmarks.provenance import build, commit, measured_on, python_build, refusal, told


def origin(when: str, lethe: str) -> dict[str, Any]:
    return {"when": when, "machine": {"processor": "two cores", "disk": "slow"}, "versions": {"Lethe": lethe}}


def test_one_run_is_a_sentence_and_several_are_a_list() -> None:
    first, second = origin("2026-01-02", "0123456"), origin("2026-01-03", "89abcde")
    assert told([(first, "a"), (first, "b")], "processor") == ["Measured on 2026-01-02: two cores; Lethe 0123456."]
    assert told([(first, "a"), (second, "b"), (first, "c")], "processor") == [
        "Measured in 2 runs:",
        "",
        "* a, c: measured on 2026-01-02: two cores; Lethe 0123456.",
        "* b: measured on 2026-01-03: two cores; Lethe 89abcde.",
    ]
    assert told([], "processor") == []


def test_uncommitted_changes_are_said_plainly() -> None:
    assert measured_on(origin("today", "0123456-dirty"), "disk") == (
        "Measured on today: slow; Lethe 0123456 with uncommitted changes."
    )


def test_the_build_of_the_interpreter_is_named() -> None:
    assert build("GCC 12", "'--enable-optimizations' '--with-lto'", None) == "GCC 12, PGO, LTO"
    assert build("GCC 12", "'--prefix=/opt'", None) == "GCC 12, no PGO, no LTO"
    assert build("GCC 12", "'--with-lto'", "Some Linux 9") == (
        "GCC 12, LTO, package of Some Linux 9, whose CONFIG_ARGS do not name PGO"
    )
    assert build("GCC 12", "'--with-lto' '--enable-optimizations'", "Some Linux 9").endswith("package of Some Linux 9")
    assert python_build().startswith("3.")


def test_results_for_the_pages_need_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (
        ("init", "--quiet"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "first"),
    ):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    docs = tmp_path / "docs"
    docs.mkdir()
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setattr(provenance, "DOCS", docs)
    (docs / "page.md").write_text("written by a run")
    assert refusal(docs) is None
    assert not commit().endswith("-dirty")
    (tmp_path / "source.py").write_text("changed")
    assert "1 uncommitted changes (?? source.py" in (refusal(docs) or "")
    assert commit().endswith("-dirty")
    assert refusal(None) is None
    assert refusal(tmp_path) is None, "another place than the pages'"
