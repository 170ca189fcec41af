"""`lethe topics undelete`: brings back topics that are marked for deletion, before anything of them is destroyed."""

from __future__ import annotations

from collections.abc import Sequence

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.outcomes import exit_of
from lethe.admin.undeletion import undelete
from lethe.cli.answer import Answer
from lethe.cli.options import AsJson, Names, TimeoutMs, TopicNames, ZooKeeper, given
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session


def bring_back(
    zookeeper: ZooKeeper,
    names: Names = None,
    topic: TopicNames = None,
    timeout_ms: TimeoutMs = 30_000,
    as_json: AsJson = False,
) -> None:
    """Bring back topics that are marked for deletion: they stay as they are. Exit code 1 where that is refused.

    Lethe's controller decides. It refuses once the deletion has begun, which takes only milliseconds unless deletions
    are paused or the topic waits for a reassignment.
    """
    chosen = given(names, topic)

    async def command(session: ZooKeeperSession) -> Answer:
        return await bringing_back(session, chosen, timeout_ms=timeout_ms)

    finish(lambda: with_session(zookeeper, command), as_json=as_json)


async def bringing_back(session: ZooKeeperSession, names: Sequence[str], *, timeout_ms: int) -> Answer:
    """Request the topics back, and return the controller's answers."""
    if not names:
        raise ValueError("which topics? Name them")
    outcomes = await undelete(session, names, timeout_ms=timeout_ms)
    return Answer(
        [{"topic": each.name, "is_back": each.problem is None, "problem": each.problem} for each in outcomes],
        tuple(each.problem or f"Topic {each.name} is no longer marked, and stays." for each in outcomes),
        exit=exit_of(outcomes),
    )
