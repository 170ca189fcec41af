"""How many multis of plans a session leaves unanswered, on a connection whose answers the test gives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from lethe.adapters.zookeeper import wire
from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.connection import Answer, Completion, Dropped
from lethe.adapters.zookeeper.interface import ZooKeeperUnavailable
from lethe.adapters.zookeeper.session import Session, open_session
from lethe.adapters.zookeeper.session_connection import SessionConnection, SessionOver
from lethe.protocol.zookeeper.operations import Delete
from lethe.protocol.zookeeper.packing import GroupUnknown, MultiPlan

LIMIT_S = 60.0
MULTIS_PER_PLAN = 15


class Unanswering(SessionConnection):
    """A connection that takes every request."""

    def __init__(self) -> None:
        super().__init__(ZooKeeperConfig(parse_connect_string("zk")), lambda _: None)
        self.online.set()
        self.unanswered: list[asyncio.Future[Completion]] = []

    def send(
        self, request: wire.Request, on_answer: Callable[[Answer], None] | None = None
    ) -> asyncio.Future[Completion]:
        self.unanswered.append(asyncio.get_running_loop().create_future())
        return self.unanswered[-1]


def plan_of(name: str) -> MultiPlan:
    return MultiPlan([(Delete(f"/{name}/{number}"),) for number in range(MULTIS_PER_PLAN)], None, max_operations=1)


async def test_a_session_that_is_never_open_is_not_called_lost(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    config = ZooKeeperConfig(parse_connect_string("127.0.0.1:1"), connection_timeout_ms=200)
    with pytest.raises(ZooKeeperUnavailable, match=r"no ZooKeeper session within 200 ms \(127\.0\.0\.1:1: "):
        async with open_session(config, lambda _: None):
            pass
    assert "is lost" not in caplog.text


async def test_a_session_that_is_over_before_a_server_is_tried_again_names_none() -> None:
    class Suspended(SessionConnection):
        """Finds itself beyond its timeout when it has lost its connection."""

        async def run(self) -> None:
            self._confirmed_at -= self.timeout_s
            await self._reconnect()

    with pytest.raises(SessionOver, match=r"^out of touch with ZooKeeper for [0-9.]+ s$"):
        await Suspended(ZooKeeperConfig(parse_connect_string("127.0.0.1:1")), lambda _: None).run()


async def test_the_plans_of_a_session_leave_twenty_multis_unanswered_at_most() -> None:
    connection = Unanswering()
    session = Session(connection)
    plans = asyncio.gather(*(session.write(plan_of(name)) for name in "ab"))
    # Both go as far as they can: nothing but an answer makes room.
    await asyncio.sleep(0)
    assert len(connection.unanswered) == session.write_window == 20
    async with asyncio.timeout(LIMIT_S):
        while not plans.done():
            while connection.unanswered:
                connection.unanswered.pop().set_result(Dropped("the connection broke"))
            await asyncio.sleep(0)
    assert plans.result() == [(GroupUnknown("the connection broke"),) * MULTIS_PER_PLAN] * 2
