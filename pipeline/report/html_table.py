"""HTML tables: caption, headers with scope, a scroll box, and sort keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple

from lethe.pipeline.report.formatting import NONE, count, number
from lethe.pipeline.report.markup import Child, Markup, el, join
from lethe.pipeline.report.values import Row, Rows

COMPACT: Final = "compact"
"""Class of narrow tables."""
NARROW: Final = 4
"""Most columns of a compact table that fit a phone. Of any other table each row becomes a card there, with the columns'
names."""


class Cell(NamedTuple):
    """Content, a sort key if it differs from the content, and a tooltip."""

    content: Child
    sort: float | str | None = None
    title: str | None = None


CellContent = Cell | Child


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """`kind`: name (heads the row), text, number, code, plot, time."""

    title: Child
    kind: str
    cell: Callable[[Row], CellContent]
    explains: str | None = None


def table(
    caption: Child,
    columns: Sequence[Column[Row]],
    rows: Rows[Row],
    one: str = "",
    which: str = "",
    *,
    class_: str = "",
    is_long: bool = False,
) -> Markup:
    """Return a table in a scroll box. The first column of kind `name` heads each row. `one` is what a row is; `which`
    says which rows are shown where not all are."""
    has_cards = class_ != COMPACT or len(columns) > NARROW
    head = el("tr", *(_heading(column) for column in columns))
    body = join(
        (
            el("tr", *(_cell(column, column.cell(row), is_labelled=has_cards) for column in columns))
            for row in rows.shown
        ),
        "\n",
    )
    made = el(
        "table",
        el("caption", caption),
        el("thead", head),
        el("tbody", body),
        class_=f"{class_} cards".lstrip() if has_cards else class_,
    )
    kind = f"scroll{' long' if is_long else ''}{' of-cards' if has_cards else ''}"
    box = el("div", made, class_=kind, role="group", tabindex="0")
    left_out = left_out_note(len(rows.shown), rows.total, one, which) if one else None
    return join((box, None if left_out is None else el("p", left_out, class_="left-out")))


def left_out_note(shown: int, total: int, one: str, which: str) -> Markup | None:
    """Return `200 of 1 204 topics shown: the largest.`, or None if all are shown."""
    if shown >= total:
        return None
    return join((f"{number(shown)} of {count(total, one)} shown: {which}.",))


def _heading(column: Column[Any]) -> Markup:
    return el("th", column.title, scope="col", class_=column.kind, title=column.explains)


def _cell(column: Column[Any], shown: CellContent, *, is_labelled: bool) -> Markup:
    content, sort, title = shown if isinstance(shown, Cell) else (shown, None, None)
    if content is None or content == "":
        content = el("span", NONE, class_="none")
    attributes = {"class_": column.kind, "data_sort": sort, "title": title}
    if column.kind == "name":
        return el("th", content, scope="row", **attributes)
    label = column.title if is_labelled and not isinstance(column.title, Markup) else None
    return el("td", content, **attributes, data_label=label or None)
