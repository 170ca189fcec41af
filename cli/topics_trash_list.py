"""`lethe topics trash list`: lists the topics in the trash."""

from __future__ import annotations

import time

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_znodes import list_topics
from lethe.admin.trash import TrashView, read_trash
from lethe.cli.answer import Answer, Table
from lethe.cli.options import AsJson, ZooKeeper
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import topic_id_to_text
from lethe.protocol.zookeeper.znodes import TrashPhase


def list_trash(zookeeper: ZooKeeper, as_json: AsJson = False) -> None:
    """List the topics in the trash, and until when `lethe topics undelete` brings each back."""
    finish(lambda: with_session(zookeeper, listing), as_json=as_json)


async def listing(session: ZooKeeperSession) -> Answer:
    """List the trash."""
    await list_topics(session)
    views = await read_trash(session)
    rows = tuple(_row(view) for view in views)
    data: list[JsonValue] = [_as_json(view) for view in views]
    if not views:
        return Answer(data, ("The trash is empty.",))
    return Answer(data, (), (Table(("topic", "state", "until", "partitions", "topic id"), rows),))


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
