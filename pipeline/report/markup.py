"""HTML and SVG by construction: text that is not `Markup` is escaped when it is put into an element."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final


class Markup(str):
    """Text that is HTML already. Only this module creates it."""

    __slots__ = ()


Child = str | Markup | None
_VOID: Final = frozenset({"br", "col", "input", "link", "meta"})
# Characters that a reader would not see, or that turn the order of the others around, are shown by their number.
_HIDDEN: Final = {
    code: f"\\u{code:04x}"
    for code in (
        *(c for c in range(0x20) if c not in (0x09, 0x0A)),
        *range(0x7F, 0xA0),
        0x061C,
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
        *range(0xFFF0, 0xFFFC),
    )
}


def escape(text: str) -> Markup:
    """Return text for an element or a quoted attribute; invisible characters become visible."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(visible(text), quote=True))


def visible(text: str) -> str:
    """Return the text with invisible characters as numbers; it is not HTML."""
    return text.translate(_HIDDEN).encode("utf-8", "backslashreplace").decode()


def el(tag: str, *children: Child, **attributes: str | int | float | bool | None) -> Markup:
    """Return an element. Attribute names lose a trailing underscore (`class_`), and other underscores become hyphens.
    None and False omit an attribute; True gives it no value."""
    parts = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{escape(str(value))}"')
    opening = " ".join(parts)
    if tag in _VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{join(children)}</{tag}>")


def join(children: Iterable[Child], between: str = "") -> Markup:
    """Join the children; None is skipped."""
    return Markup(escape(between).join(escape(child) for child in children if child is not None))


def raw(text: str) -> Markup:
    """Return trusted HTML of this package, such as its style sheet. Never pass text of the lake."""
    return Markup(text)
