"""Writes the generated pages of docs/, or says which of them are stale.

    python -m tools.docs            write the pages
    python -m tools.docs --check    write nothing; print a diff and exit with 1 where a page is not what it would be

A page is generated from the values that the program itself runs on (transition tables, the schema of the properties,
the version table), so that it cannot say something else than the code does. A generator is a function without
arguments that returns the page's text; to add a page, add a line to PAGES.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent


class Page(NamedTuple):
    """One generated page: where it lies below the repository's root, and `module:function` that returns its text."""

    path: str
    generator: str

    def text(self) -> str:
        """The page as it should be."""
        module, _, function = self.generator.partition(":")
        text = getattr(importlib.import_module(module), function)()
        if not isinstance(text, str):
            raise TypeError(f"{self.generator} returned {type(text).__name__} instead of the text of {self.path}")
        return text.rstrip("\n") + "\n"


PAGES: Final = (
    Page("docs/attacks.md", "tools.attacks_page:page"),
    Page("docs/audit.md", "tools.audit_page:page"),
    Page("docs/benchmarks-pipeline.svg", "benchmarks.pipeline.plot:generated"),
    Page("docs/benchmarks-security.svg", "benchmarks.security.plot:generated"),
    Page("docs/benchmarks.md", "benchmarks.page:generated"),
    Page("docs/benchmarks.svg", "benchmarks.against_kafka.plot:generated"),
    Page("docs/configuration.md", "tools.configuration_page:page"),
    Page("docs/doctor.md", "tools.doctor_page:page"),
    Page("docs/explain.md", "tools.explain_page:page"),
    Page("docs/judge.md", "tools.judge_page:page"),
    Page("docs/journal.md", "tools.journal_page:page"),
    Page("docs/metrics.md", "tools.metrics_page:page"),
    Page("docs/state-machines.md", "tools.state_machines_page:page"),
    Page("docs/surveys.md", "tools.surveys_page:page"),
    Page("docs/tables.md", "tools.tables_page:page"),
    Page("docs/wire-differences.md", "tools.wire_differences_page:page"),
)


def stale(page: Page, root: Path = ROOT) -> str:
    """The diff from the page as it lies there to the page as it should be; empty where they agree."""
    path = root / page.path
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), page.text().splitlines(keepends=True), page.path, f"{page.path} (generated)"
    )
    return "".join(lines)


def write(page: Page, root: Path = ROOT) -> bool:
    """Writes the page where it differs. True where it did."""
    path, text = root / page.path, page.text()
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True


def main(arguments: Sequence[str], pages: Sequence[Page] = PAGES, root: Path = ROOT) -> int:
    """Exit code: 0 where all pages are up to date (or now are), 1 where --check found a stale one, 2 for bad usage."""
    if arguments and list(arguments) != ["--check"]:
        print(f"unknown arguments {list(arguments)}; usage: python -m tools.docs [--check]", file=sys.stderr)
        return 2
    if not arguments:
        for page in pages:
            print(f"{page.path}: {'written' if write(page, root) else 'unchanged'}")
        return 0
    diffs = [diff for page in pages if (diff := stale(page, root))]
    for diff in diffs:
        sys.stdout.write(diff)
    if diffs:
        print(f"{len(diffs)} generated page(s) are stale: run `make docs` and commit what it writes", file=sys.stderr)
    return 1 if diffs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
