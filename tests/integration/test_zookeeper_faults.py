"""The adapter against a real ZooKeeper, with a proxy between them that does harm at every stage of a request.

Of every combination: the outcome is right, nothing is applied twice, the session survives, and its watches with it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from lethe.adapters.zookeeper.config import ConnectString, Server, ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.session import MAX_IN_FLIGHT, Session, open_session
from lethe.protocol.zookeeper.operations import (
    Children,
    Create,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MultiDone,
    MultiFailed,
    MultiOutcome,
    MultiUnknown,
    Operation,
    Present,
    SetData,
    Stat,
    WatchFired,
    WatchKind,
)
from tests.fakes.tcp_proxy import Fault, Stage, TcpProxy, opcode
from tests.fakes.zookeeper_cluster import delete_tree

pytestmark = pytest.mark.zookeeper

TIMEOUT_MS = 3_000
LIMIT_S = 60
MULTI, MULTI_READ, GET_DATA, SET_WATCHES = 14, 22, 4, 101


@dataclass
class World:
    """A session through the proxy, and one that nothing happens to."""

    proxy: TcpProxy
    session: Session
    observer: Session
    fired: list[WatchFired]

    async def version(self, path: str = "/v") -> int:
        (found,) = await self.observer.read([Exists(path)])
        assert isinstance(found, Present)
        return found.stat.version


def config_of(connect: str, **changes: int) -> ZooKeeperConfig:
    return ZooKeeperConfig(parse_connect_string(connect), **{"session_timeout_ms": TIMEOUT_MS, **changes})  # type: ignore[arg-type]


@asynccontextmanager
async def world_of(chroot: str, **changes: int) -> AsyncIterator[World]:
    direct = config_of(chroot, session_timeout_ms=10_000)
    (server,) = direct.connect.servers
    async with TcpProxy(server.host, server.port) as proxy:
        harmed = config_of(f"127.0.0.1:{proxy.port}{direct.connect.chroot}", **changes)
        fired: list[WatchFired] = []
        async with open_session(direct, lambda _: None) as observer, open_session(harmed, fired.append) as session:
            yield World(proxy, session, observer, fired)


@pytest.fixture
async def world(zookeeper_chroot: str) -> AsyncIterator[World]:
    async with world_of(zookeeper_chroot) as world:
        await world.observer.multi([Create("/v", b"0"), Create("/w", b"0")])
        yield world


async def until(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Gives the loop time until the condition holds."""
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.005)


HARMFUL = [fault for fault in Fault if fault not in (Fault.REWRITE, Fault.DELAY)]
SENT = (Stage.BEFORE_REPLY, Stage.IN_REPLY)


@pytest.mark.parametrize("fault", HARMFUL, ids=lambda fault: fault.name)
@pytest.mark.parametrize("stage", Stage, ids=lambda stage: stage.name)
async def test_a_multi_is_applied_at_most_once_and_known_or_unknown(world: World, stage: Stage, fault: Fault) -> None:
    session_id = world.session.session_id
    await world.session.read([GetData("/w", watch=True)])
    world.proxy.harm(stage, fault, when=opcode(MULTI))
    outcome = await asyncio.wait_for(world.session.multi([SetData("/v", b"1", -1)]), LIMIT_S)
    await world.proxy.harmed(1)
    version = await world.version()
    match outcome:
        case MultiUnknown(reason):
            assert reason
            assert version == (1 if stage in SENT else 0)
        case MultiFailed():
            # The server understood that it did not understand.
            assert (stage in SENT, version) == (False, 0)
        case MultiDone():
            pytest.fail("the reply cannot have arrived")

    again = await asyncio.wait_for(world.session.multi([SetData("/v", b"2", version)]), LIMIT_S)
    assert isinstance(again, MultiDone)
    assert await world.version() == version + 1
    assert (world.session.session_id, world.session.lost_reason) == (session_id, None)
    await world.observer.multi([SetData("/w", b"1", 0)])
    await until(lambda: bool(world.fired))
    await world.session.read([GetData("/w")])
    assert world.fired == [WatchFired(WatchKind.DATA_CHANGED, "/w")]


