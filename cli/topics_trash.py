"""`lethe topics trash`: lists the topics in the trash, or deletes some of them at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.outcomes import exit_of
from lethe.admin.refusal import Refusal
from lethe.admin.topic_znodes import list_topics
from lethe.admin.trash import TrashView, read_trash
from lethe.admin.undeletion import purge
from lethe.cli.answer import Answer, Table
from lethe.cli.asking import Confirm, ask_user, demand_agreement
from lethe.cli.options import AsJson, TimeoutMs, Yes, ZooKeeper
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import topic_id_to_text
from lethe.protocol.zookeeper.znodes import TrashPhase

Purge = Annotated[
    list[str] | None,
    typer.Option(
        "--purge", metavar="TOPIC", help="Delete this topic from the trash; may be repeated.", show_default=False
    ),
]


def trash(
    zookeeper: ZooKeeper,
    purged: Purge = None,
    yes: Yes = False,
    timeout_ms: TimeoutMs = 30_000,
    as_json: AsJson = False,
) -> None:
    """List the topics in the trash, and until when each can be brought back by `lethe topics undelete`.

    With --purge: delete topics from the trash before their time is over. Asks first.
    """

    async def command(session: ZooKeeperSession) -> Answer:
        if purged:
            return await purging(session, purged, confirm=None if yes else ask_user, timeout_ms=timeout_ms)
        return await listing(session)

    finish(lambda: with_session(zookeeper, command), as_json=as_json)


async def listing(session: ZooKeeperSession) -> Answer:
    """List the trash."""
    await list_topics(session)
    views = await read_trash(session)
    rows = tuple(_row(view) for view in views)
    data: list[JsonValue] = [_as_json(view) for view in views]
    if not views:
        return Answer(data, ("The trash is empty.",))
    return Answer(data, (), (Table(("topic", "state", "until", "partitions", "topic id"), rows),))


async def purging(
    session: ZooKeeperSession, names: Sequence[str], *, confirm: Confirm | None, timeout_ms: int
) -> Answer:
    """Delete these topics from the trash. `confirm` None agrees."""
    views = {view.name: view for view in await read_trash(session, names)}
    for name in names:
        view = views.get(name)
        if view is None or (view.entry is not None and view.entry.phase is not TrashPhase.TRASHED):
            raise Refusal(f"topic {name} is not in the trash")
        if view.problem is not None:
            raise Refusal(view.problem)
    question = f"Delete {counted(len(views), 'topic')} for good?"
    demand_agreement([f"  {name}" for name in names], question, confirm, {"matched": [*names]})
    outcomes = await purge(session, [views[name] for name in dict.fromkeys(names)], timeout_ms=timeout_ms)
    return Answer(
        [{"topic": each.name, "is_purged": each.problem is None, "problem": each.problem} for each in outcomes],
        tuple(each.problem or f"Topic {each.name} is being deleted." for each in outcomes),
        exit=exit_of(outcomes),
    )


def _row(view: TrashView) -> tuple[str, ...]:
    entry = view.entry
    if entry is None:
        return view.name, view.problem or "unreadable", "", "", ""
    until = until_text(entry.until_ms) if entry.phase is TrashPhase.TRASHED else ""
    return view.name, entry.phase.value, until, str(len(entry.partitions)), topic_id_to_text(entry.topic_id)


def until_text(at_ms: int) -> str:
    """Return the time for people, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_ms / 1000))


def _as_json(view: TrashView) -> JsonValue:
    entry = view.entry
    if entry is None:
        return {"topic": view.name, "state": None, "problem": view.problem}
    return {
        "topic": view.name,
        "state": entry.phase.value,
        "since_ms": entry.since_ms,
        "until_ms": entry.until_ms if entry.phase is TrashPhase.TRASHED else None,
        "topic_id": topic_id_to_text(entry.topic_id),
        "partitions": len(entry.partitions),
        "problem": None,
    }
