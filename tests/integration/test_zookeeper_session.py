"""The session against a real ZooKeeper that goes away, is slow, is secured, or has much to say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from lethe.adapters.zookeeper import connection, wire
from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import SessionLost, WriteRefused, ZooKeeperUnavailable
from lethe.adapters.zookeeper.session import MAX_IN_FLIGHT, Session, open_session
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from lethe.protocol.zookeeper.operations import (
    Acl,
    Children,
    Create,
    Credentials,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MultiDone,
    MultiFailed,
    MultiUnknown,
    Operation,
    Present,
    ReadFailed,
    SetData,
    WatchFired,
    WatchKind,
    ZkError,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupUnknown, MultiPlan
from tests.fakes.tcp_proxy import Fault, Stage, TcpProxy, opcode

pytestmark = pytest.mark.zookeeper
LIMIT_S = 60


async def until(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Gives the loop time until the condition holds."""
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def session_on(
    connect: str,
    *,
    timeout_ms: int = 10_000,
    fired: list[WatchFired] | None = None,
    max_reply_bytes: int = 64 * 1024 * 1024,
    credentials: tuple[Credentials, ...] = (),
    set_acl: bool = False,
    connection_timeout_ms: int = 15_000,
) -> AsyncIterator[Session]:
    config = ZooKeeperConfig(
        parse_connect_string(connect),
        session_timeout_ms=timeout_ms,
        connection_timeout_ms=connection_timeout_ms,
        max_reply_bytes=max_reply_bytes,
        credentials=credentials,
        set_acl=set_acl,
    )
    async with open_session(config, (fired if fired is not None else []).append) as session:
        yield session


# --- ZooKeeper goes away ------------------------------------------------------------------------------------------


@pytest.fixture
def patient_zookeeper() -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper of the test's own that grants session timeouts of two minutes: a JVM may start slowly."""
    with EmbeddedZooKeeper(ZooKeeperSettings(tick_time_ms=1_000)) as zookeeper:
        yield zookeeper


async def test_a_restart_within_the_timeout_is_survived(patient_zookeeper: EmbeddedZooKeeper) -> None:
    fired: list[WatchFired] = []
    async with session_on(patient_zookeeper.connect_string, timeout_ms=120_000, fired=fired) as session:
        await session.multi([Create("/e", b"1", ephemeral=True)])
        await session.read([GetData("/e", watch=True)])
        patient_zookeeper.kill()
        await until(lambda: not session.connected)
        reading = asyncio.ensure_future(session.read([GetData("/e"), Exists("/e", watch=True)]))
        writing = asyncio.ensure_future(session.multi([SetData("/e", b"2", 0)]))
        await patient_zookeeper.start_async()
        found = await asyncio.wait_for(reading, LIMIT_S)
        assert session.lost_reason is None
        assert isinstance(found[0], Data)
        assert found[0].stat.ephemeral_owner == session.session_id
        assert isinstance(await writing, MultiDone)
        await until(lambda: fired == [WatchFired(WatchKind.DATA_CHANGED, "/e")])


@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_out_of_touch_for_the_timeout_is_lost_by_our_own_clock(
    own_zookeeper: EmbeddedZooKeeper, how: str
) -> None:
    async with session_on(own_zookeeper.connect_string, timeout_ms=1_500) as session:
        await session.multi([Create("/e", b"1", ephemeral=True), Create("/p", b"1")])
        own_zookeeper.kill() if how == "killed" else own_zookeeper.pause()
        reading = asyncio.ensure_future(session.read([GetData("/e")]))
        writes = [asyncio.ensure_future(session.multi([SetData("/p", b"2", 0)])) for _ in range(3)]
        plan = asyncio.ensure_future(
            session.write(MultiPlan([(Delete("/p"),), (Delete("/e"),)], None, max_operations=1))
        )
        await asyncio.wait_for(session.lost.wait(), LIMIT_S)
        assert session.lost_reason is not None
        assert "out of touch" in session.lost_reason
        assert not session.connected
        with pytest.raises(SessionLost, match="out of touch"):
            await reading
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(outcome, MultiUnknown | SessionLost) for outcome in outcomes)
        assert [type(outcome) for outcome in await plan] == [GroupUnknown, GroupUnknown]
        with pytest.raises(SessionLost):
            await session.multi([Create("/x", None)])

        own_zookeeper.resume() if how == "paused" else await own_zookeeper.start_async()
        async with session_on(own_zookeeper.connect_string) as fresh:
            assert fresh.session_id != session.session_id
            assert session.lost.is_set()
            (found,) = await fresh.read([GetData("/p")])
            if how == "killed":
                assert isinstance(found, Data)
                assert (found.data, found.stat.version) == (b"1", 0)


