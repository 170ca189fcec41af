"""The generated pages: written where they differ, reported where they are stale, never touched by --check."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.docs import PAGES, Page, main, stale, write

PAGE = Page("docs/letters.md", "tests.unit.tools.test_docs:letters")


def letters() -> str:
    return "alpha\nbeta"


def number() -> int:
    return 3


def test_a_missing_page_is_stale_and_then_written_once(tmp_path: Path) -> None:
    assert "+alpha" in stale(PAGE, tmp_path)
    assert write(PAGE, tmp_path)
    assert (tmp_path / "docs/letters.md").read_text() == "alpha\nbeta\n"
    assert stale(PAGE, tmp_path) == ""
    assert not write(PAGE, tmp_path)


def test_check_reports_a_changed_page_and_leaves_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "docs/letters.md"
    path.parent.mkdir()
    path.write_text("alpha\ngamma\n")
    assert main(["--check"], [PAGE], tmp_path) == 1
    printed = capsys.readouterr()
    assert "-gamma" in printed.out
    assert "+beta" in printed.out
    assert "make docs" in printed.err
    assert path.read_text() == "alpha\ngamma\n"
    assert main([], [PAGE], tmp_path) == 0
    assert main(["--check"], [PAGE], tmp_path) == 0


def test_unknown_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--chekc"], [PAGE]) == 2
    assert "--chekc" in capsys.readouterr().err


def test_a_generator_that_gives_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="number returned int"):
        stale(Page("docs/x.md", "tests.unit.tools.test_docs:number"), tmp_path)


def test_no_page_is_generated_twice() -> None:
    assert len({page.path for page in PAGES}) == len(PAGES)
