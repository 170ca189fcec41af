"""Glob patterns for protected topic names: `*` is any text, `?` any one character, other characters are literal.

lethe.protected.topics=orders, billing.*      protects orders, billing.eu; not orders.eu
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lethe.protocol.vocabulary import INTERNAL_TOPICS

PROTECTED_TOPICS: Final = "lethe.protected.topics"
"""The controller's setting: patterns of topics that it never deletes."""

KEPT_BY_CUSTOM: Final = (
    "_*",
    "connect-configs",
    "connect-offsets",
    "connect-status",
    "*-connect-configs",
    "*-connect-offsets",
    "*-connect-status",
    "*-changelog",
)
"""Topics that other systems depend on, although they may not be written to for years: Kafka's and Lethe's own, schema
registries, Kafka Connect (names from its documentation), state stores of Kafka Streams."""


def glob_as_regex(pattern: str) -> str:
    """Return the equivalent regular expression for whole names, valid in Python and in Java."""
    parts = {"*": ".*", "?": "."}
    return "".join(
        parts.get(char) or (char if char.isalnum() or char == "_" else f"[{_in_class(char)}]") for char in pattern
    )


def matching_glob(name: str, patterns: Iterable[str]) -> str | None:
    """Return the first pattern that matches this name; None if none does."""
    return next((pattern for pattern in patterns if re.fullmatch(glob_as_regex(pattern), name)), None)


def protecting_glob(name: str, patterns: Iterable[str]) -> str | None:
    """Return the first pattern that protects this topic; the name itself if it is internal to Kafka; else None."""
    return name if name in INTERNAL_TOPICS else matching_glob(name, patterns)


def parse_globs(text: str) -> tuple[str, ...] | str:
    """Return the patterns of a comma-separated list; or the first of them that can match no topic."""
    patterns = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    return next((pattern for pattern in patterns if not _MAY_MATCH.fullmatch(pattern)), patterns)


_MAY_MATCH: Final = re.compile(r"[A-Za-z0-9._*?-]+")


def _in_class(char: str) -> str:
    return f"\\{char}" if char in r"\]^-[&~|" else char