async def test_a_session_that_the_server_has_ended_is_lost(own_zookeeper: EmbeddedZooKeeper) -> None:
    """Somebody takes it up elsewhere and closes it: from here that is what expiry looks like."""
    connect = own_zookeeper.connect_string
    async with session_on(connect) as session, session_on(connect) as observer:
        await session.multi([Create("/e", b"1", ephemeral=True)])
        thief = await connection.connect(
            "127.0.0.1", own_zookeeper.port, lambda _: None, max_reply_bytes=1_000_000, timeout_s=10
        )
        hello = wire.pack_connect(0, 10_000, session.session_id, session._connection._password)
        assert (await thief.shake_hands(hello)).session_id == session.session_id
        await thief.send(wire.pack_close())
        await asyncio.wait_for(session.lost.wait(), LIMIT_S)
        thief.drop("done")
        assert session.lost_reason is not None
        assert "expired" in session.lost_reason
        assert await observer.read([Exists("/e")]) == [ReadFailed(ZkError.NO_NODE)]


async def test_a_process_that_stood_still_finds_its_session_over_before_it_sends(zookeeper_chroot: str) -> None:
    async with session_on(zookeeper_chroot, timeout_ms=1_500) as session:
        await session.multi([Create("/v", b"1")])
        time.sleep(2.0)  # the process is stopped, and the event loop with it
        with pytest.raises(SessionLost, match="out of touch"):
            await session.multi([SetData("/v", b"2", 0)])
    async with session_on(zookeeper_chroot) as observer:
        (found,) = await observer.read([GetData("/v")])
        assert isinstance(found, Data)
        assert found.stat.version == 0


async def test_an_idle_session_is_kept_alive(zookeeper_chroot: str) -> None:
    """Pings, and nothing else, over several timeouts."""
    async with session_on(zookeeper_chroot) as observer:
        host = observer._config.connect.servers[0]
        async with TcpProxy(host.host, host.port) as proxy:
            connect = f"127.0.0.1:{proxy.port}{observer._config.connect.chroot}"
            async with session_on(connect, timeout_ms=1_800) as session:
                await until(lambda: sum(request[:4] == b"\xff\xff\xff\xfe" for request in proxy.requests) >= 7)
                assert (proxy.connections, session.lost_reason) == (1, None)


async def test_a_handshake_that_is_never_answered_does_not_cost_the_session(zookeeper_chroot: str) -> None:
    """A server that is just starting can accept a connection and never read from it."""
    address, _, chroot = zookeeper_chroot.partition("/")
    async with (
        TcpProxy("127.0.0.1", int(address.rsplit(":", 1)[1])) as proxy,
        session_on(f"127.0.0.1:{proxy.port}/{chroot}", timeout_ms=6_000) as session,
    ):
        session_id = session.session_id
        proxy.harm(Stage.BEFORE_REQUEST, Fault.STALL, when=lambda request: request[:4] == bytes(4))
        proxy.cut()
        await proxy.harmed(1)
        await asyncio.wait_for(session.read([Exists("/")]), LIMIT_S)
        assert (session.session_id, session.lost_reason, proxy.connections) == (session_id, None, 3)
        assert session.connections == 2, "the one of the handshake was none"


