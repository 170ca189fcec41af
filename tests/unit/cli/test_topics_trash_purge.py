"""`lethe topics trash purge`: what it requests, and what it refuses."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.topics_create import creation
from lethe.cli.topics_trash_purge import purging
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Data, Delete, GetData, SetData
from lethe.protocol.zookeeper.znodes import (
    RequestedAction,
    TopicRequest,
    TrashPhase,
    decode_topic_request,
    encode_topic_request,
    encode_trash,
)
from tests.fakes.trash import ENTRY, ID, in_trash
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, elect
from tests.unit.cli.test_topics_undelete import requested


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
    await apply(session, Delete(paths.trashed("orders")), Delete(paths.request("orders")))
    await apply(session, SetData(paths.request("bills"), refused, ANY_VERSION))
    answer = await command
    assert answer.lines == (
        "Topic orders is being deleted.",
        "topic bills: the controller refuses: deletions are paused",
    )
    assert answer.exit is Exit.NO


@pytest.mark.parametrize(
    "left, told",
    [
        (encode_trash(ENTRY), "topic orders is still in the trash: another process has withdrawn the request"),
        (encode_trash(replace(ENTRY, topic_id=TopicId(uuid.UUID(int=7)))), "Topic orders is being deleted."),
        (b"?", "whether topic orders is still in the trash is unknown"),
    ],
)
async def test_request_that_is_gone_is_judged_by_the_trash(session: FakeSession, left: bytes, told: str) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await in_trash(session, orders=ENTRY)
    command = asyncio.create_task(purging(session, ["orders"], confirm=None, timeout_ms=5_000))
    await requested(session, "orders")
    await apply(session, SetData(paths.trashed("orders"), left, ANY_VERSION), Delete(paths.request("orders")))
    answer = await command
    assert answer.lines[0].startswith(told)
    assert answer.exit is (Exit.OK if told.startswith("Topic") else Exit.UNREACHABLE if left == b"?" else Exit.NO)


async def test_topic_that_another_command_brings_back_is_not_said_to_be_deleted(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await in_trash(session, orders=ENTRY)
    command = asyncio.create_task(purging(session, ["orders"], confirm=None, timeout_ms=5_000))
    await requested(session, "orders")
    await apply(session, Delete(paths.trashed("orders")))
    await creation(session, TopicCreationRequest("orders", assignment=((1,),)))
    await apply(session, Delete(paths.request("orders")))
    answer = await command
    assert answer.lines == ("topic orders is in service: another process has brought it back",)
    assert answer.exit is Exit.NO


async def test_request_to_bring_the_topic_back_is_not_replaced(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await in_trash(session, orders=ENTRY)
    await session.ensure_path(paths.REQUESTS)
    undelete = encode_topic_request(TopicRequest(RequestedAction.UNDELETE))
    await apply(session, Create(paths.request("orders"), undelete))
    answer = await purging(session, ["orders"], confirm=None, timeout_ms=1)
    assert answer.lines == ("topic orders: another process has requested that it comes back",)
    (found,) = await session.read([GetData(paths.request("orders"))])
    assert isinstance(found, Data)
    assert found.data == undelete


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

    async def no(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(Refusal):
        await purging(session, ["orders"], confirm=no, timeout_ms=1)
    assert "Delete 1 topic for good?" in asked[0]