@pytest.mark.parametrize("fault", HARMFUL, ids=lambda fault: fault.name)
@pytest.mark.parametrize("stage", Stage, ids=lambda stage: stage.name)
async def test_a_read_is_answered_all_the_same(world: World, stage: Stage, fault: Fault) -> None:
    session_id = world.session.session_id
    world.proxy.harm(stage, fault, when=opcode(MULTI_READ))
    world.proxy.harm(stage, fault, when=opcode(GET_DATA))
    reads = [GetData("/v"), GetData("/w"), GetData("/w", watch=True), GetData("/v", watch=True)]
    found = await asyncio.wait_for(world.session.read(reads), LIMIT_S)
    if fault is Fault.CORRUPT and stage is Stage.IN_REPLY:
        # Nothing in the protocol could show that the end of an answer is not what was sent.
        assert len(found) == len(reads)
    elif fault in (Fault.CORRUPT, Fault.TRUNCATE) and stage is Stage.IN_REQUEST:
        # The server got another request than was sent, and has answered that.
        assert len(found) == len(reads)
    else:
        assert [outcome.data for outcome in found if isinstance(outcome, Data)] == [b"0"] * 4
    assert (world.session.session_id, world.session.lost_reason) == (session_id, None)

    await world.session.read([GetData("/w", watch=True), GetData("/v", watch=True)])
    await world.observer.multi([SetData("/w", b"1", 0)])
    await until(lambda: bool(world.fired))
    await world.session.read([GetData("/w")])
    assert world.fired == [WatchFired(WatchKind.DATA_CHANGED, "/w")]


BULK = [f"/b{n:02}" for n in range(20)]


@pytest.mark.parametrize("fault", [f for f in HARMFUL if f is not Fault.CORRUPT], ids=lambda fault: fault.name)
@pytest.mark.parametrize("stage", Stage, ids=lambda stage: stage.name)
async def test_watches_set_together_are_armed_all_the_same(world: World, stage: Stage, fault: Fault) -> None:
    """With what changes before they are armed, on whichever connection that is."""
    await world.observer.multi([Create(path, b"0") for path in BULK])
    world.proxy.harm(Stage.BEFORE_REQUEST, Fault.DELAY, when=opcode(SET_WATCHES))
    reading = asyncio.ensure_future(world.session.read([GetData(path, watch=True) for path in BULK]))
    await world.proxy.harmed(1)
    await world.observer.multi([SetData(BULK[3], b"1", 0), Delete(BULK[5])])
    world.proxy.harm(stage, fault, when=opcode(SET_WATCHES))
    world.proxy.cut()
    found = await asyncio.wait_for(reading, LIMIT_S)
    await world.proxy.harmed(2)
    expected = [b"0"] * 20
    if world.session._sizer.arms_watches:
        assert [outcome.data for outcome in found if isinstance(outcome, Data)] == expected
        told = [WatchFired(WatchKind.DATA_CHANGED, BULK[3]), WatchFired(WatchKind.DELETED, BULK[5])]
        assert world.fired == told
    else:
        # The server understood that it did not understand: read again one by one, after the change.
        assert (stage, fault) in ((Stage.IN_REQUEST, Fault.TRUNCATE), (Stage.BEFORE_REQUEST, Fault.TRUNCATE))
        expected[3] = b"1"
        assert [outcome.data for outcome in found if isinstance(outcome, Data)] == expected[:5] + expected[6:]
    world.fired.clear()
    await world.observer.multi([SetData(path, b"2", -1) for path in BULK if path not in (BULK[3], BULK[5])])
    await world.session.read([GetData("/v")])
    assert world.fired == [WatchFired(WatchKind.DATA_CHANGED, path) for path in BULK if path not in (BULK[3], BULK[5])]
    assert world.session.lost_reason is None


