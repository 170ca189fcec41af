"""`lethe topics pause-deletions`: stops deletions by Lethe's controller, until `resume-deletions`.

The pause is a znode, so it applies to any Lethe controller. Kafka's controller ignores it.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.controller_identity import NO_CONTROLLER_ACTIVE, ControllerIdentity, acting_controller
from lethe.admin.deletion_requests import deletions_paused, pause_deletions
from lethe.admin.outcomes import demand_done
from lethe.cli.answer import Answer
from lethe.cli.options import AsJson, DryRun, ZooKeeper
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue
from lethe.protocol.zookeeper.znodes import DeletionsPaused

Reason = Annotated[
    str, typer.Option("--reason", help="The reason; it is shown wherever a deletion waits for the pause.")
]


def pause(zookeeper: ZooKeeper, reason: Reason = "", dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Pause all deletions of topics. Marked topics stay in service; deletions that have begun stop where they are.

    It holds until `lethe topics resume-deletions`, also when another Lethe takes over. Kafka's own controller takes no
    notice.
    """

    async def command(session: ZooKeeperSession) -> Answer:
        return await pausing(session, reason, now_ms=time.time_ns() // 1_000_000, dry_run=dry_run)

    finish(lambda: with_session(zookeeper, command), as_json=as_json)


async def pausing(session: ZooKeeperSession, reason: str, *, now_ms: int, dry_run: bool = False) -> Answer:
    """Pause deletions, or say what that would mean."""
    marked = (await topic_znodes.list_topics(session)).marked
    if dry_run:
        before = await deletions_paused(session)
        line = "Would pause deletions." if before is None else f"Deletions are paused already{_since(before)}."
        data: JsonValue = {"paused": before is not None, "dry_run": True, "marked": [*marked]}
        return Answer(data, (line, _held(len(marked))))
    paused, outcome = await pause_deletions(session, now_ms, reason)
    demand_done(outcome)
    acting = await acting_controller(session)
    already = "already " if outcome.was_done else ""
    lines = (f"Deletions are {already}paused{_since(paused)}.", _held(len(marked)), *kafka_takes_no_notice(acting))
    return Answer(
        {
            "paused": True,
            "dry_run": False,
            "was_paused": outcome.was_done,
            "since_ms": paused.since_ms,
            "reason": paused.reason,
            "marked": [*marked],
            "heeded": acting.is_lethe,
        },
        lines,
    )


def kafka_takes_no_notice(acting: ControllerIdentity) -> tuple[str, ...]:
    """Return a line where the active controller ignores the pause."""
    if acting.is_lethe:
        return ()
    if acting.is_absent:
        return (f"{NO_CONTROLLER_ACTIVE.capitalize()}: the pause holds for the next one, if it is Lethe's.",)
    return (f"WARNING: {acting.text}: Kafka's controller ignores the pause, and continues to delete.",)


def _since(paused: DeletionsPaused) -> str:
    when = ""
    if paused.since_ms is not None:
        when = time.strftime(" since %Y-%m-%d %H:%M:%S UTC", time.gmtime(paused.since_ms / 1000))
    return when + (f" ({paused.reason})" if paused.reason else "")


def _held(marked: int) -> str:
    return f"{counted(marked, 'topic is', 'topics are')} marked for deletion."
