"""Building blocks of the journal's schema: kinds of values, forms of data, and the check of an event record against a
form."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import NamedTuple

from lethe.protocol.journal import EventRecord, JsonValue, ranges_in, time_from_text


class KeyKind(enum.Enum):
    """The type of a value."""

    TEXT = "text"
    COUNT = "whole number, 0 or more"
    ID = "whole number, -1 or more"
    NUMBER = "number, 0 or more"
    BOOLEAN = "boolean"
    RANGES = "ranges of partitions, as `0-3,7`"
    REPLICAS = 'object of ranges, brokers to their partitions, as `{"1-3": "0-3,7"}`'
    COUNTS = "object of whole numbers"
    TEXTS = "list of texts"
    TIME = "RFC 3339 time"
    TEXT_OR_NULL = "text or null"


class Key(NamedTuple):
    name: str
    kind: KeyKind
    meaning: str
    optional: bool = False


class Form(NamedTuple):
    """One form of an event record type: its writer, its subject (a pattern), the keys of its data."""

    writer: str
    subject: str
    keys: tuple[Key, ...]


class Schema(NamedTuple):
    meaning: str
    forms: tuple[Form, ...]


def _is_number(value: JsonValue, minimum: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= minimum


def _is_whole(value: JsonValue, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def _parses(parse: Callable[[str], object], value: JsonValue) -> bool:
    try:
        parse(value if isinstance(value, str) else "?")
    except ValueError:
        return False
    return True


def _fits(kind: KeyKind, value: JsonValue) -> bool:
    match kind:
        case KeyKind.TEXT:
            return isinstance(value, str)
        case KeyKind.TEXT_OR_NULL:
            return value is None or isinstance(value, str)
        case KeyKind.COUNT:
            return _is_whole(value, 0)
        case KeyKind.ID:
            return _is_whole(value, -1)
        case KeyKind.NUMBER:
            return _is_number(value, 0)
        case KeyKind.BOOLEAN:
            return isinstance(value, bool)
        case KeyKind.RANGES:
            return _parses(ranges_in, value)
        case KeyKind.REPLICAS:
            return isinstance(value, dict) and all(
                _parses(ranges_in, ranges) for entry in value.items() for ranges in entry
            )
        case KeyKind.TIME:
            return _parses(time_from_text, value)
        case KeyKind.COUNTS:
            return isinstance(value, dict) and all(_is_whole(count, 0) for count in value.values())
        case KeyKind.TEXTS:
            return isinstance(value, list) and all(isinstance(each, str) for each in value)


def problems_with(form: Form, record: EventRecord) -> list[str]:
    """Return where the event record violates this form; empty if it conforms."""
    problems = []
    if re.fullmatch(form.subject, record.subject, re.DOTALL) is None:
        problems.append(f"the subject {record.subject!r} is not like {form.subject!r}")
    for key in form.keys:
        if key.name not in record.data:
            if not key.optional:
                problems.append(f"{key.name!r} is missing")
        elif not _fits(key.kind, record.data[key.name]):
            problems.append(f"{key.name!r} is {record.data[key.name]!r}, not {key.kind.value}")
    return problems