async def test_watches_set_together_are_set_again_after_a_reconnect(world: World) -> None:
    await world.observer.multi([Create(path, b"0") for path in BULK])
    await world.session.read([GetData(path, watch=True) for path in BULK])
    assert sum(map(opcode(SET_WATCHES), world.proxy.requests)) == 1
    assert sum(map(opcode(GET_DATA), world.proxy.requests)) == 0
    world.proxy.refuse()
    await until(lambda: not world.session.connected)
    await world.observer.multi([SetData(BULK[3], b"1", 0), Delete(BULK[5])])
    world.proxy.accept()
    await world.session.read([GetData("/v")])
    assert world.fired == [WatchFired(WatchKind.DATA_CHANGED, BULK[3]), WatchFired(WatchKind.DELETED, BULK[5])]


@pytest.mark.parametrize("stage", Stage, ids=lambda stage: stage.name)
async def test_a_delayed_request_is_merely_late(world: World, stage: Stage) -> None:
    world.proxy.harm(stage, Fault.DELAY, when=opcode(MULTI))
    pending = asyncio.ensure_future(world.session.multi([SetData("/v", b"1", 0)]))
    await world.proxy.harmed(1)
    assert not pending.done()
    world.proxy.release()
    assert isinstance(await pending, MultiDone)
    assert (await world.version(), world.proxy.connections) == (1, 1)


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.CLOSE], ids=lambda fault: fault.name)
async def test_of_pipelined_multis_each_is_applied_at_most_once(world: World, fault: Fault) -> None:
    seen = 0

    def tenth(request: bytes) -> bool:
        nonlocal seen
        seen += opcode(MULTI)(request)
        return seen == 10

    world.proxy.harm(Stage.BEFORE_REPLY, fault, when=tenth)
    multis: list[list[Operation]] = [[Create(f"/n{n}", None), SetData("/v", b"%d" % n, -1)] for n in range(30)]
    outcomes = await asyncio.wait_for(world.session.multis(multis), LIMIT_S)
    (children,) = await world.observer.read([GetChildren("/")])
    assert isinstance(children, Children)
    present = set(children.names)
    unknown = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, MultiUnknown)]
    assert 9 in unknown
    assert len(unknown) <= MAX_IN_FLIGHT
    for n, outcome in enumerate(outcomes):
        assert not isinstance(outcome, MultiFailed), "created twice"
        assert isinstance(outcome, MultiUnknown) or f"n{n}" in present
    assert await world.version() == sum(f"n{n}" in present for n in range(30))


@pytest.mark.parametrize("reset", [True, False], ids=["RST", "FIN"])
async def test_a_broken_connection_is_noticed_at_once(zookeeper_chroot: str, reset: bool) -> None:
    """At once: long before the third of the timeout after which a ping would tell."""
    clock = asyncio.get_running_loop().time
    async with world_of(zookeeper_chroot, session_timeout_ms=24_000) as world:
        await world.observer.multi([Create("/v", b"0")])
        await world.session.read([GetData("/v", watch=True)])
        began = clock()
        world.proxy.cut(by_reset=reset)
        await until(lambda: world.proxy.connections == 2 and world.session.connected)
        assert clock() - began < world.session.negotiated_timeout_ms / 1000 / 3 == 8
        assert isinstance(await world.session.multi([SetData("/v", b"1", 0)]), MultiDone)
        await until(lambda: world.fired == [WatchFired(WatchKind.DATA_CHANGED, "/v")])


