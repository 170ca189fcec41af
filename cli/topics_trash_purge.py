"""`lethe topics trash purge`: deletes topics from the trash before their time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.outcomes import exit_of
from lethe.admin.refusal import Refusal
from lethe.admin.trash import read_trash
from lethe.admin.undeletion import purge
from lethe.cli.answer import Answer
from lethe.cli.asking import Confirm, ask_user, demand_agreement
from lethe.cli.options import AbsentNames, AbsentTopicNames, AsJson, TimeoutMs, Yes, ZooKeeper, given
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.counting import counted
from lethe.protocol.zookeeper.znodes import TrashPhase


def purge_topics(
    zookeeper: ZooKeeper,
    names: AbsentNames = None,
    topic: AbsentTopicNames = None,
    yes: Yes = False,
    timeout_ms: TimeoutMs = 30_000,
    as_json: AsJson = False,
) -> None:
    """Delete topics from the trash before their time is over. Asks first. Exit code 1 where one is not there, or the
    controller refuses."""
    chosen = given(names, topic)

    async def command(session: ZooKeeperSession) -> Answer:
        return await purging(session, chosen, confirm=None if yes else ask_user, timeout_ms=timeout_ms)

    finish(lambda: with_session(zookeeper, command), as_json=as_json)


async def purging(
    session: ZooKeeperSession, names: Sequence[str], *, confirm: Confirm | None, timeout_ms: int
) -> Answer:
    """Delete these topics from the trash. `confirm` None agrees."""
    if not names:
        raise ValueError("which topics? Name them")
    views = {view.name: view for view in await read_trash(session, names)}
    for name in names:
        view = views.get(name)
        if view is None or (view.entry is not None and view.entry.phase is not TrashPhase.TRASHED):
            raise Refusal(f"topic {name} is not in the trash")
        if view.problem is not None:
            raise Refusal(view.problem)
    question = f"Delete {counted(len(views), 'topic')} for good?"
    await demand_agreement([f"  {name}" for name in names], question, confirm, {"matched": [*names]})
    interrupted, chosen = asyncio.Event(), [views[name] for name in dict.fromkeys(names)]
    outcomes = await purge(session, chosen, timeout_ms=timeout_ms, interrupted=interrupted, say=note)
    return Answer(
        [{"topic": each.name, "is_purged": each.problem is None, "problem": each.problem} for each in outcomes],
        tuple(each.problem or f"Topic {each.name} is being deleted." for each in outcomes),
        exit=exit_of(outcomes, interrupted=interrupted.is_set()),
    )
