"""`lethe report`: writes one HTML page about a lake."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lethe.adapters.atomic_files import demand_replaceable, replace_file
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer
from lethe.cli.lake_options import From, MadeLake, StateOf, To, day, end_of, the_extra
from lethe.cli.options import AsJson
from lethe.cli.running import finish_sync
from lethe.protocol.counting import counted

if TYPE_CHECKING:
    from lethe.pipeline.report.values import Report
    from lethe.protocol.journal import JsonValue

Out = Annotated[
    Path,
    typer.Option("--out", metavar="FILE", help="Where to write the page, such as report.html.", show_default=False),
]
Title = Annotated[str, typer.Option("--title", help="What the page is called.", show_default="Topic deletions")]


def report(
    lake: MadeLake,
    out: Out,
    title: Title = "",
    first: From = None,
    last: To = None,
    state_of: StateOf = None,
    as_json: AsJson = False,
) -> None:
    """Write one self-contained HTML page: what was deleted, how long it took, what is stuck or left over.

    It reads the tables that `lethe pipeline` makes; it needs neither Spark nor a network. Days are those of the marks;
    what is stuck now or left over, the candidates and the quarantine are shown whichever days are asked for.
    """
    finish_sync(lambda: write_report(lake, out, title, first, last, state_of), as_json=as_json)


def write_report(
    lake: str,
    out: Path,
    title: str = "",
    first: str | None = None,
    last: str | None = None,
    state_of: str | None = None,
) -> Answer:
    """Read the lake and write the page. Raises Refusal and ValueError."""
    with the_extra("lethe report"):
        from lethe.pipeline.jobs.report import DayRange
        from lethe.pipeline.report.page import page
        from lethe.pipeline.report.read import read_report
    days = DayRange(day("--from", first), day("--to", last))
    with _failures(out):
        demand_replaceable(out)
    found = read_report(lake, title, days, end_of(state_of))
    text = page(found)
    with _failures(out):
        replace_file(out, text)
    return _answer(found, out, len(text.encode()))


@contextlib.contextmanager
def _failures(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refusal(f"--out {out}: {error.strerror or error}", Exit.USAGE) from error


def _answer(report: Report, out: Path, size_bytes: int) -> Answer:
    from lethe.pipeline.report.summary import findings_by_standing, reclaimed_bytes, summarize

    said = summarize(report)
    deletions = report.deletions
    data: dict[str, JsonValue] = {
        "path": str(out.absolute()),
        "size_bytes": size_bytes,
        "verdict": said.level.name.lower(),
        "sentence": said.sentence,
        "deletions": deletions.total,
        "done": deletions.done,
        "let_go": deletions.let_go,
        "vanished": deletions.vanished,
        "open": deletions.open,
        "stuck": report.stuck.total,
        "reclaimed_bytes": reclaimed_bytes(report),
        "findings": {standing.code: many for standing, many in findings_by_standing(report).items()},
        "violations": report.violations.total,
        "quarantined_lines": sum(report.bad_by_reason.values()),
    }
    return Answer(data, (said.sentence, f"{out.absolute()} ({counted(size_bytes, 'byte')})"))