async def test_what_changed_while_the_connection_was_away_is_told_once(world: World) -> None:
    await world.observer.multi([Create("/gone", None), Create("/parent", None), Create("/still", None)])
    await world.session.read(
        [
            GetData("/v", watch=True),
            GetData("/still", watch=True),
            GetData("/gone", watch=True),
            GetChildren("/gone", watch=True),
            GetChildren("/parent", watch=True),
            Exists("/new", watch=True),
            Exists("/never", watch=True),
        ]
    )
    world.proxy.refuse()
    await until(lambda: not world.session.connected)
    await world.observer.multi([SetData("/v", b"1", 0), Create("/new", None), Create("/parent/x", None)])
    await delete_tree(world.observer, "/gone")
    world.proxy.accept()
    await world.session.read([GetData("/v")])
    assert sorted(world.fired, key=lambda fired: fired.path) == [
        WatchFired(WatchKind.DELETED, "/gone"),
        WatchFired(WatchKind.CREATED, "/new"),
        WatchFired(WatchKind.CHILDREN_CHANGED, "/parent"),
        WatchFired(WatchKind.DATA_CHANGED, "/v"),
    ]
    world.fired.clear()
    await world.observer.multi([SetData("/still", b"1", 0), Create("/never", None), SetData("/v", b"2", 1)])
    await world.session.read([GetData("/v")])
    assert world.fired == [WatchFired(WatchKind.DATA_CHANGED, "/still"), WatchFired(WatchKind.CREATED, "/never")]


async def test_thousands_of_watches_are_set_again_in_requests_that_zookeeper_takes(zookeeper_chroot: str) -> None:
    async with world_of(zookeeper_chroot, session_timeout_ms=10_000) as world:
        names = [f"/{n:04}-{'x' * 200}" for n in range(6000)]
        for at in range(0, len(names), 1000):
            await world.observer.multi([Create(name, None) for name in names[at : at + 1000]])
        await world.session.read([GetData(name, watch=True) for name in names])
        world.proxy.cut()
        await until(lambda: world.proxy.connections == 2 and world.session.connected)
        armed = [request for request in world.proxy.requests if opcode(SET_WATCHES)(request)]
        assert len(armed) > 5
        assert max(map(len, armed)) < 256 * 1024
        await world.observer.multi([SetData(names[0], b"1", 0), SetData(names[-1], b"1", 0)])
        await world.session.read([GetData(names[0])])
        assert [fired.path for fired in world.fired] == [names[0], names[-1]]


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.CORRUPT], ids=lambda fault: fault.name)
async def test_harm_while_watches_are_set_again_is_overcome(world: World, fault: Fault) -> None:
    await world.session.read([GetData("/v", watch=True)])
    stages = [stage for stage in Stage if fault is Fault.RESET or stage is Stage.BEFORE_REPLY]
    for stage in stages:
        world.proxy.harm(stage, fault, when=opcode(SET_WATCHES))
    world.proxy.cut()
    await world.proxy.harmed(len(stages))
    await world.observer.multi([SetData("/v", b"1", 0)])
    await until(lambda: world.fired == [WatchFired(WatchKind.DATA_CHANGED, "/v")])
    assert world.session.lost_reason is None


async def test_without_its_watches_a_session_is_lost(world: World) -> None:
    """A session that would never hear of changes again is worse than none."""
    await world.session.read([GetData("/v", watch=True)])
    world.proxy.harm(Stage.IN_REQUEST, Fault.TRUNCATE, when=opcode(SET_WATCHES))
    world.proxy.cut()
    await asyncio.wait_for(world.session.lost.wait(), LIMIT_S)
    assert world.session.lost_reason == "the server refuses the watches: MARSHALLING"


async def test_nonsense_is_answered_with_a_pause(world: World) -> None:
    """Each unparsable answer costs a connection; the pauses between them double."""
    clock = asyncio.get_running_loop().time
    for _ in range(4):
        world.proxy.harm(Stage.BEFORE_REPLY, Fault.CORRUPT, when=opcode(GET_DATA))
    began = clock()
    (found,) = await asyncio.wait_for(world.session.read([GetData("/v", watch=True)]), LIMIT_S)
    assert isinstance(found, Data)
    assert world.proxy.connections == 5
    assert clock() - began > 0.05 + 0.1 + 0.2


