"""An agent alters configurations for clients: what they are answered, and what ZooKeeper has then; it is a fake."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from functools import partial

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.broker.core.config_alteration import alterer
from lethe.broker.core.config_queries import BrokerProperty, OwnSettings
from lethe.broker.core.metadata_cache import MetadataCache
from lethe.broker.runtime.stored_configs import StoredConfigs
from lethe.protocol.kafka.admin_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterableResource,
    AlterConfigsRequest,
    AlterOperation,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.config_synonyms import ConfigType
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.security.acls import CLUSTER_NAME, Operation, ResourceType
from lethe.protocol.security.authorizer import Client, Sender
from lethe.protocol.security.principals import ANONYMOUS
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper.operations import Create, Delete, SetData
from lethe.protocol.zookeeper.operations import Operation as Write
from lethe.protocol.zookeeper.packing import GroupOutcome, MultiPlan
from lethe.protocol.zookeeper.znodes import decode_config, encode_config
from tests.fakes.agents import ignore_watch
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.scenarios.clients import ann
from tests.unit.broker.core.driver import metadata

OWN, ALL_BROKERS, OF_T = "/config/brokers/1", "/config/brokers/<default>", "/config/topics/t"
RATE = "lethe.delete.files.per.second"
THROTTLE = "follower.replication.throttled.rate"
SETTINGS = OwnSettings(BrokerId(1), (BrokerProperty("log.cleaner.max.compaction.lag.ms", ConfigType.LONG, None, "50"),))
ANYONE = Sender(Client(ANONYMOUS, "127.0.0.1"))
RETENTION = AlterableConfig("retention.ms", "7")
Row = tuple[str, str, str | None]
Request = AlterConfigsRequest | IncrementalAlterConfigsRequest


class Busy(FakeSession):
    """Before each of its writes others write these; the last of them again and again."""

    others: tuple[tuple[Write, ...], ...] = ()

    async def write(self, plan: MultiPlan) -> tuple[GroupOutcome, ...]:
        if self.others:
            await self.multi(self.others[0])
            self.others = self.others[1:] or self.others
        return await super().write(plan)


class Scene:
    """An agent with topic `t`, and its ZooKeeper."""

    def __init__(self, zookeeper: FakeZooKeeper) -> None:
        self.session = Busy(zookeeper, ignore_watch)
        self._model = zookeeper.model
        self.is_connected = True
        self.stored = StoredConfigs(self._present, SETTINGS)
        self._cache = MetadataCache()
        self._cache.apply(metadata())

    def _present(self) -> ZooKeeperSession | None:
        return self.session if self.is_connected else None

    async def ask(self, request: Request, sender: Sender = ANYONE) -> list[Row]:
        by = partial(alterer, self._cache, SETTINGS, sender)
        answer = await self.stored.alter(request, by, client=sender.client.principal)
        return [(row.name, ErrorCode(row.error).name, row.message) for row in answer.resources]

    async def alter(self, *resources: AlterableResource, **more: bool) -> list[Row]:
        return await self.ask(IncrementalAlterConfigsRequest(resources, **more))

    def data(self, path: str) -> bytes | None:
        found = self._model.node(path)
        return None if found is None else found.data

    def config(self, path: str) -> dict[str, str] | None:
        found = self.data(path)
        return None if found is None else decode_config(path, found)

    async def write(self, path: str, data: bytes) -> None:
        await self.session.multi([Create(path, data)])

    def notified(self) -> list[str]:
        """Whose configurations have changed, oldest first."""
        names = sorted(self._model.children("/config/changes"))
        return [json.loads(self.data(f"/config/changes/{name}") or b"")["entity_path"] for name in names]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    agent = Scene(FakeZooKeeper())
    for path in ("/config/topics", "/config/brokers", "/config/changes", "/brokers/topics/t"):
        await agent.session.ensure_path(path)
    yield agent
    await agent.session.close()


def broker(*configs: AlterableConfig, name: str = "1") -> AlterableResource:
    return AlterableResource(BROKER_RESOURCE, name, configs)


def of_topic(*configs: AlterableConfig, name: str = "t") -> AlterableResource:
    return AlterableResource(TOPIC_RESOURCE, name, configs)


async def test_each_resource_is_written_and_notified_or_refused_in_kafkas_words(scene: Scene) -> None:
    files = AlterableConfig(RATE, "40")
    metrics = "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"
    rows = await scene.alter(
        broker(files, AlterableConfig(THROTTLE, "5")),
        broker(files, AlterableConfig("lethe.protected.topics", "orders.*"), name=""),
        broker(files, name="2"),
        of_topic(RETENTION),
        of_topic(RETENTION, name="none"),
        of_topic(RETENTION, name=""),
        AlterableResource(BROKER_LOGGER_RESOURCE, "1", (AlterableConfig("kafka", "INFO"),)),
        AlterableResource(CLIENT_METRICS_RESOURCE, "m", ()),
        AlterableResource(32, "g", ()),
    )
    assert rows == [
        ("1", "NONE", None),
        ("", "NONE", None),
        ("2", "INVALID_REQUEST", "Unexpected broker id, expected 1, but received 2"),
        ("t", "NONE", None),
        ("none", "UNKNOWN_TOPIC_OR_PARTITION", "The topic 'none' does not exist."),
        ("", "INVALID_REQUEST", "Default topic resources are not allowed."),
        ("1", "INVALID_CONFIG", "Logger kafka does not exist!"),
        ("m", "INVALID_REQUEST", metrics),
        ("g", "INVALID_REQUEST", "Unknown resource type 32"),
    ]
    assert scene.config(OWN) == {RATE: "40", THROTTLE: "5"}
    assert scene.config(ALL_BROKERS) == {RATE: "40", "lethe.protected.topics": "orders.*"}
    assert scene.config(OF_T) == {"retention.ms": "7"}
    assert scene.notified() == ["brokers/1", "brokers/<default>", "topics/t"]


async def test_the_older_request_replaces_and_the_newer_one_adds(scene: Scene) -> None:
    await scene.alter(broker(AlterableConfig(RATE, "40"), AlterableConfig(THROTTLE, "5")))
    assert await scene.ask(AlterConfigsRequest((broker(AlterableConfig(THROTTLE, "6")),))) == [("1", "NONE", None)]
    assert scene.config(OWN) == {THROTTLE: "6"}
    await scene.alter(broker(AlterableConfig(RATE, "9"), AlterableConfig(THROTTLE, None, AlterOperation.DELETE)))
    assert scene.config(OWN) == {RATE: "9"}


@pytest.mark.parametrize(
    "config,words",
    [
        (AlterableConfig("log.dirs", "/x"), "Cannot update these configs dynamically: Set(log.dirs)"),
        (
            AlterableConfig("lethe.protected.topics", "a"),
            "Cannot update these configs dynamically: Set(lethe.protected.topics)",
        ),
        (AlterableConfig(RATE, "-1"), f"Invalid value -1 for configuration {RATE}: '-1' is not a number, such as 1000"),
    ],
)
async def test_settings_that_an_agent_cannot_use_are_refused(scene: Scene, config: AlterableConfig, words: str) -> None:
    ((_, error, message),) = await scene.alter(broker(config))
    assert (error, str(message).split(";")[0]) == ("INVALID_REQUEST", words)
    assert scene.config(OWN) is None


async def test_a_topic_has_to_fit_to_what_the_file_and_zookeeper_say(scene: Scene) -> None:
    lag = of_topic(AlterableConfig("min.compaction.lag.ms", "60"))
    words = "conflict topic config setting min.compaction.lag.ms (60) > max.compaction.lag.ms (50)"
    assert await scene.alter(lag) == [("t", "INVALID_CONFIG", words)]
    await scene.write(OWN, encode_config({"log.cleaner.max.compaction.lag.ms": "70"}))
    assert await scene.alter(lag) == [("t", "NONE", None)]
    remote = of_topic(AlterableConfig("remote.storage.enable", "true"))
    ((_, error, message),) = await scene.alter(remote)
    assert error == "INVALID_CONFIG"
    assert "Tiered Storage functionality is disabled in the broker." in str(message)


async def test_a_request_to_validate_writes_nothing(scene: Scene) -> None:
    assert await scene.alter(of_topic(RETENTION), validate_only=True) == [("t", "NONE", None)]
    assert (scene.config(OF_T), scene.notified()) == (None, [])


async def test_what_the_client_may_not_alter(scene: Scene) -> None:
    request = IncrementalAlterConfigsRequest((broker(AlterableConfig(RATE, "1")), of_topic(RETENTION)))
    cluster, topic = "CLUSTER_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"
    assert await scene.ask(request, ann()) == [("1", cluster, None), ("t", topic, None)]
    mine = ann((Operation.ALTER_CONFIGS, ResourceType.TOPIC, "t"))
    assert await scene.ask(request, mine) == [("1", cluster, None), ("t", "NONE", None)]
    assert scene.config(OWN) is None
    ours = ann((Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME))
    assert await scene.ask(request, ours) == [("1", "NONE", None), ("t", topic, None)]


async def test_a_setting_that_another_client_writes_in_between_stays(scene: Scene) -> None:
    await scene.write(OWN, encode_config({THROTTLE: "5"}))
    scene.session.others = ((SetData(OWN, encode_config({THROTTLE: "6"}), 0),),)
    assert await scene.alter(broker(AlterableConfig(RATE, "40"))) == [("1", "NONE", None)]
    assert scene.config(OWN) == {THROTTLE: "6", RATE: "40"}


async def test_a_configuration_that_changes_each_time_is_given_up(scene: Scene) -> None:
    await scene.write(OWN, encode_config({}))
    scene.session.others = ((SetData(OWN, encode_config({THROTTLE: "6"}), -1),),)
    assert await scene.alter(broker(AlterableConfig(RATE, "40"))) == [("1", "UNKNOWN_SERVER_ERROR", None)]
    assert scene.config(OWN) == {THROTTLE: "6"}


async def test_nothing_is_written_for_a_topic_that_is_gone_in_between(scene: Scene) -> None:
    scene.session.others = ((Delete("/brokers/topics/t"),),)
    row = ("t", "UNKNOWN_TOPIC_OR_PARTITION", "The topic 't' does not exist.")
    assert await scene.alter(of_topic(RETENTION)) == [row]
    assert (scene.config(OF_T), scene.notified()) == (None, [])


@pytest.mark.parametrize("unread", [OWN, ALL_BROKERS, OF_T])
async def test_what_cannot_be_read_is_not_written_over_and_said_once(
    scene: Scene, unread: str, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.write(unread, b"no JSON")
    for _ in range(3):
        assert await scene.alter(of_topic(RETENTION)) == [("t", "UNKNOWN_SERVER_ERROR", None)]
    assert scene.data(unread) == b"no JSON"
    (said,) = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert said.startswith("the configuration of ConfigResource(type=TOPIC, name='t') is not altered for a client: ")
    assert unread in said


async def test_a_configuration_that_cannot_be_shown_is_said_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.write(OF_T, b"no JSON")
    for _ in range(3):
        assert await scene.stored.read([OF_T, OWN]) == {OF_T: None, OWN: {}}
    await scene.write(OWN, b"no JSON either")
    assert await scene.stored.read([OF_T, OWN]) == {OF_T: None, OWN: None}
    assert [each.getMessage().split(":")[0] for each in caplog.records] == [
        "a client cannot be shown a configuration"
    ] * 2


async def test_without_zookeeper_nothing_is_done(scene: Scene) -> None:
    scene.is_connected = False
    assert await scene.alter(of_topic(RETENTION)) == [("t", "UNKNOWN_SERVER_ERROR", None)]
    assert await scene.stored.read([OWN]) == {OWN: None}


@pytest.mark.parametrize("applied", [True, False])
async def test_a_write_whose_outcome_is_unknown_is_not_answered_as_done(
    scene: Scene, applied: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scene.session.lose_next_reply(applied=applied)
    assert await scene.alter(of_topic(RETENTION)) == [("t", "UNKNOWN_SERVER_ERROR", None)]
    assert (scene.config(OF_T) is not None) is applied
    (said,) = [each.getMessage() for each in caplog.records]
    assert said.startswith("whether ")
    assert " is unknown: " in said


async def test_the_log_names_the_settings_and_no_value(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await scene.alter(of_topic(RETENTION))
    assert [each.getMessage() for each in caplog.records] == [
        "User:ANONYMOUS altered the configuration of ConfigResource(type=TOPIC, name='t'): retention.ms"
    ]
