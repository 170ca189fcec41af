"""The only module that writes to standard output: answers as text and tables, or as one line of JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import orjson

from lethe.admin.refusal import Refusal
from lethe.cli.answer import Answer, Table

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live
    from rich.table import Table as RichTable

WIDTH_IN_FILES: Final = 160
"""Width of tables outside of a terminal."""


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer on standard output."""
    if as_json:
        line(orjson.dumps(answer.data).decode())
        return
    for each in answer.lines:
        sys.stdout.write(each + "\n")
    if answer.tables:
        from rich.console import Console

        console = Console(width=None if sys.stdout.isatty() else WIDTH_IN_FILES, highlight=False)
        # rich only draws: writing itself, it would exit with 1 where the reader closes the pipe.
        with console.capture() as drawn:
            for table in answer.tables:
                console.print(_rich(table))
        sys.stdout.write(drawn.get())
    sys.stdout.flush()


def line(text: str) -> None:
    """Print one line on standard output, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show_refusal(refusal: Refusal, *, as_json: bool) -> None:
    """Print why a command did not do what was asked: as JSON on standard output, or as text on standard error."""
    if as_json:
        body = {"error": str(refusal), "exit": int(refusal.exit), **refusal.data}
        line(orjson.dumps(body).decode())
    else:
        sys.stderr.write(f"lethe: {refusal}\n")


def live(answer: Answer) -> Live:
    """Return a display of `answer` that is updated in place and erased at the end."""
    from rich.live import Live

    return Live(renderable(answer), auto_refresh=False, transient=True)


def renderable(answer: Answer) -> Group:
    """Return the answer as an object that rich can draw repeatedly."""
    from rich.console import Group
    from rich.text import Text

    return Group(*(Text(line) for line in answer.lines), *(_rich(table) for table in answer.tables))


def note(text: str) -> None:
    """Print a message on standard error."""
    sys.stderr.write(text + "\n")


def prompt(text: str) -> None:
    """Print a question on standard error; the answer is typed behind it."""
    sys.stderr.write(text)
    sys.stderr.flush()


def _rich(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(title=table.title or None, box=box.SIMPLE, title_justify="left", pad_edge=False)
    for column in table.columns:
        shown.add_column(column, overflow="fold", min_width=min(len(column), 12))
    for row in table.rows:
        shown.add_row(*(Text(cell) for cell in row))
    return shown
