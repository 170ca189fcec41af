"""`lethe controller-resign`: ends that one term, tells who comes after, and leaves KRaft's alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_znodes import active_controller
from lethe.cli.answer import Answer
from lethe.cli.controller_resign import resignation
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from lethe.protocol.zookeeper.znodes import ControllerZnode, encode_controller
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, elect

NOTHING: dict[str, list[object]] = {"gone": [], "marked": [], "ghosts": [], "missed": []}
TOLD = {"unconfirmed": NOTHING, "unseen": None}


@pytest.fixture
async def term(session: FakeSession) -> FakeSession:
    """Broker 1 is the active controller in epoch 7."""
    await apply(session, Create(paths.CONTROLLER_EPOCH, b"7"))
    await elect(session, 1)
    return session


async def test_nobody_to_resign(session: FakeSession) -> None:
    with pytest.raises(Refusal, match="no active controller") as refusal:
        await resignation(session, timeout_ms=1)
    assert refusal.value.exit is Exit.NO


@pytest.mark.parametrize("successor,words", [(2, "Controller 2 was elected."), (1, "Controller 1 was elected again.")])
async def test_the_successor_is_named(term: FakeSession, successor: int, words: str) -> None:
    async def succeed() -> None:
        while await active_controller(term) is not None:
            await asyncio.sleep(0)
        await apply(term, SetData(paths.CONTROLLER_EPOCH, b"8", ANY_VERSION))
        await elect(term, successor)

    async def resign() -> Answer:
        return await resignation(term, timeout_ms=60_000, poll_ms=1)

    answer, _ = await asyncio.gather(resign(), succeed())
    assert answer.exit is Exit.OK
    assert answer.lines == ("Controller 1 has resigned (epoch 7).", words)
    assert answer.data == {"resigned": {"controller": 1, "epoch": 7}, "successor": successor, **TOLD}


async def test_nobody_comes_after(term: FakeSession) -> None:
    answer = await resignation(term, timeout_ms=1, poll_ms=1)
    assert answer.exit is Exit.TIMED_OUT
    assert answer.data == {"resigned": {"controller": 1, "epoch": 7}, "successor": None, **TOLD}
    assert await active_controller(term) is None


async def test_a_tenure_that_began_meanwhile_is_not_ended(term: FakeSession, zookeeper: FakeZooKeeper) -> None:
    """The next controller's znode has the same data version 0; only the epoch's version tells the two apart."""

    class Slow(FakeSession):
        """Between our reads and our write, another controller is elected."""

        async def multi(self, operations):  # type: ignore[no-untyped-def]
            await apply(term, Delete(paths.CONTROLLER), SetData(paths.CONTROLLER_EPOCH, b"8", ANY_VERSION))
            await elect(term, 2)
            return await super().multi(operations)

    with pytest.raises(Refusal, match="the controller changed"):
        await resignation(Slow(zookeeper, lambda _: None), timeout_ms=1)
    controller = await active_controller(term)
    assert controller is not None
    assert controller.znode.broker_id == 2


async def test_a_kraft_controller_is_left_alone(session: FakeSession) -> None:
    body = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":4}'
    await apply(session, Create(paths.CONTROLLER, body))
    with pytest.raises(Refusal, match="KRaft controller 3000"):
        await resignation(session, timeout_ms=1)
    assert await active_controller(session) is not None


OWED_BY_3 = b'{"owed": [{"broker": 3, "topic_count": 1, "topics": ["orders"]}], "topics": []}'


@asynccontextmanager
async def port(*answers: bytes | None) -> AsyncIterator[str]:
    """The URL of a port that answers so, the last one again and again; None: it says nothing until the end."""
    left, over = list(answers), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            body = left.pop(0) if len(left) > 1 else left[0]
            if body is None:
                await over.wait()
            else:
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        host, number = server.sockets[0].getsockname()
        yield f"http://{host}:{number}"
    finally:
        over.set()
        server.close()
        await server.wait_closed()


async def resigned(session: FakeSession, url: str, grace_ms: int, *, successor_admin: str | None = None) -> Answer:
    """Controller 1, whose HTTP port is there, is made to resign; 2 comes after, of Kafka or (with a port) of Lethe."""
    await apply(session, Create(paths.CONTROLLER_EPOCH, b"7"))
    znode = ControllerZnode(BrokerId(1), 7, admin=url)
    await apply(session, Create(paths.CONTROLLER, encode_controller(znode), ephemeral=True))

    async def succeed() -> None:
        while await active_controller(session) is not None:
            await asyncio.sleep(0.001)
        await elect(session, 2, admin=successor_admin)

    answer, _ = await asyncio.gather(resignation(session, timeout_ms=60_000, poll_ms=1, grace_ms=grace_ms), succeed())
    return answer


def says_that_it_is_unknown(answer: Answer, why: str) -> None:
    assert answer.exit is Exit.UNREACHABLE
    assert isinstance(answer.data, dict)
    assert answer.data["unconfirmed"] is None, "an empty list would say that nothing is owed"
    assert why in str(answer.data["unseen"])
    assert answer.lines[1] == "Controller 2 was elected."
    assert answer.lines[2].startswith("It is unknown whether brokers have confirmed")
    assert why in answer.lines[2]


@pytest.mark.parametrize("grace_ms", [0, 20])
async def test_what_is_owed_is_unknown_where_nobody_listens(session: FakeSession, grace_ms: int) -> None:
    async with port(b"") as url:
        pass
    says_that_it_is_unknown(await resigned(session, url, grace_ms), "cannot be asked")


@pytest.mark.parametrize(
    "answered,why",
    [
        (None, "did not answer within"),
        (b"not JSON", "cannot be asked"),
        (b"[]", "something else than was asked"),
        (b'{"topics": []}', "does not say what brokers owe"),
        (b'{"owed": null, "topics": []}', "does not say what brokers owe"),
    ],
    ids=["silence", "noise", "no object", "nothing said of it", "null"],
)
async def test_what_is_owed_is_unknown_where_the_controller_does_not_say_it(
    session: FakeSession, answered: bytes | None, why: str
) -> None:
    async with port(answered) as url:
        says_that_it_is_unknown(await resigned(session, url, 0), why)


async def test_the_controller_is_asked_again_within_the_grace(session: FakeSession) -> None:
    async with port(b"not JSON", b'{"owed": [], "topics": []}') as url:
        answer = await resigned(session, url, 60_000)
    assert (answer.exit, len(answer.lines)) == (Exit.OK, 2)
    assert isinstance(answer.data, dict)
    assert (answer.data["unconfirmed"], answer.data["unseen"]) == (NOTHING, None)


async def test_a_controller_that_falls_silent_has_said_what_is_owed(session: FakeSession) -> None:
    async with port(OWED_BY_3, b"not JSON") as url:
        answer = await resigned(session, url, 20)
    assert answer.exit is Exit.NO
    assert isinstance(answer.data, dict)
    assert answer.data["unconfirmed"] == NOTHING | {"gone": [{"broker": 3, "topics": ["orders"]}]}
    assert "Broker 3 has not confirmed that its metadata cache has dropped topic orders" in answer.lines[2]


MISSED_BY_4 = (
    b'{"owed": [], "topics": [], "unproven": {"gone": [{"broker": 5, "topics": ["paid"]}],'
    b' "ghosts": [{"broker": 2, "topics": ["old"]}], "missed": [{"broker": 4, "topics": ["orders"]}]}}'
)


async def test_what_brokers_that_are_away_may_still_show_is_said(session: FakeSession) -> None:
    async with port(MISSED_BY_4) as url:
        answer = await resigned(session, url, 0)
    assert answer.exit is Exit.NO
    owed, ghost, missed = answer.lines[2:]
    assert owed.startswith("Broker 5 has not confirmed that its metadata cache has dropped topic paid")
    assert ghost.startswith("The metadata cache of broker 2 still shows topic old")
    assert missed.startswith("It is unknown whether the metadata cache of broker 4 still shows topic orders")


async def test_a_successor_of_lethe_looks_at_the_caches_itself(session: FakeSession) -> None:
    async with port(MISSED_BY_4) as url:
        answer = await resigned(session, url, 0, successor_admin="http://127.0.0.1:1")
    assert [line.split(" has not")[0] for line in answer.lines[2:]] == ["Broker 5"]


async def test_what_it_began_to_owe_meanwhile_is_said_and_not_waited_for(session: FakeSession) -> None:
    meanwhile = b'{"owed": [{"broker": 4, "topic_count": 1, "topics": ["paid"]}], "topics": []}'
    async with port(OWED_BY_3, meanwhile) as url:
        answer = await resigned(session, url, 600_000)
    assert isinstance(answer.data, dict)
    assert answer.data["unconfirmed"] == NOTHING | {"gone": [{"broker": 4, "topics": ["paid"]}]}
