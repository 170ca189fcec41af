"""The board's document, and the difference of two documents. Pure.

    {"version": 1, "at_ms": ...,                      time of the document, on the controller's clock
     "values": {"controller": {...}, "queue": {...}}, small; each is sent whole when it has changed
     "lists": {"held": L, "queued": L, "started": L, "acknowledged": L, "removing": L, "done": L,
               "groups": L, "brokers": L, "terms": L, "history": L}}

    L, a bounded list: `count` rows exist, and the first of them are in it
    {"count": 1000, "order": ["orders", ...], "rows": {"orders": {...}}}

A delta has the same form and holds only changes: a `count`, an `order`, new and different rows. A row that is not in
the order is removed. The first message of a stream is a delta from the empty document, so a reader parses one format.
docs/board.md describes the rows.
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
    """The first rows of a list by key, in order, and the number of all."""

    count: int = 0
    rows: Mapping[str, Row] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """The board's contents at one moment."""

    values: Mapping[str, JsonValue] = field(default_factory=dict)
    lists: Mapping[str, Rows] = field(default_factory=dict)


NOTHING: Final = Document()


def delta(before: Document, after: Document) -> dict[str, JsonValue] | None:
    """Return the changes since `before`; None where there are none."""
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
