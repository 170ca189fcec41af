"""What is not compared: the same cluster, asked twice, would answer with other ids, times and ports.

>>> normalised(["TopicId: Yp0rGGU0S2WnL4Zt2jTnZA", "localhost:39417"], frozenset())
('TopicId: ID', 'localhost:PORT')
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from tests.judge.step import Free


class Rule(NamedTuple):
    """Each match of `pattern` becomes `text`. `what` is for the page."""

    what: str
    pattern: re.Pattern[str]
    text: str


_ID: Final = r"[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])"
RULES: Final = (
    Rule("topic ids", re.compile(rf"(TopicId: |topicId=|topic id |Topic id |^){_ID}"), r"\1ID"),
    Rule("topic ids as UUIDs", re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    Rule("ports", re.compile(r"\b(localhost|127\.0\.0\.1)(/127\.0\.0\.1)?:\d{4,5}\b"), r"\1:PORT"),
    Rule("times", re.compile(r"\b(after|in|within) \d+(\.\d+)? ?(ms|s|milliseconds|seconds)\b"), r"\1 TIME"),
    Rule("attempts", re.compile(r"\btries=\d+|\bafter \d+ attempt\(s\)"), "ATTEMPTS"),
    Rule("times of a call that was given up", re.compile(r"\b(deadlineMs|timestamp|nextAllowedTryMs)=\d+"), r"\1=TIME"),
    Rule("the directories of a side", re.compile(r"/\S*/(broker-\d+/logs-\d+|[a-z]+\.json)"), r"DIR/\1"),
)
"""For every line of every step."""
_ISR: Final = re.compile(r"(?<=Isr: )\d+(?:,\d+)+|(?<=isr \[)\d+(?:, \d+)+")
ISR_ORDER: Final = "the order of an ISR, in which replicas have caught up"
_LEFT_OUT: Final = re.compile(r"^(?:stderr: )?\s+(?:at \S|\.\.\. \d+ more$)")
"""Frames of a stack trace: the exceptions are compared, not where Java's code stood."""
_PLACEMENT: Final = re.compile(r"(Leader: |Replicas: |Isr: |leader |replicas \[|isr \[)(\d+(?:, ?\d+)*)")
_CONTROLLER: Final = re.compile(r" \(controller\)| \(from broker [^)]*\)")


def normalised(lines: Iterable[str], free: frozenset[Free]) -> tuple[str, ...]:
    """Return the lines as they are compared."""
    kept = [_line(line.rstrip(), free) for line in lines if not _LEFT_OUT.match(line)]
    while kept and not kept[-1]:
        kept.pop()
    return tuple(sorted(kept) if Free.ORDER in free else kept)


def _line(line: str, free: frozenset[Free]) -> str:
    for rule in RULES:
        line = rule.pattern.sub(rule.text, line)
    line = _ISR.sub(lambda found: ",".join(sorted(found[0].replace(" ", "").split(","))), line)
    if Free.PLACEMENT in free:
        line = _PLACEMENT.sub(_counted, line)
    if Free.CONTROLLER in free:
        line = _CONTROLLER.sub("", line)
    return line


def _counted(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2].count(',') + 1} of them"
