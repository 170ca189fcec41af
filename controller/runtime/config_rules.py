"""Rules about topics in the properties file: patterns of names, the trash, and how many deletions begin."""

from __future__ import annotations

from lethe.adapters.properties import Values
from lethe.protocol.deletion_grace import DELETION_GRACE, GraceRule, parse_grace
from lethe.protocol.kafka.config_values import parse_thousandths
from lethe.protocol.topic_globs import parse_globs


def read_patterns(values: Values, name: str) -> tuple[str, ...]:
    """Return the patterns of topics that a property lists; if one is invalid, note that and return none."""
    patterns = parse_globs(values.text(name) or "")
    if isinstance(patterns, str):
        values.wrong(name, f"has {patterns!r}, which matches no topic", "write names with * and ?")
        return ()
    return patterns


def read_grace(values: Values) -> tuple[GraceRule, ...]:
    """Return the rules by which topics go into the trash; if one is invalid, note that and return none."""
    rules = parse_grace(values.text(DELETION_GRACE) or "")
    if isinstance(rules, str):
        values.wrong(DELETION_GRACE, f"has {rules!r}", "write a pattern and a duration, such as orders.*:24h or *:0")
        return ()
    return rules


def read_rate(values: Values, name: str) -> int:
    """Return the number in thousandths; if it is invalid, note that and return 0."""
    rate = parse_thousandths(values.text(name) or "0")
    if rate is None:
        values.wrong(name, "is not a number", "write one such as 20 or 0.5, without sign")
    return rate or 0
