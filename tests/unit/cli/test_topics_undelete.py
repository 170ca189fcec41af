"""`lethe topics undelete`: what it requests, what it waits for, and in which words it is refused."""

from __future__ import annotations

import asyncio

import pytest

from lethe.admin import topic_znodes
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.topics_create import creation
from lethe.cli.topics_undelete import bringing_back
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Data, Delete, GetData, SetData
from lethe.protocol.zookeeper.znodes import (
    RequestedAction,
    TopicRequest,
    TrashPhase,
    encode_topic_request,
    encode_trash,
)
from tests.fakes.trash import ENTRY, in_trash
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, elect

UNDELETE = TopicRequest(RequestedAction.UNDELETE)


async def marked(session: FakeSession, *names: str) -> None:
    for name in names:
        await creation(session, TopicCreationRequest(name, assignment=((1,),)))
    await topic_znodes.mark_for_deletion(session, names)


async def requested(session: FakeSession, name: str) -> None:
    """Wait until the command has written the request."""
    async with asyncio.timeout(5):
        while not isinstance((await session.read([GetData(paths.request(name))]))[0], Data):
            await asyncio.sleep(0)


async def test_granted_and_refused_requests(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await marked(session, "orders", "bills")
    command = asyncio.create_task(bringing_back(session, ["orders", "bills"], timeout_ms=5_000))
    await requested(session, "bills")
    await apply(session, Delete(paths.delete_topic("orders")), Delete(paths.request("orders")))
    told = encode_topic_request(UNDELETE.refuse("its deletion has begun"))
    await apply(session, SetData(paths.request("bills"), told, ANY_VERSION))
    answer = await command
    assert answer.lines == (
        "Topic orders is no longer marked, and stays.",
        "topic bills: the controller refuses: its deletion has begun",
    )
    assert answer.exit is Exit.NO
    assert not isinstance((await session.read([GetData(paths.request("bills"))]))[0], Data)


async def test_request_that_is_not_answered_is_withdrawn(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await marked(session, "orders")
    answer = await bringing_back(session, ["orders"], timeout_ms=1)
    (line,) = answer.lines
    assert line.startswith("topic orders: the controller has not answered within 0.")
    assert line.endswith(" s, and the request is withdrawn")
    assert answer.exit is Exit.NO
    assert not isinstance((await session.read([GetData(paths.request("orders"))]))[0], Data)


async def test_refused_request_of_an_earlier_command_is_replaced(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await marked(session, "orders")
    await session.ensure_path(paths.REQUESTS)
    await apply(session, Create(paths.request("orders"), encode_topic_request(UNDELETE.refuse("too late"))))
    answer = await bringing_back(session, ["orders"], timeout_ms=1)
    assert "has not answered" in answer.lines[0]


async def test_settings_of_a_marked_topic_that_are_not_restored_yet_are_named(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await marked(session, "orders")
    await session.ensure_path(paths.TRASH)
    await apply(session, Create(paths.trashed("orders"), encode_trash(ENTRY.entering(TrashPhase.FREEZING, 2_000))))
    command = asyncio.create_task(bringing_back(session, ["orders"], timeout_ms=300))
    await requested(session, "orders")
    await apply(session, Delete(paths.delete_topic("orders")), Delete(paths.request("orders")))
    why = "Its settings and committed offsets are not restored yet: see `lethe topics trash list`."
    assert (await command).lines == (f"Topic orders is no longer marked, and stays. {why}",)


async def test_topic_that_is_marked_again_is_not_said_to_be_back(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await marked(session, "orders")
    command = asyncio.create_task(bringing_back(session, ["orders"], timeout_ms=5_000))
    await requested(session, "orders")
    await apply(session, Delete(paths.request("orders")))
    answer = await command
    why = "another process has withdrawn the request, or has deleted the topic"
    assert answer.lines == (f"topic orders is still marked, or marked again: {why}",)
    assert answer.exit is Exit.NO


async def test_topic_whose_request_another_command_withdrew_is_not_said_to_be_back(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await in_trash(session, orders=ENTRY)
    commands = [asyncio.create_task(bringing_back(session, ["orders"], timeout_ms=ms)) for ms in (1, 5_000)]
    withdrawn, waiting = await asyncio.gather(*commands)
    assert "has not answered" in withdrawn.lines[0]
    why = "another process has withdrawn the request, or has deleted the topic"
    assert waiting.lines == (f"topic orders is not there: {why}",)
    assert waiting.exit is Exit.NO


async def test_topic_whose_deletion_has_ended_does_not_stay(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await session.ensure_path(paths.DELETE_TOPICS)
    await apply(session, Create(paths.delete_topic("orders"), None))
    command = asyncio.create_task(bringing_back(session, ["orders"], timeout_ms=5_000))
    await requested(session, "orders")
    await apply(session, Delete(paths.delete_topic("orders")), Delete(paths.request("orders")))
    assert "topic orders is not there" in (await command).lines[0]


@pytest.mark.parametrize(
    "left, told",
    [
        (
            encode_trash(ENTRY.entering(TrashPhase.RESTORING, 2_000)),
            (
                "Topic orders is back. Its settings and committed offsets are not restored yet: see "
                "`lethe topics trash list`."
            ),
        ),
        (
            encode_trash(ENTRY.entering(TrashPhase.OFFSETS, 2_000)),
            (
                "Topic orders is back. Committed offsets of some groups are not restored yet: a group takes them only "
                "while it has no members. The controller tries again; see `lethe topics trash list`."
            ),
        ),
        (
            b"{}",
            (
                "Topic orders is back. Whether its settings and committed offsets are restored is unknown: "
                "znode /lethe/trash/orders cannot be understood: 'version' must be a whole number, found null"
            ),
        ),
    ],
)
async def test_what_is_not_seen_to_be_restored_is_named(session: FakeSession, left: bytes, told: str) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await in_trash(session, orders=ENTRY)
    command = asyncio.create_task(bringing_back(session, ["orders"], timeout_ms=300))
    await requested(session, "orders")
    back = (Create(paths.topic("orders"), None), SetData(paths.trashed("orders"), left, ANY_VERSION))
    await apply(session, *back, Delete(paths.request("orders")))
    assert (await command).lines == (told,)


async def test_kafkas_controller_is_not_asked(session: FakeSession) -> None:
    await elect(session, 7)
    await marked(session, "orders")
    with pytest.raises(Refusal, match="controller 7 is not Lethe's.*: only Lethe's controller can tell"):
        await bringing_back(session, ["orders"], timeout_ms=1)
    assert not isinstance((await session.read([GetData(paths.request("orders"))]))[0], Data)


async def test_topics_that_are_not_marked_or_not_there(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await creation(session, TopicCreationRequest("orders", assignment=((1,),)))
    with pytest.raises(Refusal, match="topic orders is neither marked for deletion nor in the trash"):
        await bringing_back(session, ["orders"], timeout_ms=1)
    with pytest.raises(Refusal, match="order"):
        await bringing_back(session, ["order"], timeout_ms=1)
    with pytest.raises(ValueError, match="which topics"):
        await bringing_back(session, [], timeout_ms=1)


async def test_too_late(session: FakeSession) -> None:
    """Only topics that can come back are proposed."""
    await elect(session, 1001, admin="http://localhost:1")
    await creation(session, TopicCreationRequest("orders-b", assignment=((1,),)))
    await in_trash(session, **{"orders-a": ENTRY})
    with pytest.raises(Refusal) as refused:
        await bringing_back(session, ["orders-c"], timeout_ms=1)
    assert str(refused.value) == (
        "topic 'orders-c' does not exist, is not marked, and is not in the trash: if it was deleted, nothing brings it "
        "back; did you mean orders-a?"
    )
