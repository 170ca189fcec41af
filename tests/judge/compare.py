"""The verdict on a step: does a side answer as Kafka's controller does?

| Kafka's controller | the other side | verdict |
|---|---|---|
| an answer | the same | SAME |
| an answer | another one, for a listed reason | LISTED |
| an answer | another one | DIFFERS |
| an answer | none in time | HANGS |
| none in time | an answer | DIFFERS |
| none in time | none in time | SAME |
| one of the two was not asked | | NOT_RUN |
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from tests.judge.normalise import normalised
from tests.judge.step import Answer, NotRun, Outcome, Side, Step

HANG = "(no answer in time)"


class Verdict(Enum):
    """The value is its name in the table."""

    SAME = "same"
    LISTED = "other, for a reason"
    DIFFERS = "differs"
    HANGS = "hangs"
    NOT_RUN = "not run"

    @property
    def is_failure(self) -> bool:
        return self in (Verdict.DIFFERS, Verdict.HANGS)


class Difference(NamedTuple):
    """A difference that is meant: these steps answer otherwise on these sides, for this reason."""

    title: str
    steps: tuple[str, ...]
    """Each the name of a step, or its beginning with a `*` behind it."""
    sides: frozenset[Side]
    why: str
    shows: str = ""
    """A text that is in one of the lines that differ."""

    def covers(self, step: Step, side: Side) -> bool:
        """Whether it is about this step on this side."""
        return side in self.sides and any(
            step.name.startswith(name[:-1]) if name.endswith("*") else step.name == name for name in self.steps
        )


class Compared(NamedTuple):
    """A step on one side, beside Kafka's controller."""

    verdict: Verdict
    reason: str = ""
    """Title of the listed difference, or why it was not run."""
    changes: tuple[str, ...] = ()
    """Lines of Kafka's that are missing begin with `-`, the side's own with `+`."""


def compare(step: Step, side: Side, kafka: Outcome, other: Outcome, differences: Iterable[Difference]) -> Compared:
    """Compare the answers of both sides to this step."""
    for outcome in (kafka, other):
        if isinstance(outcome, NotRun):
            return Compared(Verdict.NOT_RUN, outcome.why)
    assert isinstance(kafka, Answer)
    assert isinstance(other, Answer)
    changes = tuple(_changes(_shown(step, kafka), _shown(step, other)))
    if not changes:
        return Compared(Verdict.SAME)
    if other.hangs:
        return Compared(Verdict.HANGS, "", changes)
    for difference in differences:
        if difference.covers(step, side) and any(difference.shows in line for line in changes):
            return Compared(Verdict.LISTED, difference.title, changes)
    return Compared(Verdict.DIFFERS, "", changes)


def _shown(step: Step, answer: Answer) -> list[str]:
    """Exit code and lines, as they are compared."""
    if answer.hangs:
        return [HANG]
    return [f"exit code {answer.code}", *normalised(answer.lines, step.free)]


def _changes(kafka: list[str], other: list[str]) -> Iterator[str]:
    for line in difflib.ndiff(kafka, other):
        if line.startswith(("- ", "+ ")):
            yield line


def unfound(
    differences: Iterable[Difference], reasons: Iterable[str], compared: Iterable[tuple[Step, Side]]
) -> list[str]:
    """Return the titles of listed differences about some of these steps and sides that none of them has any more."""
    found, pairs = set(reasons), list(compared)
    return [each.title for each in differences if each.title not in found and any(each.covers(*pair) for pair in pairs)]
