"""What several sections are made of: their frame, commands, legends, times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from lethe.pipeline.report.html_table import Cell
from lethe.pipeline.report.markup import Child, Markup, el, join
from lethe.pipeline.report.words import MS_PER_DAY, count, cut, duration, instant, number, size

TOPIC_FITS: Final = 12
"""Characters of a topic's name that are never cut for want of room."""


class Section(NamedTuple):
    """A part of the page. `tally` stands beside its name in the contents; `is_loud` where somebody should look."""

    anchor: str
    title: str
    lead: Child
    body: Markup
    tally: str = ""
    is_loud: bool = False

    def markup(self) -> Markup:
        lead = None if self.lead is None else el("p", self.lead, class_="lead")
        return el("section", el("h2", self.title), lead, self.body, id=self.anchor, aria_label=self.title)


def command(text: str) -> Markup:
    """Something to be typed; the page's script puts a button for copying beside it."""
    return el("code", cut(text, 600), class_="command")


def code(text: str | None, limit: int = 260) -> Markup | None:
    """A name, a path, an id."""
    return None if not text else el("code", cut(text, limit))


def calm(text: str) -> Markup:
    """Where there is nothing to show."""
    return el("p", text, class_="calm")


def legend(entries: Iterable[tuple[str, str, str | None]]) -> Markup:
    """Colour, name, and what it means."""
    items = [
        el("li", el("span", class_=f"key {class_}", aria_hidden="true"), name, title=means)
        for class_, name, means in entries
    ]
    return el("ul", *items, class_="legend")


def figure(chart: Markup, numbers: Markup, *above: Child, has_scale: bool = False) -> Markup:
    """A chart, and the table that says the same; `has_scale`: with labels at its left."""
    plot = el("div", *above, chart, class_="plot has-scale" if has_scale else "plot")
    return el("figure", plot, el("div", numbers, class_="numbers"))


def more(summary: str, body: Markup) -> Markup:
    """Something that is there for who asks."""
    return el("details", el("summary", summary), body)


def topic_cell(topic: str | None) -> Cell:
    """The name of a topic; shown whole on pointing at it where it may be cut."""
    name = cut(topic or "")
    return Cell(el("span", name), title=name if len(name) > TOPIC_FITS else None)


def when(ms: int | None) -> Cell:
    """An instant; sorted as one."""
    return Cell(None if ms is None else el("time", instant(ms), datetime=_rfc3339(ms)), ms)


def took(ms: float | None) -> Cell:
    return Cell(None if ms is None else duration(ms), ms, None if ms is None else f"{number(ms)} ms")


def after(ms: int | None, start: int | None) -> Cell:
    """How long after the start it was."""
    return took(None if ms is None or start is None else ms - start)


def bytes_cell(value: int | None) -> Cell:
    return Cell(None if value is None else size(value), value, None if value is None else count(value, "byte"))


def amount(value: float | None) -> Cell:
    return Cell(None if value is None else number(value), value)


def sentences(texts: Iterable[str], limit: int = 5) -> Markup:
    """One below the other; a few, and how many more."""
    known = list(texts)
    shown: list[Child] = [el("li", cut(text)) for text in known[:limit]]
    if len(known) > limit:
        shown.append(el("li", f"and {number(len(known) - limit)} more"))
    return el("ul", *shown, class_="sentences")


def labelled(words: Child, class_: str) -> Markup:
    """A word in a box that tells by its colour as well."""
    return el("span", words, class_=f"label {class_}")


def stack(*parts: Child) -> Markup:
    return join(parts, "\n")


def _rfc3339(ms: int) -> str:
    return instant(ms).replace(" ", "T") + "Z" if abs(ms) < 100_000 * MS_PER_DAY else ""
