"""`lethe controller-resign`: ends that one tenure, tells who comes after, and leaves KRaft's alone."""

from __future__ import annotations

import asyncio

import pytest

from adapters.topic_admin import active_controller
from cli.answer import Answer, Exit, Refusal
from cli.controller_resign import resignation
from protocol.zookeeper import paths
from protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, elect

NOTHING: dict[str, list[object]] = {"gone": [], "marked": []}


@pytest.fixture
async def tenure(session: FakeSession) -> FakeSession:
    """Broker 1 is the active controller in epoch 7."""
    await apply(session, Create(paths.CONTROLLER_EPOCH, b"7"))
    await elect(session, 1)
    return session


async def test_nobody_to_resign(session: FakeSession) -> None:
    with pytest.raises(Refusal, match="no active controller") as refusal:
        await resignation(session, timeout_ms=1)
    assert refusal.value.exit is Exit.NO


@pytest.mark.parametrize("successor,words", [(2, "Controller 2 was elected."), (1, "Controller 1 was elected again.")])
async def test_the_successor_is_named(tenure: FakeSession, successor: int, words: str) -> None:
    async def succeed() -> None:
        while await active_controller(tenure) is not None:
            await asyncio.sleep(0)
        await apply(tenure, SetData(paths.CONTROLLER_EPOCH, b"8", ANY_VERSION))
        await elect(tenure, successor)

    async def resign() -> Answer:
        return await resignation(tenure, timeout_ms=60_000, poll_ms=1)

    answer, _ = await asyncio.gather(resign(), succeed())
    assert answer.exit is Exit.OK
    assert answer.lines == ("Controller 1 has resigned (epoch 7).", words)
    assert answer.data == {"resigned": {"controller": 1, "epoch": 7}, "successor": successor, "unconfirmed": NOTHING}


async def test_nobody_comes_after(tenure: FakeSession) -> None:
    answer = await resignation(tenure, timeout_ms=1, poll_ms=1)
    assert answer.exit is Exit.TIMED_OUT
    assert answer.data == {"resigned": {"controller": 1, "epoch": 7}, "successor": None, "unconfirmed": NOTHING}
    assert await active_controller(tenure) is None


async def test_a_tenure_that_began_meanwhile_is_not_ended(tenure: FakeSession, zookeeper: FakeZooKeeper) -> None:
    """The next controller's znode has the same data version 0; only the epoch's version tells the two apart."""

    class Slow(FakeSession):
        """Between our reads and our write, another controller is elected."""

        async def multi(self, operations):  # type: ignore[no-untyped-def]
            await apply(tenure, Delete(paths.CONTROLLER), SetData(paths.CONTROLLER_EPOCH, b"8", ANY_VERSION))
            await elect(tenure, 2)
            return await super().multi(operations)

    with pytest.raises(Refusal, match="the controller changed"):
        await resignation(Slow(zookeeper, lambda _: None), timeout_ms=1)
    controller = await active_controller(tenure)
    assert controller is not None
    assert controller.znode.broker_id == 2


async def test_a_kraft_controller_is_left_alone(session: FakeSession) -> None:
    body = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":4}'
    await apply(session, Create(paths.CONTROLLER, body))
    with pytest.raises(Refusal, match="KRaft controller 3000"):
        await resignation(session, timeout_ms=1)
    assert await active_controller(session) is not None