async def test_a_server_without_multi_read_is_asked_one_by_one(world: World) -> None:
    """As ZooKeeper 3.5 and older: an unknown type is UNIMPLEMENTED, and the connection is closed."""
    session_id = world.session.session_id

    def unknown(request: bytes) -> bytes:
        return request[:4] + (77).to_bytes(4, "big") + request[8:]

    world.proxy.harm(Stage.BEFORE_REQUEST, Fault.REWRITE, when=opcode(MULTI_READ), rewrite=unknown)
    found = await asyncio.wait_for(world.session.read([GetData("/v"), GetData("/w"), GetChildren("/")]), LIMIT_S)
    assert [type(outcome).__name__ for outcome in found] == ["Data", "Data", "Children"]
    await world.session.read([GetData("/v")])
    assert sum(map(opcode(MULTI_READ), world.proxy.requests)) == 1
    assert world.session.session_id == session_id


async def test_the_session_moves_to_another_server_when_one_goes_away(zookeeper_chroot: str) -> None:
    direct = config_of(zookeeper_chroot)
    (server,) = direct.connect.servers
    async with TcpProxy(server.host, server.port) as first, TcpProxy(server.host, server.port) as second:
        servers = (Server("127.0.0.1", first.port), Server("127.0.0.1", second.port))
        config = ZooKeeperConfig(ConnectString(servers, direct.connect.chroot), session_timeout_ms=TIMEOUT_MS)
        async with open_session(config, lambda _: None) as session:
            created = await session.multi([Create("/e", b"1", ephemeral=True)])
            assert isinstance(created, MultiDone)
            session_id = session.session_id
            first.refuse()
            (found,) = await session.read([GetData("/e")])
            assert isinstance(found, Data)
            assert isinstance(found.stat, Stat)
            assert found.stat.ephemeral_owner == session_id == session.session_id
            assert second.connections == 1
            first.accept()
            second.refuse()
            await until(lambda: first.connections == 2 and session.connected)
            assert isinstance(await session.multi([SetData("/e", b"2", 0)]), MultiDone)
            assert session.lost_reason is None


@pytest.mark.parametrize("seed", range(3))
async def test_under_random_harm_the_books_balance(world: World, seed: int) -> None:
    """Two hundred writes and as many watched reads while connections break at random stages: what is said to be done is
    there, what is said to have failed is not, and each write was applied once at most."""
    source = random.Random(seed)
    faults = (Fault.RESET, Fault.CLOSE)
    for _ in range(12):
        number = source.randrange(1, 250)
        world.proxy.harm(source.choice(list(Stage)), source.choice(faults), when=_countdown(number))
    outcomes: dict[int, MultiOutcome] = {}

    async def write(numbers: range) -> None:
        for n in numbers:
            outcomes[n] = await world.session.multi([Create(f"/n{n}", None), SetData("/v", b"%d" % n, -1)])

    async def look() -> None:
        for _ in range(100):
            (found,) = await world.session.read([GetData("/v", watch=True)])
            assert isinstance(found, Data)
            await asyncio.sleep(0)

    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        for start in range(0, 200, 50):
            group.create_task(write(range(start, start + 50)))
        for _ in range(2):
            group.create_task(look())
    (children,) = await world.observer.read([GetChildren("/")])
    assert isinstance(children, Children)
    for n, outcome in outcomes.items():
        assert not isinstance(outcome, MultiFailed), "created twice"
        assert isinstance(outcome, MultiUnknown) or f"n{n}" in children.names
    assert await world.version() == sum(name.startswith("n") for name in children.names)
    assert any(isinstance(outcome, MultiUnknown) for outcome in outcomes.values())
    assert world.session.lost_reason is None


def _countdown(number: int) -> Callable[[bytes], bool]:
    """True for the request of that number, counted from now."""
    left = number

    def reached(_: bytes) -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    return reached
