"""Topic names as a person protects them: `*` is any text, `?` any one character, everything else is itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

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
"""Topics that hold what others live by, though they may not be written to for years: of Kafka itself and of this
program, schema registries, Kafka Connect (as its documentation names them), state stores of Kafka Streams."""


def glob_as_regex(pattern: str) -> str:
    """The regular expression for whole names that means the same, in Python and in Java."""
    parts = {"*": ".*", "?": "."}
    return "".join(
        parts.get(char) or (char if char.isalnum() or char == "_" else f"[{_in_class(char)}]") for char in pattern
    )


def matching_glob(name: str, patterns: Iterable[str]) -> str | None:
    """The first of the patterns that means this name; None where none does."""
    return next((pattern for pattern in patterns if re.fullmatch(glob_as_regex(pattern), name)), None)


def _in_class(char: str) -> str:
    return f"\\{char}" if char in r"\]^-[&~|" else char
