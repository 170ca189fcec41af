"""A client names topics that are not there, and the agent has the controller create them."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.broker.runtime import auto_creation
from lethe.broker.runtime.auto_creation import AutoCreation
from lethe.protocol.kafka.admin import CreatedTopic, CreateTopicsRequest, CreateTopicsResponse
from lethe.protocol.kafka.control import Addressed
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataRequest, MetadataRequestTopic, MetadataResponse
from lethe.protocol.vocabulary import NO_EPOCH, BrokerId
from tests.fakes.agents import agent_config, connected, running
from tests.fakes.listed_controller import listed_controller
from tests.fakes.runtime import reach
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import metadata

NOBODY_KNOWS, COMES = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE


def created(**errors: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(tuple(CreatedTopic(name, error) for name, error in errors.items()))


@pytest.mark.parametrize("enabled,error,asked", [("true", COMES, ["new"]), ("false", NOBODY_KNOWS, [])])
async def test_a_named_topic_is_created_by_the_controller_if_that_is_configured(
    enabled: str, error: int, asked: list[str], tmp_path: Path
) -> None:
    config = agent_config(tmp_path, auto_create_topics_enable=enabled, controlled_shutdown_enable="false")
    async with (
        listed_controller() as controller,
        running(config, FakeZooKeeper().open_session) as app,
        connected(app) as connection,
    ):
        await connection.ask(Addressed(metadata(brokers=(controller.as_broker,)), NO_EPOCH))
        controller.answers.append(created(new=ErrorCode.REQUEST_TIMED_OUT))
        answer = await connection.ask(MetadataRequest((MetadataRequestTopic("t"), MetadataRequestTopic("new"))))
        assert isinstance(answer, MetadataResponse)
        assert [(topic.name, topic.error) for topic in answer.topics] == [("t", 0), ("new", error)]
        requests = [request for _, request in controller.asked if isinstance(request, CreateTopicsRequest)]
        assert [topic.name for request in requests for topic in request.topics] == asked


async def test_a_topic_is_asked_for_once_at_a_time() -> None:
    async with listed_controller() as controller:
        creation = AutoCreation(BrokerId(1), PLAINTEXT_REACH, lambda: controller.endpoint)
        controller.released.clear()
        controller.answers += [created(a=0), created(b=0)]
        first = asyncio.create_task(creation.create(("a",)))
        await reach(lambda: len(controller.asked) == 1)
        assert await creation.create(("a",)) == {"a": NOBODY_KNOWS}
        second = asyncio.create_task(creation.create(("a", "b")))
        controller.released.set()
        assert (await first, await second) == ({"a": COMES}, {"a": NOBODY_KNOWS, "b": COMES})
        asked = [request for _, request in controller.asked if isinstance(request, CreateTopicsRequest)]
        assert [[topic.name for topic in request.topics] for request in asked] == [["a"], ["b"]]
        await creation.close()


async def test_clients_do_not_queue_behind_a_silent_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listed_controller() as controller:
        creation = AutoCreation(BrokerId(1), PLAINTEXT_REACH, lambda: controller.endpoint)
        controller.released.clear()
        controller.answers += [created(a=0), created(c=0)]
        first = asyncio.create_task(creation.create(("a",)))
        await reach(lambda: len(controller.asked) == 1)
        monkeypatch.setattr("lethe.broker.runtime.auto_creation.TIMEOUT_MS", 10)
        assert await creation.create(("b",)) == {"b": NOBODY_KNOWS}
        controller.released.set()
        assert (await first, await creation.create(("c",))) == ({"a": COMES}, {"c": COMES})
        await creation.close()


async def test_without_a_controller_a_client_asks_again() -> None:
    async with listed_controller() as controller:
        nowhere = AutoCreation(BrokerId(1), PLAINTEXT_REACH, lambda: None)
        assert await nowhere.create(("a",)) == {"a": NOBODY_KNOWS}
        creation = AutoCreation(BrokerId(1), PLAINTEXT_REACH, lambda: controller.endpoint)
        assert await creation.create(("a",)) == {"a": NOBODY_KNOWS}
        controller.answers += [created(a=ErrorCode.NOT_CONTROLLER), created(a=0)]
        assert await creation.create(("a",)) == {"a": NOBODY_KNOWS}
        assert await creation.create(("a",)) == {"a": COMES}
        assert len(controller.peers) == 3
        await creation.close()


async def test_what_a_client_asks_again_and_again_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    nowhere = AutoCreation(BrokerId(1), PLAINTEXT_REACH, lambda: None)
    for _ in range(3):
        assert await nowhere.create(("a",)) == {"a": NOBODY_KNOWS}
    async with listed_controller() as controller:
        refused = AutoCreation(BrokerId(1), PLAINTEXT_REACH, lambda: controller.endpoint)
        for _ in range(3):
            controller.answers.append(created(a=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            assert await refused.create(("a",)) == {"a": NOBODY_KNOWS}
        await refused.close()
    beginning = "a, named by a client, cannot be created now: "
    assert [record.getMessage() for record in caplog.records if record.name == auto_creation.__name__] == [
        f"{beginning}the metadata cache names no controller that could be asked",
        f"{beginning}TOPIC_AUTHORIZATION_FAILED for User:ANONYMOUS; grant it Create on topic a",
    ]
