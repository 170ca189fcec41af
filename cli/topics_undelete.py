"""`lethe topics undelete`: brings back topics that are in the trash, or marked before anything of them is destroyed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.outcomes import exit_of
from lethe.admin.trash import TrashView, read_trash
from lethe.admin.undeletion import undelete, wait_until_restored
from lethe.cli.answer import Answer
from lethe.cli.options import AbsentNames, AbsentTopicNames, AsJson, TimeoutMs, ZooKeeper, given
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.journal import JsonValue
from lethe.protocol.zookeeper.znodes import TrashPhase


def bring_back(
    zookeeper: ZooKeeper,
    names: AbsentNames = None,
    topic: AbsentTopicNames = None,
    timeout_ms: TimeoutMs = 30_000,
    as_json: AsJson = False,
) -> None:
    """Bring back topics that were deleted: from the trash, or while they are only marked. Exit code 1 where one is
    refused.

    A topic comes back from the trash (`lethe topics delete --grace`) with its id, records, settings and the committed
    offsets of its consumer groups. Without the trash a deletion begins within milliseconds, unless deletions are
    paused; then the controller refuses.
    """
    chosen = given(names, topic)

    async def command(session: ZooKeeperSession) -> Answer:
        return await bringing_back(session, chosen, timeout_ms=timeout_ms)

    finish(lambda: with_session(zookeeper, command), as_json=as_json)


async def bringing_back(session: ZooKeeperSession, names: Sequence[str], *, timeout_ms: int) -> Answer:
    """Request the topics back, and return the controller's answers."""
    if not names:
        raise ValueError("which topics? Name them")
    before = {view.name: view.entry for view in await read_trash(session, names)}
    interrupted = asyncio.Event()
    outcomes = await undelete(session, names, timeout_ms=timeout_ms, interrupted=interrupted, say=note)
    back = [each.name for each in outcomes if each.problem is None]
    limit_ms = 0 if interrupted.is_set() else timeout_ms
    left = {view.name: view for view in await wait_until_restored(session, back, timeout_ms=limit_ms)}
    lines = []
    for each in outcomes:
        entry = before.get(each.name)
        is_back = entry is not None and entry.phase is TrashPhase.TRASHED
        if each.problem is not None:
            lines.append(each.problem)
        elif each.name in left:
            what = "is back" if is_back else "is no longer marked, and stays"
            lines.append(f"Topic {each.name} {what}. {_left(left[each.name])}")
        else:
            what = "is back, with its settings and committed offsets" if is_back else "is no longer marked, and stays"
            lines.append(f"Topic {each.name} {what}.")
    rows: list[JsonValue] = [
        {
            "topic": each.name,
            "is_back": each.problem is None,
            "is_restored": each.problem is None and each.name not in left,
            "problem": each.problem,
        }
        for each in outcomes
    ]
    return Answer(rows, tuple(lines), exit=exit_of(outcomes, interrupted=interrupted.is_set()))


def _left(view: TrashView) -> str:
    """Return what is not restored of a topic that is back."""
    if view.entry is None:
        return f"Whether its settings and committed offsets are restored is unknown: {view.problem}"
    if view.entry.phase is TrashPhase.OFFSETS:
        return (
            "Committed offsets of some groups are not restored yet: a group takes them only while it has no members. "
            "The controller tries again; see `lethe topics trash list`."
        )
    return "Its settings and committed offsets are not restored yet: see `lethe topics trash list`."
