"""`lethe topics delete --unreadable`: deletes topics whose own znodes cannot be understood.

Without a readable znode the replicas of a topic are unknown, so a controller leaves it alone until the data of its
marker orders the deletion. This command writes that order. It accepts only topics that are unreadable indeed, by their
exact names.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controller_identity import acting_controller
from lethe.admin.deletion_requests import TopicReadability, look_at_unreadable, order_unreadable
from lethe.admin.outcomes import exit_of
from lethe.admin.protection import demand_unprotected
from lethe.admin.refusal import Refusal
from lethe.admin.topic_plans import internal_topic_problem
from lethe.admin.topic_znodes import list_topics
from lethe.cli.answer import Answer
from lethe.cli.asking import Confirm, demand_agreement
from lethe.protocol.counting import counted, plural
from lethe.protocol.journal import JsonValue
from lethe.protocol.topic_names import unknown_topic


async def unreadable_deletion(
    session: ZooKeeperSession,
    names: Sequence[str],
    *,
    confirm: Confirm | None,
    if_exists: bool = False,
    dry_run: bool = False,
) -> Answer:
    """Order the deletion after the user agreed. Raises Refusal where a topic is readable, or does not exist but
    should."""
    there = await list_topics(session)
    found = {seen.name: seen for seen in await look_at_unreadable(session, names)}
    for name in names:
        if (problem := internal_topic_problem(name)) is not None:
            raise Refusal(problem)
        if name not in found:
            if if_exists:
                continue
            raise Refusal(f"{unknown_topic(name, there.names)} (--unreadable takes exact names)")
        if found[name].problem is None:
            raise Refusal(f"the znode of topic {name} can be understood: delete it without --unreadable")
    await demand_unprotected(session, names)
    chosen = [found[name] for name in dict.fromkeys(names) if name in found]
    if not chosen:
        return Answer([], ("Nothing to delete.",))
    plan = [line for seen in chosen for line in _plan(seen)]
    if dry_run:
        return Answer([_as_json(seen, ordered=seen.is_ordered) for seen in chosen], tuple(plan))
    await demand_agreement(
        plan,
        f"Delete {plural(len(chosen), 'this', 'these')} {counted(len(chosen), 'topic')}?",
        confirm,
        {"topics": [seen.name for seen in chosen]},
    )
    outcomes = await order_unreadable(session, [seen.name for seen in chosen])
    lines = [
        outcome.problem or f"Topic {outcome.name} is {'already ' if outcome.was_done else ''}marked for deletion."
        for outcome in outcomes
    ]
    acting = await acting_controller(session)
    if not acting.is_lethe:
        lines.append(f"WARNING: {acting.text}: only Lethe's deletes a topic that cannot be understood.")
    lines.append("Directories of their replicas that are left on a disk are found by `lethe survey`.")
    data: list[JsonValue] = [
        {**_as_json(seen, ordered=outcome.problem is None), "problem": outcome.problem}
        for seen, outcome in zip(chosen, outcomes, strict=True)
    ]
    return Answer(data, tuple(lines), exit=exit_of(outcomes))


def _plan(seen: TopicReadability) -> list[str]:
    known = f"state znodes of {counted(len(seen.partitions), 'partition')}" if seen.partitions else "no partition"
    return [
        f"Topic {seen.name}: {seen.problem}",
        f"\t{known} below it; which brokers have its replicas is not known"
        + ("; it is marked for deletion, and waits for this order" if seen.is_marked and not seen.is_ordered else ""),
    ]


def _as_json(seen: TopicReadability, *, ordered: bool) -> dict[str, JsonValue]:
    return {
        "topic": seen.name,
        "unreadable": seen.problem,
        "partitions": [*seen.partitions],
        "was_marked": seen.is_marked,
        "ordered": ordered,
    }