# --- ZooKeeper is not there ---------------------------------------------------------------------------------------


async def test_no_zookeeper_is_said_with_the_servers_that_were_tried() -> None:
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(ZooKeeperUnavailable, match=f"within 300 ms.*127.0.0.1:{port}.*zookeeper.connect"):
        async with session_on(f"127.0.0.1:{port}", connection_timeout_ms=300):
            pass


@pytest.mark.parametrize(
    "answer, told",
    [
        (b"", "no answer in time"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak ZooKeeper"),
        (b"\0\0\0\x04abcd", "unparsable"),
    ],
    ids=["silence", "another protocol", "nonsense"],
)
async def test_who_is_no_zookeeper_is_told(answer: bytes, told: str) -> None:
    """Also where there is no time left for the last attempt's answer."""
    answers = [answer]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answers.pop() if answers else b"")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ZooKeeperUnavailable, match=told):
            async with session_on(f"127.0.0.1:{port}", connection_timeout_ms=1_000):
                pass


async def test_the_servers_are_tried_in_turn(zookeeper_chroot: str) -> None:
    address, _, chroot = zookeeper_chroot.partition("/")
    async with session_on(f"127.0.0.1:1,{address}/{chroot}") as session:
        assert session.connected


# --- much to say --------------------------------------------------------------------------------------------------


async def test_answers_of_many_megabytes_arrive_whole(zookeeper_chroot: str) -> None:
    async with session_on(zookeeper_chroot) as session:
        await session.multi([Create("/big", None), Create("/wide", None)])
        blob = bytes(range(256)) * 3000
        for n in range(12):
            assert isinstance(await session.multi([Create(f"/big/{n}", blob)]), MultiDone)
        names = [f"{n:05}-{'x' * 200}" for n in range(8000)]
        plan = MultiPlan([(Create(f"/wide/{name}", None),) for name in names], None)
        assert all(isinstance(outcome, GroupDone) for outcome in await session.write(plan))
        (children,) = await session.read([GetChildren("/wide")])
        assert children == Children(tuple(names))
        found = await session.read([GetData(f"/big/{n}") for n in range(12)])
        assert all(isinstance(outcome, Data) and outcome.data == blob for outcome in found)


async def test_a_bulk_answer_above_the_limit_is_divided_and_a_single_one_refused(zookeeper_chroot: str) -> None:
    async with session_on(zookeeper_chroot, max_reply_bytes=300_000) as session:
        blobs = {n: bytes([n]) * 50_000 for n in range(40)}
        for n, blob in blobs.items():
            await session.multi([Create(f"/{n}", blob)])
        await session.multi([Create("/huge", b"x" * 400_000)])
        found = await session.read([*(GetData(f"/{n}") for n in blobs), GetData("/huge"), GetData("/huge", watch=True)])
        assert [outcome.data for outcome in found if isinstance(outcome, Data)] == list(blobs.values())
        assert found[-2:] == [ReadFailed(ZkError.MARSHALLING)] * 2
        assert session.connected


async def test_a_request_above_jute_maxbuffer_is_refused_before_it_is_sent(zookeeper_chroot: str) -> None:
    async with session_on(zookeeper_chroot) as session:
        with pytest.raises(ValueError, match=r"/large.*jute.maxbuffer"):
            await session.multi([Create("/large", b"x" * 1_048_576)])
        large: Operation = Create("/large", b"x" * 999_000)
        plan = MultiPlan([(Create("/a", None),), (large,), (Create("/b", None),)], None)
        assert all(isinstance(outcome, GroupDone) for outcome in await session.write(plan))
        long, short = await session.read([GetData("/" + "x" * 1_100_000), GetData("/a")])
        assert long == ReadFailed(ZkError.MARSHALLING)
        assert isinstance(short, Data)
        assert session.connected


