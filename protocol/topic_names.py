"""Which topics an expression of `kafka-topics.sh --topic` means, and what an assignment of `--replica-assignment` says.

Kafka's tool takes a topic name as a Java regular expression that has to match the whole name; commas mean "or" and
spaces do not count. A literal name is such an expression too, one in which a `.` matches any character: `a.b` also
means `a_b`. Where a name is given that is exactly a topic's, only that topic is meant here: what is looked at may be
too much, what is deleted may not.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from lethe.protocol.counting import counted
from lethe.protocol.vocabulary import INTERNAL_TOPICS, topic_name_problem


def topics_matching(expression: str, topics: Iterable[str], *, exclude_internal: bool = False) -> tuple[str, ...]:
    """The topics that the expression means, sorted. Raises ValueError where it is no regular expression."""
    known = sorted(topics)
    hits = (expression,) if expression in known else _matching(expression, known)
    return tuple(name for name in hits if not (exclude_internal and name in INTERNAL_TOPICS))


def topics_meant(
    expressions: Iterable[str], topics: Iterable[str], *, exclude_internal: bool = False
) -> tuple[str, ...]:
    """The topics that any of the expressions means, sorted. Raises ValueError where one is no regular expression."""
    known = sorted(topics)
    hits = {hit for each in expressions for hit in topics_matching(each, known, exclude_internal=exclude_internal)}
    return tuple(sorted(hits))


def close_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Up to three of the known names that a person may have meant by this one, the closest first."""
    return tuple(difflib.get_close_matches(name, sorted({*known} - {name}), n=3, cutoff=0.7))


def unknown_topic(name: str, known: Iterable[str]) -> str:
    """`topic 'ordes' does not exist; did you mean orders?`"""
    return f"topic {name!r} does not exist{suggestion(close_names(name, known))}"


def suggestion(close: Sequence[str]) -> str:
    """`; did you mean orders or orders.eu?`; nothing where no name is close."""
    if not close:
        return ""
    *first, last = close
    return f"; did you mean {', '.join(first)} or {last}?" if first else f"; did you mean {last}?"


def demand_expression(expression: str) -> None:
    """See that it can mean topics, whichever there are. Raises ValueError where it is no regular expression."""
    _matching(expression, ())


def is_pattern(expression: str) -> bool:
    """True where the expression cannot be the name of a single topic."""
    return topic_name_problem(expression) is not None


def _matching(expression: str, topics: Iterable[str]) -> tuple[str, ...]:
    text = expression.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError(f"{expression!r} is neither a topic name nor a regular expression: {error}") from error
    return tuple(name for name in topics if pattern.fullmatch(name))


def parse_replica_assignment(text: str) -> tuple[tuple[int, ...], ...]:
    """Replicas by partition from `1:2:3,2:3:1`. Raises ValueError naming the partition where a list is malformed,
    names a broker twice, or is of another length than the first."""
    assignment: list[tuple[int, ...]] = []
    for partition, part in enumerate(text.split(",")):
        try:
            replicas = tuple(int(broker.strip()) for broker in part.split(":"))
        except ValueError:
            raise ValueError(
                f"replica assignment of partition {partition} is {part!r}: wanted are broker ids joined by colons"
            ) from None
        if min(replicas) < 0:
            raise ValueError(f"replica assignment of partition {partition} names broker {min(replicas)}")
        if len(set(replicas)) < len(replicas):
            raise ValueError(f"replica assignment of partition {partition} names a broker twice: {part!r}")
        if assignment and len(replicas) != len(assignment[0]):
            raise ValueError(
                f"replica assignment of partition {partition} has {counted(len(replicas), 'replica')}, "
                f"that of partition 0 has {len(assignment[0])}"
            )
        assignment.append(replicas)
    return tuple(assignment)
