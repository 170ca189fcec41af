"""The board's document, and what changed between two of them. Pure.

    {"version": 1, "at_ms": ...,                      when it was looked at, on the controller's clock
     "values": {"controller": {...}, "queue": {...}}, small, sent whole when anything in it has changed
     "lists": {"held": L, "queued": L, "started": L, "acknowledged": L, "removing": L, "done": L,
               "groups": L, "brokers": L, "tenures": L, "history": L}}

    L, a bounded list: `count` is how many there are, of which the first are in it
    {"count": 1000, "order": ["orders", ...], "rows": {"orders": {...}}}

A delta has the same form and holds only what has changed: a `count`, an `order`, those rows that are new or different.
A row that is no longer in the order is gone. The first message of a stream is a delta from nothing, so a reader needs
one way to take both in. What is in the rows: docs/board.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lethe.protocol.journal import JsonValue

VERSION: Final = 1
Row = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Rows:
    """The first rows of a list by their keys, in its order, and how many there are of them in all."""

    count: int = 0
    rows: Mapping[str, Row] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """What the board shows at one moment."""

    values: Mapping[str, JsonValue] = field(default_factory=dict)
    lists: Mapping[str, Rows] = field(default_factory=dict)


NOTHING: Final = Document()


def delta(before: Document, after: Document) -> dict[str, JsonValue] | None:
    """What has to be told to who has seen `before`; None where that is nothing."""
    values: dict[str, JsonValue] = {
        name: value for name, value in after.values.items() if before.values.get(name) != value
    }
    lists: dict[str, JsonValue] = {}
    for name, rows in after.lists.items():
        changed = _list_delta(before.lists.get(name), rows)
        if changed:
            lists[name] = changed
    found: dict[str, JsonValue] = {}
    if values:
        found["values"] = values
    if lists:
        found["lists"] = lists
    return found or None


def _list_delta(before: Rows | None, after: Rows) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    known: Mapping[str, Row] = {} if before is None else before.rows
    if before is None or before.count != after.count:
        found["count"] = after.count
    if before is None or list(known) != list(after.rows):
        found["order"] = list(after.rows)
    rows: dict[str, JsonValue] = {key: dict(row) for key, row in after.rows.items() if known.get(key) != row}
    if rows:
        found["rows"] = rows
    return found
