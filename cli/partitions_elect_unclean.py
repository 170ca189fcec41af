"""`lethe partitions elect --unclean`: elects an out-of-sync leader for partitions without one.

It enables the topic's setting for as long as needed, and restores it: at the end, after a failure, on Ctrl-C and on
SIGTERM. Only a killed process leaves it enabled; so the command to undo it is printed first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from lethe.adapters.signals import stop_on_signals
from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession
from lethe.admin.controller_identity import acting_controller
from lethe.admin.outcomes import demand_done
from lethe.admin.partition_names import Selector
from lethe.admin.partition_views import PartitionViews, selection, view_partitions
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.unclean_election import SETTING, PreviousConfiguration, put_back, settings_before, switch_on
from lethe.cli.answer import Answer, Table
from lethe.cli.asking import Confirm, demand_agreement
from lethe.cli.progress import wait_for_all
from lethe.cli.render import note
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import TopicPartition


async def unclean_election(
    session: ZooKeeperSession,
    selectors: Sequence[Selector],
    *,
    confirm: Confirm | None,
    dry_run: bool = False,
    timeout_ms: int = 60_000,
    quiet: bool = True,
) -> Answer:
    """Elect a leader for each leaderless partition selected. Raises Refusal where none is leaderless, where one has an
    unseen state or no live replica, where no controller would elect, and where the user disagrees."""
    topics = sorted({selector.topic for selector in selectors})
    views = await view_partitions(session, topics)
    named = selection(views, selectors)
    _demand_states(views, named)
    chosen = [tp for tp in named if not views.has_live_leader(tp)]
    if not chosen:
        raise Refusal("all of these partitions have a leader: an unclean election would only lose records")
    # The setting is per topic, so its other leaderless partitions are elected too.
    leaderless = [tp for tp in views.assignments if views.unseen(tp) is None and not views.has_live_leader(tp)]
    affected = [tp for tp in leaderless if tp.topic in {tp.topic for tp in chosen}]
    _demand_candidates(views, chosen)
    settings = [await settings_before(session, topic) for topic in dict.fromkeys(tp.topic for tp in chosen)]
    plan = _plan(views, chosen, affected, settings)
    if dry_run:
        return Answer([_as_json(views, views, tp) for tp in affected], tuple(plan))
    acting = await acting_controller(session)
    if acting.is_absent:
        raise Refusal(f"{acting.text}, so no leader would be elected")
    if acting.problem is not None:
        raise Refusal(f"{acting.text}; so whether a leader would be elected is not known", Exit.UNREACHABLE)
    await demand_agreement(plan, "RECORDS WILL BE LOST. Elect leaders that were not in sync?", confirm)
    after = views
    async with _unclean_elections_enabled(session, settings):
        after = await _elected(session, chosen, topics, timeout_ms=timeout_ms, quiet=quiet)
    return _answer(views, after, affected, chosen)


def _demand_states(views: PartitionViews, named: Sequence[TopicPartition]) -> None:
    for tp in named:
        if (why := views.unseen(tp)) is not None:
            raise Refusal(
                f"the state of {tp} is unseen: {why}; whether it has a leader is not known. Name other partitions, or "
                "repair the znode",
                Exit.UNREACHABLE,
            )


def _demand_candidates(views: PartitionViews, chosen: Sequence[TopicPartition]) -> None:
    for tp in chosen:
        replicas = views.assignments[tp].replicas
        if tp.topic in views.there.marked:
            raise Refusal(f"topic {tp.topic} is marked for deletion: no leader of it is elected any more")
        if not any(broker in views.brokers for broker in replicas):
            raise Refusal(f"{tp} has no replica on a registered broker (its replicas: {list(replicas)}): start one")


def _plan(
    views: PartitionViews,
    chosen: Sequence[TopicPartition],
    affected: Sequence[TopicPartition],
    settings: Sequence[PreviousConfiguration],
) -> list[str]:
    lines = []
    for tp in affected:
        replicas = views.assignments[tp].replicas
        there = [broker for broker in replicas if broker in views.brokers]
        more = "" if tp in chosen else ", not named, but the setting is its topic's"
        lines.append(
            f"{tp}: no leader; in sync were {list(views.isr(tp)) or 'none'}; one of {there} would lead "
            f"(replicas {list(replicas)}){more}"
        )
    topics = {before.topic for before in settings}
    lines += [
        f"WARNING: the state of {tp} is unseen: {why}; if it has no leader, it is elected too, since the setting is "
        "its topic's"
        for tp, why in views.states_unseen.items()
        if tp.topic in topics
    ]
    lines += [
        f"{SETTING} of topic {before.topic}: {before.value or '(default)'} -> true, and back afterwards. "
        f"If this process is killed, undo it with: {before.undo}"
        for before in settings
    ]
    return lines


@asynccontextmanager
async def _unclean_elections_enabled(
    session: ZooKeeperSession, settings: Sequence[PreviousConfiguration]
) -> AsyncIterator[None]:
    """Enable unclean elections for these topics inside the block; restore the setting afterwards in any case."""
    task = asyncio.current_task()
    assert task is not None
    undone: list[PreviousConfiguration] = []
    with stop_on_signals(lambda reason: _interrupt(task, reason)):
        try:
            for before in settings:
                undone.append(before)
                demand_done(await switch_on(session, before))
            yield
        finally:
            await _demand_restored(session, undone)


def _interrupt(task: asyncio.Task[object], reason: str) -> None:
    if not task.cancelling():  # a second Ctrl-C must not interrupt the restoration
        note(f"{reason}: the settings are put back")
        task.cancel()


async def _demand_restored(session: ZooKeeperSession, settings: Sequence[PreviousConfiguration]) -> None:
    """Raise Refusal, naming the commands to run, where a setting could not be restored."""
    left = []
    for before in settings:
        try:
            outcome = await put_back(session, before)
            if outcome.problem is not None:
                left.append((before, outcome.problem))
        except (SessionLost, ValueError) as error:
            left.append((before, str(error)))
    if left:
        problems = "; ".join(f"{before.undo} ({problem})" for before, problem in left)
        raise Refusal(f"UNCLEAN ELECTIONS ARE STILL ALLOWED. Undo it by hand: {problems}", Exit.UNREACHABLE)


async def _elected(
    session: ZooKeeperSession, chosen: Sequence[TopicPartition], topics: Sequence[str], *, timeout_ms: int, quiet: bool
) -> PartitionViews:
    after = await view_partitions(session, topics)

    async def look() -> int:
        nonlocal after
        after = await view_partitions(session, topics)
        return sum(after.has_live_leader(tp) for tp in chosen)

    await wait_for_all(look, len(chosen), "partitions with a leader", timeout_ms=timeout_ms, quiet=quiet)
    return after


def _answer(
    before: PartitionViews, after: PartitionViews, affected: Sequence[TopicPartition], chosen: Sequence[TopicPartition]
) -> Answer:
    rows = tuple(
        (
            tp.topic,
            str(tp.partition),
            ",".join(map(str, before.isr(tp))),
            "none" if after.leader(tp) is None else str(after.leader(tp)),
            _result(after, tp),
        )
        for tp in affected
    )
    done = sum(after.has_live_leader(tp) for tp in chosen)
    line = (
        f"{done} of {counted(len(chosen), 'partition has', 'partitions have')} a leader; the settings are as they were."
    )
    table = Table(("topic", "partition", "were in sync", "leader", "result"), rows)
    data: list[JsonValue] = [_as_json(before, after, tp) for tp in affected]
    return Answer(data, (line,), (table,), Exit.OK if done == len(chosen) else Exit.TIMED_OUT)


def _result(after: PartitionViews, tp: TopicPartition) -> str:
    if (why := after.unseen(tp)) is not None:
        return f"unseen: {why}"
    return "elected" if after.has_live_leader(tp) else "no leader yet"


def _as_json(before: PartitionViews, after: PartitionViews, tp: TopicPartition) -> JsonValue:
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "isr_before": [*before.isr(tp)],
        "leader": after.leader(tp) if after.has_live_leader(tp) else None,
        "unseen": after.unseen(tp),
        "replicas": [*before.assignments[tp].replicas],
    }
