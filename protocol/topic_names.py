"""Topic expressions of `kafka-topics.sh --topic`, and assignments of `--replica-assignment`.

Kafka's tool takes a topic name as a Java regular expression that has to match the whole name; a comma means "or",
spaces are ignored. So `a.b` also matches `a_b`. Here an expression that is exactly an existing topic's name selects
only that topic. Otherwise a deletion could select too much.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from lethe.protocol.counting import counted
from lethe.protocol.vocabulary import INTERNAL_TOPICS


def topics_matching(expression: str, topics: Iterable[str], *, exclude_internal: bool = False) -> tuple[str, ...]:
    """Return the topics that match the expression, sorted. Raises ValueError if it is no regular expression."""
    known = sorted(topics)
    hits = (expression,) if expression in known else _matching(expression, known)
    return tuple(name for name in hits if not (exclude_internal and name in INTERNAL_TOPICS))


def topics_meant(
    expressions: Iterable[str], topics: Iterable[str], *, exclude_internal: bool = False
) -> tuple[str, ...]:
    """Return the topics that match any expression, sorted. Raises ValueError if one is no regular expression."""
    known = sorted(topics)
    hits = {hit for each in expressions for hit in topics_matching(each, known, exclude_internal=exclude_internal)}
    return tuple(sorted(hits))


def close_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to three of the known names that are similar to this one, the closest first."""
    return tuple(difflib.get_close_matches(name, sorted({*known} - {name}), n=3, cutoff=0.7))


def unknown_topic(name: str, known: Iterable[str]) -> str:
    """Return `topic 'ordes' does not exist; did you mean orders?`."""
    return f"topic {name!r} does not exist{suggestion(close_names(name, known))}"


def suggestion(close: Sequence[str]) -> str:
    """Return `; did you mean orders or orders.eu?`; empty if no name is close."""
    if not close:
        return ""
    *first, last = close
    return f"; did you mean {', '.join(first)} or {last}?" if first else f"; did you mean {last}?"


def demand_expression(expression: str) -> None:
    """Check the expression's syntax. Raises ValueError if it is no regular expression."""
    _matching(expression, ())


def _matching(expression: str, topics: Iterable[str]) -> tuple[str, ...]:
    text = expression.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError(f"{expression!r} is neither a topic name nor a regular expression: {error}") from error
    return tuple(name for name in topics if pattern.fullmatch(name))


def parse_replica_assignment(text: str) -> tuple[tuple[int, ...], ...]:
    """Parse `1:2:3,2:3:1` into replicas by partition.

    Raises ValueError naming the partition if its list is malformed, repeats a broker, or has another length than the
    first one.
    """
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