async def test_a_group_that_the_chroot_makes_too_large_fails_alone(zookeeper_chroot: str) -> None:
    async with session_on(f"{zookeeper_chroot}/{'deep' * 50}") as session:
        group = tuple(Create(f"/{n:06}", None) for n in range(6000))
        outcomes = await session.write(MultiPlan([(Create("/a", None),), group, (Create("/b", None),)], None))
        assert outcomes[1] == GroupFailed(-1, ZkError.MARSHALLING)
        assert [type(outcome) for outcome in outcomes] == [GroupDone, GroupFailed, GroupDone]


# --- chroot, credentials, access ----------------------------------------------------------------------------------


async def test_the_chroot_is_created_and_hidden(zookeeper_chroot: str) -> None:
    fired: list[WatchFired] = []
    async with session_on(f"{zookeeper_chroot}/a/b", fired=fired) as inner, session_on(zookeeper_chroot) as outer:
        await inner.read([GetChildren("/", watch=True)])
        done = await inner.multi([Create("/s-", b"1", sequential=True), Create("/s-", None, False, True)])
        assert isinstance(done, MultiDone)
        assert done.paths == ("/s-0000000000", "/s-0000000001")
        await inner.read([Exists("/")])
        assert fired == [WatchFired(WatchKind.CHILDREN_CHANGED, "/")]
        assert isinstance((await outer.read([GetData("/a/b/s-0000000000")]))[0], Data)


ALICE = (Credentials("digest", b"alice:secret"),)


async def test_what_a_secured_session_creates_is_its_own(zookeeper_chroot: str) -> None:
    async with (
        session_on(zookeeper_chroot) as foreign_member,
        session_on(f"{zookeeper_chroot}/kafka", credentials=ALICE, set_acl=True) as alice,
        session_on(f"{zookeeper_chroot}/kafka") as reader,
    ):
        await alice.multi(
            [Create("/plain", b"1"), Create("/open", b"1", acl=Acl.OPEN), Create("/secret", b"1", acl=Acl.SECRET)]
        )
        await alice.ensure_path("/config/users")
        await alice.ensure_path("/consumers/group")
        assert isinstance(await alice.multi([SetData("/plain", b"2", 0), SetData("/secret", b"2", 0)]), MultiDone)
        assert await reader.multi([SetData("/plain", b"3", 1)]) == MultiFailed(0, ZkError.NO_AUTH)
        assert await reader.multi([Create("/x", None)]) == MultiFailed(0, ZkError.NO_AUTH)
        assert isinstance(await reader.multi([SetData("/open", b"3", 0), Create("/consumers/x", None)]), MultiDone)
        plain, secret, users = await reader.read([GetData("/plain"), GetData("/secret"), GetChildren("/config/users")])
        assert isinstance(plain, Data)
        assert [secret, users] == [ReadFailed(ZkError.NO_AUTH)] * 2
        with pytest.raises(WriteRefused, match="/plain/x.*NO_AUTH"):
            await reader.ensure_path("/plain/x")
        assert isinstance((await foreign_member.read([Exists("/kafka")]))[0], Present)
        with pytest.raises(ZooKeeperUnavailable, match=r"/kafka/new does not exist and cannot be created: NO_AUTH"):
            async with session_on(f"{zookeeper_chroot}/kafka/new"):
                pass
        with pytest.raises(ZooKeeperUnavailable, match=r"/kafka/secret cannot be read: NO_AUTH, .*or change the list$"):
            async with session_on(f"{zookeeper_chroot}/kafka/secret"):
                pass


async def test_credentials_are_given_again_after_a_reconnect(zookeeper_chroot: str) -> None:
    address, _, chroot = zookeeper_chroot.partition("/")
    async with TcpProxy("127.0.0.1", int(address.rsplit(":", 1)[1])) as proxy:
        connect = f"127.0.0.1:{proxy.port}/{chroot}"
        async with session_on(connect, credentials=ALICE, set_acl=True) as alice:
            await alice.multi([Create("/plain", b"1")])
            proxy.cut(by_reset=True)
            await until(lambda: proxy.connections == 2 and alice.connected)
            assert isinstance(await alice.multi([SetData("/plain", b"2", 0)]), MultiDone)
            assert sum(map(opcode(100), proxy.requests)) == 2


