"""The deletions as data for the page's script, which draws the table of all of them.

JSON of columns, each with one value per deletion, in the order of the page. Words that many deletions share are numbers
into a list of words. The JSON is compressed (zlib) and in base64, so that tens of thousands fit into one page:

    deletions    data
    10 000       0.9 MB
    40 000       3.5 MB
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lethe.pipeline.outcomes import DONE, LET_GO, OPEN
from lethe.pipeline.report import timeline
from lethe.pipeline.report.formatting import NONE, count, cut, duration
from lethe.pipeline.report.markup import visible
from lethe.pipeline.report.timeline import TimelinePlan
from lethe.pipeline.report.values import BrokerReplicas, Deletions, DeletionSpan, Interval

MAX_CHARS: Final = 4_000_000
"""Maximum length of the encoded data, so that a page is below five megabytes."""
MAX_ITEMS: Final = 16
"""Maximum intervals and brokers of one deletion."""
OUTCOME_CLASSES: Final = {DONE: "good", LET_GO: "quiet"}
"""Colour of an outcome; any other needs attention."""
_FEWER: Final = 0.9
_CLASSES: Final = (*dict.fromkeys(phase.class_ for phase in timeline.PHASES), timeline.OPEN_CLASS, timeline.WAIT_CLASS)


class PackedDeletions(NamedTuple):
    """`text` is base64; `deletions` is how many it has."""

    text: str
    deletions: int


def pack(ordered: Sequence[DeletionSpan], deletions: Deletions, plan: TimelinePlan, command: str) -> PackedDeletions:
    """Return the data of the first of these deletions: as many as MAX_CHARS allows. `command` prints the journal's
    lines of a topic that the script adds."""
    many = len(ordered)
    while True:
        text = _encode(columns(ordered[:many], deletions, plan) | {"command": command})
        if len(text) <= MAX_CHARS or not many:
            return PackedDeletions(text, many)
        many = int(many * MAX_CHARS / len(text) * _FEWER)


def columns(spans: Sequence[DeletionSpan], deletions: Deletions, plan: TimelinePlan) -> dict[str, Any]:
    """Return the columns, with names as `deletions.js` reads them. Times are relative to `at`, the first instant of a
    deletion, which is absolute."""
    begins = [timeline.begin(span) for span in spans]
    brokers = [deletions.brokers.get(span.key, ()) for span in spans]
    causes = [_causes(span) for span in spans]
    cause_names = sorted({each for found in causes for each in found})
    outcomes = sorted({span.outcome or OPEN for span in spans})
    refusals = sorted({each.last_refusal for rows in brokers for each in rows if each.last_refusal})
    numbers = {refusal: number for number, refusal in enumerate(refusals)}
    return {
        "classes": [[name, *(timeline.WAIT if name == timeline.WAIT_CLASS else timeline.BAR)] for name in _CLASSES],
        "causeNames": cause_names,
        "outcomeNames": [[name, OUTCOME_CLASSES.get(name, "attention")] for name in outcomes],
        "refusals": [_text(each) for each in refusals],
        "topic": [_text(span.topic) for span in spans],
        "id": [_text(span.topic_id) for span in spans],
        "at": begins,
        "times": _times(spans, begins),
        "bar": [_bar(plan, span) for span in spans],
        **{name: [getattr(span, column) for span in spans] for name, column in _NUMBERS.items()},
        "waited": [span.waited_ms or None for span in spans],
        "outcome": [outcomes.index(span.outcome or OPEN) for span in spans],
        "causes": _numbered(causes, cause_names),
        "controllers": [list(span.controllers[:MAX_ITEMS]) for span in spans],
        "held": [_sentences(span.held, held) for span in spans],
        "waits": [_sentences(span.waited_for, waited) for span in spans],
        "owed": [_owed(span) for span in spans],
        "brokers": [
            [_broker(each, begin, numbers) for each in _worst(rows)]
            for rows, begin in zip(brokers, begins, strict=True)
        ],
        "moreBrokers": [max(len(rows) - MAX_ITEMS, 0) for rows in brokers],
    }


_NUMBERS: Final = {
    "span": "span",
    "deleted": "deleted_ms",
    "reclaimed": "reclaimed_ms",
    "partitions": "partitions",
    "replicas": "replicas",
    "acked": "acked_replicas",
    "directories": "freed_directories",
    "bytes": "freed_bytes",
}


def held(each: Interval) -> str:
    """Return a hold as text."""
    return f"{each.why}, {'still' if each.until is None else duration(each.ms)}"


def waited(each: Interval) -> str:
    """Return a wait for a broker as text."""
    who = "" if each.broker is None else f"broker {each.broker}, "
    replicas = "" if each.replicas is None else f", {count(each.replicas, 'replica')}"
    return f"{who}{each.why}{replicas}, {'still' if each.until is None else duration(each.ms)}"


def _times(spans: Sequence[DeletionSpan], begins: Sequence[int | None]) -> dict[str, list[int | None]]:
    """Return a column for each phase: milliseconds since the deletion's first instant."""
    found: dict[str, list[int | None]] = {}
    for span, begin in zip(spans, begins, strict=True):
        for name, ms in (("marked", span.marked_at), *timeline.milestones(span), ("debts settled", span.settled_at)):
            found.setdefault(name, []).append(None if ms is None or begin is None else ms - begin)
    return {name: column for name, column in found.items() if any(ms is not None for ms in column)}


