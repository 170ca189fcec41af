"""`lethe topics trash list`: lists the topics in the trash.

ZooKeeper has the topics; the active controller is asked for their bytes, what each waits for, and full disks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from lethe.adapters.http_client import HttpCredentials
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_znodes import list_topics
from lethe.admin.trash import TrashView, read_trash
from lethe.cli.answer import Answer, Table
from lethe.cli.options import AsJson, ZooKeeper
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.counting import counted, listed
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import topic_id_to_text
from lethe.protocol.zookeeper.znodes import TrashPhase
from lethe.survey.causes import age_text

HEADERS = ("topic", "state", "until", "left", "bytes", "partitions", "topic id", "waits for")
Told = Mapping[str, Any]
"""What the controller says, at `/state`."""


def list_trash(zookeeper: ZooKeeper, as_json: AsJson = False) -> None:
    """List the topics in the trash, and until when `lethe topics undelete` brings each back."""

    async def command() -> Answer:
        HttpCredentials.from_environment().check()
        return await with_session(zookeeper, listing)

    finish(command, as_json=as_json)


async def listing(session: ZooKeeperSession) -> Answer:
    """List the trash."""
    from lethe.admin.controllers import ask_state

    await list_topics(session)
    views = await read_trash(session)
    state = await ask_state(session)
    told = None if isinstance(state, str) else state.get("trash")
    trash: Told = told if isinstance(told, Mapping) else {}
    pause = {"is_paused": trash.get("paused") is not None}
    topics: dict[str, Told] = {each["topic"]: {**each, **pause} for each in trash.get("topics", ())}
    now_ms = int(time.time() * 1000)
    data: JsonValue = {
        "topics": [_as_json(view, topics.get(view.name, {}), now_ms) for view in views],
        **{key: trash.get(key) for key in ("paused", "free_percent", "full_disks", "unseen_disks", "giving_way")},
        "problem": state if isinstance(state, str) else None,
    }
    lines = [*_about_disks(trash)]
    if not views:
        return Answer(data, ("The trash is empty.", *lines))
    if isinstance(state, str):
        lines.append(f"The controller does not tell more: {state}.")
    table = Table(HEADERS, tuple(_row(view, topics.get(view.name, {}), now_ms) for view in views))
    return Answer(data, tuple(lines), (table,))


def until_text(at_ms: int) -> str:
    """Return the time for people, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_ms / 1000))


def _about_disks(trash: Told) -> Iterator[str]:
    """Yield why topics leave the trash before their time, or do not although they should."""
    if (reason := trash.get("paused")) is not None:
        why = f" ({reason})" if reason else ""
        yield f"Deletions are paused{why}: no topic goes into the trash, and none is deleted from it."
    limit, giving = trash.get("free_percent") or 0, trash.get("giving_way")
    for disk in trash.get("full_disks") or ():
        free = 100 * disk["usable_bytes"] / disk["total_bytes"]
        yield (
            f"Broker {disk['broker']}, {disk['path']}: {free:.1f} % free, below lethe.trash.free.percent={limit}; the "
            f"trash has {counted(disk['trash_bytes'], 'byte')} there."
        )
    if giving:
        yield (
            f"Topic {giving['topic']} has given way to broker {giving['broker']}, {giving['path']}, and is being "
            f"deleted: the next one waits until its {counted(giving['size_bytes'], 'byte')} are gone there."
        )
    elif trash.get("gives_way_next"):
        yield f"Topic {trash['gives_way_next']} gives way next: of those there it is in the trash for longest."
    for unseen in (trash.get("unseen_disks") or ()) if limit else ():
        yield f"Broker {unseen['broker']} is not seen, so nothing gives way to its disks: {unseen['reason']}."


def _row(view: TrashView, told: Told, now_ms: int) -> tuple[str, ...]:
    entry = view.entry
    if entry is None:
        return view.name, view.problem or "unreadable", *("" for _ in HEADERS[2:])
    until = left = ""
    if entry.phase is TrashPhase.TRASHED:
        until, left = until_text(entry.until_ms), age_text(max(0, entry.until_ms - now_ms))
    size = told.get("size_bytes")
    shown = "" if size is None else f"{'at least ' if told.get('unseen_brokers') else ''}{size:,}"
    partitions = str(len(entry.partitions)) if entry.partitions else ""
    return (
        view.name,
        entry.phase.value,
        until,
        left,
        shown,
        partitions,
        topic_id_to_text(entry.topic_id),
        _waits_for(entry.phase, told),
    )


def _waits_for(phase: TrashPhase, told: Told) -> str:
    """Return what the topic waits for; nothing where the controller does not tell of it."""
    groups = told.get("groups_left") or {}
    if groups:
        return f"{counted(len(groups), 'group')} ({listed(list(groups), 3)}): {next(iter(groups.values()))}"
    if told.get("last_error"):
        return str(told["last_error"])
    if phase is TrashPhase.FREEZING and told:
        return "deletions to be resumed" if told.get("is_paused") else "brokers to notice that retention is off"
    return "the controller" if phase is TrashPhase.RESTORING else ""


def _as_json(view: TrashView, told: Told, now_ms: int) -> JsonValue:
    entry = view.entry
    if entry is None:
        return {"topic": view.name, "state": None, "problem": view.problem}
    is_there = entry.phase is TrashPhase.TRASHED
    return {
        "topic": view.name,
        "state": entry.phase.value,
        "since_ms": entry.since_ms,
        "until_ms": entry.until_ms if is_there else None,
        "left_ms": max(0, entry.until_ms - now_ms) if is_there else None,
        "topic_id": topic_id_to_text(entry.topic_id),
        "partitions": len(entry.partitions),
        "size_bytes": told.get("size_bytes"),
        "unseen_brokers": told.get("unseen_brokers"),
        "waits_for": _waits_for(entry.phase, told) or None,
        "problem": None,
    }
