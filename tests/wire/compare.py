"""Whether our controller says what Kafka's says, of one history: what differs, listed or not.

Two streams are compared request by request, in order, after neighbours that can be one request have become one (rules
that this house has for batches allow that, and how many requests an ISR change takes depends on when followers catch
up). Then each difference that is listed in `differences` is taken away where it is found; what is left is not
listed, and an error.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.wire.recording import Recording
from tests.wire.said import Said, Stream, joined, streams

Pair = tuple[list[Said], list[Said]]
"""What Kafka's controller said in one stream, and what ours."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One that is known, and why it is there."""

    title: str
    kafka: str
    """What Kafka's controller does, as a sentence."""
    lethe: str
    why: str
    decision: str | None
    """The page of docs/decisions that says more; None where the reason given here is all."""
    settle: Callable[[Stream, list[Said], list[Said]], Pair]
    """Takes the difference out of both streams; what does not have it is returned as it came."""


class Found(NamedTuple):
    """A listed difference, where it was found."""

    title: str
    stream: Stream


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of two recordings."""

    requests: Mapping[str, int]
    """How many of Kafka's controller, and to it, were compared, by phase."""
    found: tuple[Found, ...]
    unlisted: tuple[str, ...]
    """For each stream with a difference that nobody has listed, the text that shows it."""


def compare(kafka: Recording, lethe: Recording, listed: Sequence[Difference]) -> Comparison:
    """All streams of both. Raises ProtocolError where a frame cannot be read."""
    theirs, ours = streams(kafka), streams(lethe)
    found: list[Found] = []
    unlisted: list[str] = []
    for stream in dict.fromkeys((*theirs, *ours)):
        pair = joined(theirs.get(stream, [])), joined(ours.get(stream, []))
        for difference in listed:
            if pair[0] == pair[1]:
                break
            settled = difference.settle(stream, list(pair[0]), list(pair[1]))
            if settled != pair:
                found.append(Found(difference.title, stream))
                pair = joined(settled[0]), joined(settled[1])
        if pair[0] != pair[1]:
            unlisted.append("\n".join([str(stream), *_diff(*pair)]))
    requests = Counter(stream.phase for stream, said in theirs.items() for _ in said)
    return Comparison(requests, tuple(found), tuple(unlisted))


def _diff(kafka: Sequence[Said], lethe: Sequence[Said]) -> Iterator[str]:
    one, other = ([line for said in each for line in said.lines()] for each in (kafka, lethe))
    return difflib.unified_diff(one, other, "Kafka", "Lethe", lineterm="", n=3)
