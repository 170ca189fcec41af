"""Grace periods of deleted topics, by name: of the rules whose pattern matches, the first one counts.

lethe.deletion.grace=orders.*:24h, tmp-*:0, *:1h      orders.eu: a day; tmp-1: none; any other topic: an hour
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from lethe.protocol.durations import parse_duration_ms
from lethe.protocol.topic_globs import matching_glob, parse_globs

DELETION_GRACE: Final = "lethe.deletion.grace"
"""The controller's setting: for how long deleted topics stay in the trash."""


class GraceRule(NamedTuple):
    """The grace period of topics whose names match a pattern (`topic_globs`)."""

    pattern: str
    grace_ms: int

    @property
    def text(self) -> str:
        """The rule as it is written, in milliseconds."""
        return f"{self.pattern}:{self.grace_ms}ms"


def parse_grace(text: str) -> tuple[GraceRule, ...] | str:
    """Return the rules of a comma-separated list; or the first part that is none."""
    rules: list[GraceRule] = []
    for part in filter(None, map(str.strip, text.split(","))):
        pattern, _, duration = part.partition(":")
        globs = parse_globs(pattern)
        try:
            grace_ms = parse_duration_ms(duration)
        except ValueError:
            return part
        if isinstance(globs, str) or not globs:
            return part
        rules.append(GraceRule(globs[0], grace_ms))
    return tuple(rules)


def grace_of(name: str, rules: Iterable[GraceRule]) -> int:
    """Return the topic's grace period in milliseconds; 0: none."""
    return next((rule.grace_ms for rule in rules if matching_glob(name, (rule.pattern,)) is not None), 0)