# --- concurrency --------------------------------------------------------------------------------------------------


async def test_requests_go_out_in_the_order_of_the_calls(zookeeper_chroot: str) -> None:
    async with session_on(zookeeper_chroot) as session:
        await session.multi([Create("/v", b"")])
        writes = [asyncio.ensure_future(session.multi([SetData("/v", b"%d" % n, n)])) for n in range(200)]
        reading = asyncio.ensure_future(session.read([GetData("/v")]))
        assert all(isinstance(outcome, MultiDone) for outcome in await asyncio.gather(*writes))
        (found,) = await reading
        assert isinstance(found, Data)
        assert found.data == b"199"


async def test_a_cancelled_request_does_no_harm_to_the_others(zookeeper_chroot: str) -> None:
    async with session_on(zookeeper_chroot) as session:
        await session.multi([Create("/v", b"")])
        for _ in range(30):
            doomed = [asyncio.ensure_future(session.read([GetData("/v", watch=True)] * 3)) for _ in range(8)]
            doomed += [asyncio.ensure_future(session.read([GetData("/v")])) for _ in range(8)]
            await asyncio.sleep(0)
            for task in doomed:
                task.cancel()
            (found,) = await asyncio.wait_for(session.read([GetData("/v")]), LIMIT_S)
            assert isinstance(found, Data)
            await asyncio.wait(doomed)
        assert session._places._value == MAX_IN_FLIGHT


async def test_a_listener_that_fails_is_not_taken_for_a_broken_connection(zookeeper_chroot: str) -> None:
    heard: list[WatchFired] = []

    def listener(fired: WatchFired) -> None:
        heard.append(fired)
        raise RuntimeError("a fault of the listener")

    config = ZooKeeperConfig(parse_connect_string(zookeeper_chroot))
    async with open_session(config, listener) as session:
        await session.multi([Create("/v", b"")])
        await session.read([GetData("/v", watch=True)])
        await session.multi([SetData("/v", b"1", 0)])
        assert isinstance(await session.multi([SetData("/v", b"2", 1)]), MultiDone)
        assert len(heard) == 1
        assert session.connected


async def test_five_thousand_watches_that_go_off_do_not_hold_the_session_up(zookeeper_chroot: str) -> None:
    """As when 5,000 topics are deleted by a controller whose every topic is watched."""
    fired: list[WatchFired] = []
    topics = [f"/brokers/topics/topic-{n:04}" for n in range(5000)]
    async with (
        session_on(zookeeper_chroot) as other,
        session_on(zookeeper_chroot, timeout_ms=20_000, fired=fired) as own,
    ):
        await other.ensure_path("/brokers/topics")
        await other.write(MultiPlan([(Create(topic, b"{}"),) for topic in topics], None))
        found = await own.read([GetData(topic, watch=True) for topic in topics])
        assert all(isinstance(outcome, Data) for outcome in found)
        connection_before = own._connection.connection
        answered_at: list[int] = []
        plan = MultiPlan([(Delete(topic),) for topic in topics], None, max_operations=50)
        deleting = asyncio.ensure_future(other.write(plan))
        while len(fired) < len(topics):
            async with asyncio.timeout(LIMIT_S):
                await own.read([Exists("/brokers")])
            answered_at.append(len(fired))
        assert all(isinstance(outcome, GroupDone) for outcome in await deleting)
        assert fired == [WatchFired(WatchKind.DELETED, topic) for topic in topics]
        assert sum(0 < count < len(topics) for count in answered_at) >= 3, "requests are answered in between"
        assert own._connection.connection is connection_before
        assert (own.lost_reason, len(own._connection.watches)) == (None, 0)
