"""The faults that a test can ask the fake for."""

import asyncio

import pytest

from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession, ZooKeeperUnavailable
from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Delete,
    Exists,
    GetData,
    MultiDone,
    MultiUnknown,
    SetData,
    WatchFired,
    WatchKind,
    ZkError,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupUnknown, MultiPlan
from tests.fakes.zookeeper import FakeZooKeeper


async def test_it_keeps_the_interface() -> None:
    async with FakeZooKeeper().open_session(lambda _: None) as fake:
        session: ZooKeeperSession = fake
        await session.ensure_path("/a/b/c")
        await session.ensure_path("/a/b/c")
        assert session.connected
        assert session.lost_reason is None


async def test_a_lost_reply_is_unknown_whether_applied_or_not() -> None:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(lambda _: None) as session:
        session.lose_next_reply(applied=True)
        session.lose_next_reply(applied=False)
        outcomes = await session.multis([[Create("/a", None)], [Create("/b", None)], [Create("/c", None)]])
        assert [type(o) for o in outcomes] == [MultiUnknown, MultiUnknown, MultiDone]
        assert zookeeper.model.paths() == ("/", "/a", "/c")


async def test_while_disconnected_requests_wait_and_watches_catch_up() -> None:
    zookeeper = FakeZooKeeper()
    fired: list[WatchFired] = []
    async with zookeeper.open_session(fired.append) as session, zookeeper.open_session(lambda _: None) as other:
        await session.multi([Create("/a", None), Create("/gone", None)])
        await session.read([GetData("/a", True), Exists("/new", True), GetData("/gone", True)])
        session.disconnect()
        pending = asyncio.ensure_future(session.read([GetData("/a")]))
        await other.multi([SetData("/a", b"1", 0), Create("/new", None), Delete("/gone")])
        assert not fired
        assert not pending.done()
        session.reconnect()
        await pending
        assert fired == [
            WatchFired(WatchKind.DATA_CHANGED, "/a"),
            WatchFired(WatchKind.DELETED, "/gone"),
            WatchFired(WatchKind.CREATED, "/new"),
        ]


async def test_an_expired_session_is_lost_for_ever() -> None:
    zookeeper = FakeZooKeeper()
    fired: list[WatchFired] = []
    async with zookeeper.open_session(lambda _: None) as session, zookeeper.open_session(fired.append) as other:
        await session.multi([Create("/e", None, ephemeral=True)])
        await other.read([Exists("/e", True)])
        zookeeper.expire(session.session_id)
        assert fired == [WatchFired(WatchKind.DELETED, "/e")]
        assert session.lost.is_set()
        for request in (
            session.read([GetData("/e")]),
            session.multi([]),
            session.write(MultiPlan([(Delete("/e"),)], None)),
        ):
            with pytest.raises(SessionLost, match="expired"):
                await request


async def test_a_plan_is_carried_out() -> None:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(lambda _: None) as session:
        await session.multi([Create("/epoch", b"1"), Create("/a", None), Create("/c", None)])
        plan = MultiPlan([(Delete("/a"),), (Delete("/b"),), (Delete("/c"),)], Check("/epoch", 0))
        assert [type(o) for o in await session.write(plan)] == [GroupDone, GroupFailed, GroupDone]
        assert plan.outcomes[1] == GroupFailed(0, ZkError.NO_NODE)
        session.lose_next_reply(applied=False)
        assert [type(o) for o in await session.write(MultiPlan([(Delete("/x"),)], None))] == [GroupUnknown]


async def test_an_absent_zookeeper_opens_no_session() -> None:
    zookeeper = FakeZooKeeper()
    zookeeper.unavailable = "connection refused"
    with pytest.raises(ZooKeeperUnavailable, match="refused"):
        async with zookeeper.open_session(lambda _: None):
            pass
