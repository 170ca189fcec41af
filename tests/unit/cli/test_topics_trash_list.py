"""`lethe topics trash list`: what is in the trash, how long, how large, and why something leaves it early."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from lethe.adapters.http import Request, Route, json_reply, serve_http
from lethe.cli.topics_trash_list import listing
from lethe.protocol.vocabulary import TopicId, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.znodes import SavedPartition, TrashEntry, TrashPhase, encode_trash
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, elect

ID = TopicId(uuid.UUID(int=1 << 100))
HOUR_MS = 3_600_000


async def in_trash(session: FakeSession) -> None:
    """Topics in each phase, and an entry that cannot be understood."""
    now_ms = int(time.time() * 1000)
    saved = {number: SavedPartition((1, 2), 1, 0, (1, 2)) for number in (0, 1)}
    entry = TrashEntry(TrashPhase.TRASHED, ID, now_ms - 30_000, 2 * HOUR_MS, None, saved)
    await session.ensure_path(paths.TRASH)
    for name, phase in (("a", TrashPhase.TRASHED), ("b", TrashPhase.FREEZING), ("c", TrashPhase.OFFSETS)):
        data = encode_trash(entry.entering(phase, now_ms - 30_000))
        await apply(session, Create(paths.trashed(name), data))
    await apply(session, Create(paths.trashed("d"), b"?"))


def told(**more: Any) -> dict[str, Any]:
    groups = {"readers": "it has members"}
    topics = [
        {"topic": "a", "size_bytes": 12_345, "unseen_brokers": [2]},
        {"topic": "b", "last_error": "broker 1 does not answer"},
        {"topic": "c", "groups_left": groups},
    ]
    return {"topics": topics, "free_percent": 0, **more}


async def test_without_a_controller_only_zookeeper_tells(session: FakeSession) -> None:
    await in_trash(session)
    answer = await listing(session)
    assert answer.lines == ("The controller does not tell more: none is active.",)
    (table,) = answer.tables
    assert [row[:2] for row in table.rows[:3]] == [("a", "trashed"), ("b", "freezing"), ("c", "offsets")]
    assert table.rows[3][1].startswith("znode /lethe/trash/d cannot be understood")
    assert table.rows[0][3:] == ("119 min", "", "2", topic_id_to_text(ID), "")
    assert table.rows[1][7] == "", "what it waits for is the controller's to tell"


async def told_by(session: FakeSession, trash: Mapping[str, Any]) -> Any:
    async def state(_: Request) -> Any:
        return json_reply({"trash": trash})

    async with serve_http("127.0.0.1", 0, (Route("/state", state),)) as server:
        await elect(session, 1001, admin=f"http://127.0.0.1:{server.port}")
        return await listing(session)


async def test_controller_tells_bytes_and_what_is_waited_for(session: FakeSession) -> None:
    await in_trash(session)
    answer = await told_by(session, told())
    assert answer.lines == ()
    rows = {row[0]: (row[4], row[7]) for row in answer.tables[0].rows}
    assert rows == {
        "a": ("at least 12,345", ""),
        "b": ("", "broker 1 does not answer"),
        "c": ("", "1 group (readers): it has members"),
        "d": ("", ""),
    }
    first = answer.data["topics"][0]
    assert (first["size_bytes"], first["unseen_brokers"], first["waits_for"]) == (12_345, [2], None)
    assert 0 < first["left_ms"] < 2 * HOUR_MS


@pytest.mark.parametrize("is_going", [True, False])
async def test_full_disks_say_what_gives_way(session: FakeSession, is_going: bool) -> None:
    await in_trash(session)
    disk = {"broker": 1, "path": "/d", "usable_bytes": 45, "total_bytes": 1_000, "trash_bytes": 1}
    giving = {"topic": "z", "broker": 1, "path": "/d", "size_bytes": 30} if is_going else None
    unseen = [{"broker": 2, "reason": "it has not answered"}]
    more = {"free_percent": 10, "full_disks": [disk], "giving_way": giving, "gives_way_next": "a"}
    answer = await told_by(session, told(unseen_disks=unseen, **more))
    which = (
        "Topic z has given way to broker 1, /d, and is being deleted: the next one waits until its 30 bytes are gone "
        "there."
        if is_going
        else "Topic a gives way next: of those there it is in the trash for longest."
    )
    assert answer.lines == (
        "Broker 1, /d: 4.5 % free, below lethe.trash.free.percent=10; the trash has 1 byte there.",
        which,
        "Broker 2 is not seen, so nothing gives way to its disks: it has not answered.",
    )
    assert answer.data["giving_way"] == giving


async def test_pause_is_named_and_what_waits_for_its_end(session: FakeSession) -> None:
    await in_trash(session)
    topics = [{"topic": "b", "last_error": None}, {"topic": "c", "groups_left": {}}]
    answer = await told_by(session, {"topics": topics, "paused": "a disk is being replaced"})
    assert answer.lines == (
        "Deletions are paused (a disk is being replaced): no topic goes into the trash, and none is deleted from it.",
    )
    assert [row[7] for row in answer.tables[0].rows] == ["", "deletions to be resumed", "", ""]
    assert answer.data["paused"] == "a disk is being replaced"


async def test_topic_on_its_way_waits_for_brokers(session: FakeSession) -> None:
    await in_trash(session)
    answer = await told_by(session, {"topics": [{"topic": "b", "last_error": None}], "paused": None})
    assert answer.lines == ()
    assert answer.tables[0].rows[1][7] == "brokers to notice that retention is off"


async def test_empty_trash(session: FakeSession) -> None:
    await elect(session, 1001)
    assert (await listing(session)).lines == ("The trash is empty.",)
