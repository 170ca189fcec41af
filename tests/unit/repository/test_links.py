"""Every link of every page leads to a file and a heading that are there, and docs/README.md leads to every page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
PAGES: Final = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*.md"), *ROOT.glob("benchmarks/*.md")]
)
_CODE: Final = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\(([^()\s]+)\)")
_ROOMS: Final = "|".join(
    path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0].isalpha() and path.name != "build"
)
_FILE: Final = re.compile(rf"(?<![\w/.-])((?:{_ROOMS})/[a-z0-9_/-]+\.(?:py|ya?ml|md|json|properties))\b(?!\w)")
_HEADING: Final = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)


def links(page: Path) -> list[str]:
    """What the page leads to within the repository."""
    text = _CODE.sub("", page.read_text())
    return [link for link in _LINK.findall(text) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """Under which names GitHub finds the page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in _HEADING.findall(text)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_with_their_room_are_there(page: Path) -> None:
    """But for the changelog, which tells of files that there were."""
    if page.name != "CHANGELOG.md":
        assert [name for name in _FILE.findall(page.read_text()) if not (ROOT / name).exists()] == []


def test_links_are_found() -> None:
    assert "alerts-fired.json" in links(ROOT / "docs" / "runbook.md")
    assert "never-surgery-on-znodes-and-directories" in anchors(ROOT / "docs" / "runbook.md")


def test_the_index_leads_to_every_page_of_docs() -> None:
    index = ROOT / "docs" / "README.md"
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {index.name}
    assert sorted(pages - set(links(index))) == []


def test_the_index_of_decisions_has_every_page_under_its_title() -> None:
    decisions = ROOT / "docs" / "decisions"
    titles = {path.name: path.read_text().partition("\n")[0] for path in decisions.glob("0*.md")}
    listed = re.findall(r"^\* \[(\d+)\]\((\S+)\) (.+)$", (decisions / "README.md").read_text(), re.MULTILINE)
    assert {name: f"# {number}: {title}" for number, name, title in listed} == titles
