"""HTML and SVG by construction: what is not `Markup` is text, and is escaped when it is put into an element."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final


class Markup(str):
    """Text that is HTML already. Only this module makes it."""

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
    """As it can stand in an element and in a quoted attribute; invisible characters made visible."""
    if isinstance(text, Markup):
        return text
    shown = text.translate(_HIDDEN).encode("utf-8", "backslashreplace").decode()
    return Markup(html.escape(shown, quote=True))


def el(tag: str, *children: Child, **attributes: str | int | float | bool | None) -> Markup:
    """An element. Of attributes a trailing underscore is dropped (`class_`), others become hyphens; None and False
    leave one out, True gives it no value."""
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
    """One after the other; None is nothing."""
    return Markup(escape(between).join(escape(child) for child in children if child is not None))


def raw(text: str) -> Markup:
    """Text that this package itself has written as HTML, such as its own style sheet. Never of the lake."""
    return Markup(text)
