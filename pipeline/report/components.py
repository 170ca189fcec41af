"""Components that several sections share: frame, commands, legends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lethe.pipeline.report.formatting import cut, number
from lethe.pipeline.report.markup import Child, Markup, el, join


class Section(NamedTuple):
    """A part of the page. `tally` is shown beside its name in the contents; `is_loud` marks a section that needs
    attention."""

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
    """Return a command to type; the page's script adds a copy button."""
    return el("code", cut(text, 600), class_="command")


def code(text: str | None, limit: int = 260) -> Markup | None:
    """Return a name, a path or an id."""
    return None if not text else el("code", cut(text, limit))


def empty_note(text: str) -> Markup:
    """Return the text of a section without content."""
    return el("p", text, class_="calm")


def legend(entries: Iterable[tuple[str, str, str | None]]) -> Markup:
    """Return a legend of colour class, name and tooltip."""
    items = [
        el("li", el("span", class_=f"key {class_}", aria_hidden="true"), name, title=means)
        for class_, name, means in entries
    ]
    return el("ul", *items, class_="legend")


def figure(chart: Markup, numbers: Markup, *above: Child, has_scale: bool = False) -> Markup:
    """Return a chart with its table of numbers. `has_scale`: the chart has labels at its left."""
    plot = el("div", *above, chart, class_="plot has-scale" if has_scale else "plot")
    return el("figure", plot, el("div", numbers, class_="numbers"))


def details(summary: str, body: Markup, class_: str | None = None) -> Markup:
    """Return content that opens on request."""
    return el("details", el("summary", summary), body, class_=class_)


def sentences(texts: Iterable[str], limit: int = 5) -> Markup:
    """Return a list of at most `limit` texts, and the number of further ones."""
    known = list(texts)
    shown: list[Child] = [el("li", cut(text)) for text in known[:limit]]
    if len(known) > limit:
        shown.append(el("li", f"and {number(len(known) - limit)} more"))
    return el("ul", *shown, class_="sentences")


def unseen(text: str, notes: Iterable[str] = (), limit: int = 5) -> Markup:
    """Return what the page cannot know, with a list of `limit` notes."""
    return el("div", el("p", text), sentences(notes, limit) if notes else None, class_="unseen")


def badge(words: Child, class_: str) -> Markup:
    """Return words in a coloured box."""
    return el("span", words, class_=f"label {class_}")


def stack(*parts: Child) -> Markup:
    return join(parts, "\n")
