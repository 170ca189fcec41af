"""Topics that a deletion means, by its expressions.

The matches of a regular expression are listed, and the user has to agree; an exact name matches only itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.protection import demand_unprotected
from lethe.admin.refusal import Refusal
from lethe.admin.topic_plans import deletion_problem
from lethe.admin.topic_znodes import ListedTopics
from lethe.cli.asking import Confirm, demand_agreement
from lethe.protocol.counting import counted, plural
from lethe.protocol.topic_names import topics_matching, unknown_topic


class Chosen(NamedTuple):
    """Topics, sorted. `is_guess`: a regular expression has chosen some. `missing` are expressions without a match."""

    names: tuple[str, ...]
    is_guess: bool
    missing: tuple[str, ...]


def choose(expressions: Sequence[str], there: ListedTopics) -> Chosen:
    """Return the topics of the expressions. Raises Refusal where one is internal to Kafka."""
    found = {expression: _matches(expression, there) for expression in expressions}
    return Chosen(
        tuple(sorted({name for hits in found.values() for name in hits})),
        any(hits and hits != (expression,) for expression, hits in found.items()),
        tuple(expression for expression, hits in found.items() if not hits),
    )


async def demand_meant(chosen: Chosen, confirm: Confirm | None) -> None:
    """Ask whether the matches of a regular expression are meant. Raises Refusal where they are not. `confirm` None
    agrees."""
    if chosen.is_guess:
        names = chosen.names
        question = f"Delete {plural(len(names), 'this', 'these')} {counted(len(names), 'topic')}?"
        await demand_agreement([f"  {name}" for name in names], question, confirm, {"matched": [*names]})


async def selected(
    session: ZooKeeperSession, expressions: Sequence[str], *, if_exists: bool, confirm: Confirm | None
) -> tuple[str, ...]:
    """Return the topics of the expressions, sorted. Raises Refusal where one matches no topic or a protected one, and
    where the user disagrees with the matches of a regular expression. `confirm` None agrees."""
    there = await topic_znodes.list_topics(session)
    chosen = choose(expressions, there)
    for expression in () if if_exists else chosen.missing:
        raise Refusal(unknown_topic(expression, (*there.names, *there.marked)))
    await demand_unprotected(session, chosen.names)
    await demand_meant(chosen, confirm)
    return chosen.names


def _matches(expression: str, there: ListedTopics) -> tuple[str, ...]:
    """Return an exact name, even if only its mark is left, or the matches of a pattern, without internal topics."""
    if expression in there.names:
        if (problem := deletion_problem(expression, topics=there.names)) is not None:
            raise Refusal(problem)
        return (expression,)
    if expression in there.marked:
        return (expression,)
    return topics_matching(expression, there.names, exclude_internal=True)