def _bar(plan: TimelinePlan, span: DeletionSpan) -> list[int]:
    """Return class, x and width of each part, flat, the latter in thousandths of the row."""
    found: list[int] = []
    for part in timeline.parts(plan, span)[: 2 * MAX_ITEMS]:
        found += (_CLASSES.index(part.class_), round(part.x * 10), max(round(part.width * 10), 1))
    return found


def _causes(span: DeletionSpan) -> list[str]:
    """Return what a deletion waited for, as choices of the filter."""
    found = {f"held: {_text(each.why)}" for each in span.held}
    for each in span.waited_for:
        found.add(f"waited: {_text(each.why)}")
        if each.broker is not None:
            found.add(f"waited for broker {each.broker}")
    word = "owed" if span.settled_at is not None else "still owed"
    found |= {f"{word} by broker {broker}" for broker in span.owed_by}
    return sorted(found)


def _numbered(values: Iterable[Sequence[str]], names: Sequence[str]) -> list[list[int]]:
    numbers = {name: number for number, name in enumerate(names)}
    return [[numbers[each] for each in row] for row in values]


def _sentences(intervals: Sequence[Interval], words: Any) -> list[str]:
    shown = [_text(words(each)) for each in intervals[:MAX_ITEMS]]
    return shown if len(intervals) <= MAX_ITEMS else [*shown, f"and {len(intervals) - MAX_ITEMS} more"]


def _owed(span: DeletionSpan) -> str:
    if not span.owed_by:
        return ""
    by = ", ".join(f"broker {broker}" for broker in span.owed_by[:MAX_ITEMS])
    what = NONE if span.owed_replicas is None else count(span.owed_replicas, "replica")
    return f"{what} by {by}{'' if span.settled_at is not None else ', still'}"


def _worst(rows: Sequence[BrokerReplicas]) -> Sequence[BrokerReplicas]:
    """Return the brokers that lack acknowledgements, have refused most or were last, by id."""
    if len(rows) <= MAX_ITEMS:
        return rows
    worst = sorted(rows, key=lambda row: (row.acked - row.replicas, -row.refused, -(row.last_ack_at or 0)))
    return sorted(worst[:MAX_ITEMS], key=lambda row: row.broker or 0)


def _broker(row: BrokerReplicas, begin: int | None, refusals: Mapping[str, int]) -> list[int | None]:
    """`refusals`: the numbers of all refusals, of which there may be as many as rows."""
    after = None if row.last_ack_at is None or begin is None else row.last_ack_at - begin
    refusal = refusals[row.last_refusal] if row.last_refusal else None
    return [row.broker, row.replicas, row.acked, after, row.attempts, row.refused, refusal]


def _text(text: str | None) -> str:
    return visible(cut(text or ""))


def _encode(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()
