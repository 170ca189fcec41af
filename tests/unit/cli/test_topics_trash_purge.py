"""`lethe topics trash purge`: what it requests, and what it refuses."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.topics_trash_purge import purging
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Data, Delete, GetData, SetData
from lethe.protocol.zookeeper.znodes import (
    RequestedAction,
    SavedPartition,
    TopicRequest,
    TrashEntry,
    TrashPhase,
    decode_topic_request,
    encode_topic_request,
    encode_trash,
)
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, elect
from tests.unit.cli.test_topics_undelete import requested

ID = TopicId(uuid.UUID(int=1 << 100))
ENTRY = TrashEntry(TrashPhase.TRASHED, ID, 1_000, 500, None, {0: SavedPartition((1,), 1, 0, (1,))})


async def in_trash(session: FakeSession, **entries: TrashEntry) -> None:
    await session.ensure_path(paths.TRASH)
    for name, entry in entries.items():
        await apply(session, Create(paths.trashed(name), encode_trash(entry)))


async def test_incarnation_that_was_listed_is_purged(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await in_trash(session, orders=ENTRY, bills=ENTRY)
    command = asyncio.create_task(purging(session, ["orders", "bills"], confirm=None, timeout_ms=5_000))
    await requested(session, "bills")
    (found,) = await session.read([GetData(paths.request("orders"))])
    assert isinstance(found, Data)
    request = decode_topic_request("orders", found.data)
    assert request == TopicRequest(RequestedAction.PURGE, ID)
    refused = encode_topic_request(request.refuse("deletions are paused"))
    await apply(session, Delete(paths.request("orders")), SetData(paths.request("bills"), refused, ANY_VERSION))
    answer = await command
    assert answer.lines == (
        "Topic orders is being deleted.",
        "topic bills: the controller refuses: deletions are paused",
    )
    assert answer.exit is Exit.NO


async def test_what_is_not_in_the_trash_is_refused(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await in_trash(session, freezing=ENTRY.entering(TrashPhase.FREEZING, 0))
    for name in ("freezing", "orders"):
        with pytest.raises(Refusal, match=f"topic {name} is not in the trash"):
            await purging(session, [name], confirm=None, timeout_ms=1)
    with pytest.raises(ValueError, match="which topics"):
        await purging(session, [], confirm=None, timeout_ms=1)


async def test_it_asks_first(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await in_trash(session, orders=ENTRY)
    asked: list[str] = []

    def no(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(Refusal):
        await purging(session, ["orders"], confirm=no, timeout_ms=1)
    assert "Delete 1 topic for good?" in asked[0]
