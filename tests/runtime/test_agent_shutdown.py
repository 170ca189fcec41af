"""An agent that is asked to stop: it has its leaderships moved first, and serves meanwhile."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.broker.runtime.app import AgentApp, ExitCode
from lethe.broker.runtime.configuration import BrokerConfig, ControlledShutdownConfig
from lethe.broker.runtime.controlled_shutdown import leave_in_order
from lethe.protocol.kafka.control import Addressed
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import ControlledShutdownRequest, ControlledShutdownResponse, RemainingPartition
from lethe.protocol.vocabulary import Broker, ControllerEpoch
from lethe.protocol.zookeeper.paths import broker_id
from tests.fakes.agents import agent_config, connected, note_controller_epoch
from tests.fakes.listed_controller import listed_controller
from tests.fakes.runtime import reach
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import ME, Driver, become, live, metadata, stop

LET_GO = ControlledShutdownResponse(ErrorCode.NONE)
NOT_YET = ControlledShutdownResponse(ErrorCode.NONE, (RemainingPartition("t", 0), RemainingPartition("t", 1)))


class Pauses:
    """Does not wait, and notes for how long it was to."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def knowing(*brokers: Broker) -> Driver:
    driver = Driver()
    driver.update(metadata(brokers=brokers))
    return driver


CONFIG = ControlledShutdownConfig(True, 3, 5_000)


async def test_it_goes_when_the_controller_lets_it_go() -> None:
    async with listed_controller() as controller:
        controller.answers.append(LET_GO)
        driver = knowing(controller.as_broker)
        assert await leave_in_order(driver.state, CONFIG, PLAINTEXT_REACH, Pauses())
        ((header, request),) = controller.asked
        assert (header.version, header.client_id) == (3, "1")
        assert request == ControlledShutdownRequest(ME, driver.state.broker_epoch)


async def test_it_asks_again_while_partitions_remain_or_the_controller_refuses() -> None:
    async with listed_controller() as controller:
        controller.answers += [NOT_YET, ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH), LET_GO]
        pauses = Pauses()
        assert await leave_in_order(knowing(controller.as_broker).state, CONFIG, PLAINTEXT_REACH, pauses)
        assert pauses.seconds == [5.0, 5.0]
        assert len(controller.peers) == 1, "the connection is kept"


async def test_it_goes_anyway_after_the_last_try(caplog: pytest.LogCaptureFixture) -> None:
    async with listed_controller() as controller:
        controller.answers += [NOT_YET] * 9
        pauses = Pauses()
        assert not await leave_in_order(knowing(controller.as_broker).state, CONFIG, PLAINTEXT_REACH, pauses)
        assert (len(controller.asked), len(pauses.seconds)) == (3, 2)
    assert "2 partitions have no other leader yet: t-0, t-1" in caplog.text


async def test_a_controller_that_refuses_the_right_is_logged_with_the_user_and_the_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listed_controller() as controller:
        controller.answers += [ControlledShutdownResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)] * 3
        assert not await leave_in_order(knowing(controller.as_broker).state, CONFIG, PLAINTEXT_REACH, Pauses())
    said = "CLUSTER_AUTHORIZATION_FAILED for User:ANONYMOUS; grant it ClusterAction on the cluster; 2 tries are left"
    assert f"controlled shutdown: the controller answered {said}" in caplog.text


async def test_a_broken_connection_is_made_anew() -> None:
    async with listed_controller() as controller:
        driver = knowing(controller.as_broker)
        pauses = Pauses()

        async def answer_from_now_on(seconds: float) -> None:
            await pauses(seconds)
            controller.answers.append(LET_GO)

        assert await leave_in_order(driver.state, CONFIG, PLAINTEXT_REACH, answer_from_now_on)
        assert len(controller.peers) == 2


async def test_it_follows_the_controller_to_another_place() -> None:
    async with listed_controller() as first, listed_controller() as second:
        first.answers.append(NOT_YET)
        second.answers.append(LET_GO)
        driver = knowing(first.as_broker)

        async def move(seconds: float) -> None:
            driver.controller_epoch = ControllerEpoch(6)
            driver.update(metadata(brokers=(second.as_broker,), controller_epoch=6))

        assert await leave_in_order(driver.state, CONFIG, PLAINTEXT_REACH, move)
        assert (len(first.asked), len(second.asked)) == (1, 1)


async def test_where_no_controller_is_known_it_goes_at_once(caplog: pytest.LogCaptureFixture) -> None:
    pauses = Pauses()
    assert not await leave_in_order(knowing(*live(1, 2)).state, CONFIG, PLAINTEXT_REACH, pauses)
    assert pauses.seconds == []
    assert "no controller that could be asked" in caplog.text


# --- the whole agent ----------------------------------------------------------------------------------------------


async def started(
    config: BrokerConfig, zookeeper: FakeZooKeeper, tasks: asyncio.TaskGroup
) -> tuple[AgentApp, asyncio.Task[int]]:
    await note_controller_epoch(zookeeper.open_session)
    app = AgentApp(config, zookeeper.open_session)
    run = tasks.create_task(app.run())
    await asyncio.wait_for(app.started.wait(), 30)
    return app, run


async def test_until_it_is_let_go_it_is_registered_and_serves(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    async with listed_controller() as controller, asyncio.TaskGroup() as tasks:
        app, run = await started(agent_config(tmp_path), zookeeper, tasks)
        controller.answers.append(LET_GO)
        controller.released.clear()
        async with connected(app) as connection:
            epoch = app.loop.state.broker_epoch
            await connection.ask(Addressed(become(is_new=True), epoch))
            await connection.ask(Addressed(metadata(brokers=(controller.as_broker,)), epoch))
            app.stop("it is time")
            await reach(lambda: controller.asked)
            answer = await connection.ask(Addressed(stop(), epoch))
            assert [row.error for row in answer.rows] == [ErrorCode.NONE]  # type: ignore[union-attr]
            assert zookeeper.model.node(broker_id(1)) is not None
            assert not run.done()
        controller.released.set()
        assert await asyncio.wait_for(run, 30) == ExitCode.STOPPED
        assert controller.asked[0][1] == ControlledShutdownRequest(ME, epoch)
    assert zookeeper.model.node(broker_id(1)) is None


@pytest.mark.parametrize("code", [ExitCode.STOPPED, ExitCode.FAULT])
async def test_asked_twice_it_does_not_wait(tmp_path: Path, code: ExitCode, caplog: pytest.LogCaptureFixture) -> None:
    async with listed_controller() as controller, asyncio.TaskGroup() as tasks:
        app, run = await started(agent_config(tmp_path), FakeZooKeeper(), tasks)
        controller.released.clear()
        async with connected(app) as connection:
            brokers = (controller.as_broker,)
            await connection.ask(Addressed(metadata(brokers=brokers), app.loop.state.broker_epoch))
        app.stop("it is time")
        await reach(lambda: controller.asked)
        app.stop("at once", code)
        assert await asyncio.wait_for(run, 30) == code
        controller.released.set()


async def test_it_can_be_switched_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with listed_controller() as controller, asyncio.TaskGroup() as tasks:
        config = agent_config(tmp_path, controlled_shutdown_enable="false")
        app, run = await started(config, FakeZooKeeper(), tasks)
        async with connected(app) as connection:
            brokers = (controller.as_broker,)
            await connection.ask(Addressed(metadata(brokers=brokers), app.loop.state.broker_epoch))
        app.stop("it is time")
        assert await asyncio.wait_for(run, 30) == ExitCode.STOPPED
        assert controller.asked == []
