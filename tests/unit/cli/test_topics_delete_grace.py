"""`lethe topics delete --grace`: what it says of topics that go into the trash, and of those that do not."""

from __future__ import annotations

import asyncio

from lethe.admin.refusal import Exit
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.answer import Answer
from lethe.cli.topics_create import creation
from lethe.cli.topics_delete_grace import deletion_with_grace
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete, Exists, Present
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, elect


async def deleted(session: FakeSession, *, wait: bool, unmark: bool = False) -> Answer:
    """Delete topic orders with a grace period; `unmark`: the mark is refused at once."""
    await elect(session, 1001, admin="http://localhost:1")
    await creation(session, TopicCreationRequest("orders", assignment=((1,),)))
    if not unmark:
        return await deletion_with_grace(session, ["orders"], "24h", wait=wait, timeout_ms=1)
    command = asyncio.create_task(deletion_with_grace(session, ["orders"], "24h", wait=wait, timeout_ms=5_000))
    async with asyncio.timeout(5):
        while not isinstance((await session.read([Exists(paths.delete_topic("orders"))]))[0], Present):
            await asyncio.sleep(0)
    await apply(session, Delete(paths.delete_topic("orders")))
    return await command


async def test_marked_topic_is_not_said_to_be_on_its_way_for_sure(session: FakeSession) -> None:
    answer = await deleted(session, wait=False)
    assert answer.lines == (
        "Topic orders is marked, to go into the trash: `lethe explain orders` says what it waits for.",
    )
    assert answer.exit is Exit.OK


async def test_topic_that_is_still_marked_when_the_time_is_over(session: FakeSession) -> None:
    answer = await deleted(session, wait=True)
    assert answer.lines == ("Topic orders is not in the trash yet: see `lethe explain orders`.",)
    assert answer.exit is Exit.TIMED_OUT


async def test_topic_that_is_no_longer_marked_is_not_said_to_be_on_its_way(session: FakeSession) -> None:
    answer = await deleted(session, wait=True, unmark=True)
    assert answer.lines == (
        (
            "Topic orders is not in the trash, and not marked any more: its mark was refused or taken back, or another "
            "process has deleted it. See `lethe explain orders`."
        ),
    )
    assert answer.exit is Exit.NO
