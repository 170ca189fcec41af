"""Clients describe the controller's configuration, and others in the same request."""

from __future__ import annotations

import pytest

from lethe.protocol.kafka.admin_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    TOPIC_RESOURCE,
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from lethe.protocol.kafka.config_entries import ConfigEntry, ConfigSynonym
from lethe.protocol.security.acls import CLUSTER_NAME, Operation, ResourceType
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, SetData
from tests.scenarios import clients
from tests.scenarios.plot import cluster, refusals, with_topic

OWN = "1000"
THROTTLE = "leader.replication.throttled.rate"
PATH = paths.config_broker(1000)


def described(*resources: tuple[int, str], with_synonyms: bool = False) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(tuple(DescribableConfigs(*each) for each in resources), with_synonyms)


def results_of(answer: object) -> tuple[DescribedConfigs, ...]:
    assert isinstance(answer, DescribeConfigsResponse)
    return answer.results


def test_what_is_stored_is_described_and_secrets_are_not() -> None:
    world = cluster()
    own = {THROTTLE: "5", "listener.name.x.ssl.key.password": "hush", "custom": "hush"}
    world.write(Create(PATH, znodes.encode_config(own)))
    world.write(Create(paths.config_broker_default(), znodes.encode_config({THROTTLE: "9", "log.retention.ms": "7"})))
    (result,) = results_of(world.ask(described((BROKER_RESOURCE, OWN), with_synonyms=True), 4))
    synonyms = ConfigSynonym(THROTTLE, "5", 2), ConfigSynonym(THROTTLE, "9", 3)
    assert result == DescribedConfigs(
        0,
        "",
        BROKER_RESOURCE,
        OWN,
        (
            ConfigEntry("custom", None, True, 2, True, (ConfigSynonym("custom", None, 2),)),
            ConfigEntry(THROTTLE, "5", False, 2, False, synonyms, 5),
            ConfigEntry(
                "listener.name.x.ssl.key.password",
                None,
                True,
                2,
                True,
                (ConfigSynonym("listener.name.x.ssl.key.password", None, 2),),
                9,
            ),
            ConfigEntry("log.retention.ms", "7", False, 3, False, (ConfigSynonym("log.retention.ms", "7", 3),), 5),
        ),
    )
    (result,) = results_of(world.ask(DescribeConfigsRequest((DescribableConfigs(4, OWN, (THROTTLE,)),)), 4))
    assert result.entries == (ConfigEntry(THROTTLE, "5", False, 2, False, (), 5),)


def test_each_resource_is_described_by_itself() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.write(Create(paths.config_broker_default(), znodes.encode_config({THROTTLE: "5"})))
    world.write(SetData(paths.config_topic("t"), znodes.encode_config({"retention.ms": "7"}), -1))
    asked = described((4, OWN), (4, ""), (4, "2"), (8, OWN), (2, "t"), (2, "none"), (16, "m"))
    own, of_all, other, loggers, topic, none, metrics = results_of(world.ask(asked, 4))
    throttle = ConfigEntry(THROTTLE, "5", False, 3, False, (), 5)
    assert (own.entries, of_all.entries, loggers.entries) == ((throttle,), (throttle,), ())
    assert other[:2] == (42, "Unexpected broker id, expected 1000 or empty string, but received 2")
    assert ("retention.ms", "7", 1) in [(each.name, each.value, each.source) for each in topic.entries]
    assert none[:2] == (3, "")
    assert metrics[:2] == (42, "Config type client-metrics is only supported on KRaft clusters")


@pytest.mark.parametrize(
    "kind, name, error, words",
    [
        (BROKER_RESOURCE, "two", 42, "Broker id must be an integer, but it is: two"),
        (BROKER_LOGGER_RESOURCE, "2", 42, "Unexpected broker id, expected 1000 but received 2"),
        (BROKER_LOGGER_RESOURCE, "", 42, "Broker id must not be empty"),
        (CLIENT_METRICS_RESOURCE, "", 42, "Client metrics subscription name must not be empty"),
        (TOPIC_RESOURCE, "", 17, "Topic name is invalid: the empty string is not allowed"),
    ],
)
def test_what_is_not_described_has_kafkas_words(kind: int, name: str, error: int, words: str) -> None:
    own, refused = results_of(cluster().ask(described((BROKER_RESOURCE, OWN), (kind, name)), 4))
    assert own.error == 0
    assert refused == DescribedConfigs(error, words, kind, name, ())


def test_a_type_that_does_not_exist_refuses_all_resources() -> None:
    results = results_of(cluster().ask(described((BROKER_RESOURCE, OWN), (3, "x")), 4))
    assert [each.error for each in results] == [42, 42]


def test_a_topic_is_described_with_where_its_settings_come_from() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.write(Create(paths.config_broker_default(), znodes.encode_config({"log.retention.ms": "7"})))
    world.write(SetData(paths.config_topic("t"), znodes.encode_config({"retention.ms": "5", "my.plugin": "hush"}), -1))
    (topic,) = results_of(world.ask(described((TOPIC_RESOURCE, "t"), with_synonyms=True), 4))
    entries = {each.name: each for each in topic.entries}
    places = [(each.name, each.value, each.source) for each in entries["retention.ms"].synonyms]
    assert places == [("retention.ms", "5", 1), ("log.retention.ms", "7", 3), ("log.retention.hours", "168", 5)]
    assert entries["retention.ms"].type == 5
    assert entries["my.plugin"].value is None


def test_a_resource_that_is_requested_twice_is_described_once() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    results = results_of(world.ask(described((BROKER_RESOURCE, OWN), *[(TOPIC_RESOURCE, "t")] * 1000), 4))
    assert [each.resource_name for each in results] == [OWN, "t"]


def test_what_cannot_be_read_is_not_described_as_empty() -> None:
    world = cluster()
    world.write(Create(PATH, b"{"))
    (result,) = results_of(world.ask(described((4, OWN)), 4))
    assert (result.error, result.entries) == (-1, ())


def test_a_topic_is_described_once_however_many_names_are_asked_for() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    asked = DescribeConfigsRequest(
        (DescribableConfigs(BROKER_RESOURCE, OWN), *(DescribableConfigs(2, "t", (f"{i}",)) for i in range(99)))
    )
    own, *rows = results_of(world.ask(asked, 4))
    assert [(each.error, each.entries) for each in rows] == [(0, ())] * 99
    world.write(SetData(paths.config_topic("t"), b"{", -1))
    own, *rows = results_of(world.ask(asked, 4))
    assert (own.error, [each.error for each in rows]) == (0, [-1] * 99)
    assert len(refusals(world, "cluster")) == 1


def test_what_the_client_may_not_describe_is_not_read() -> None:
    world = with_topic(with_topic(cluster(), "mine", (1, 2)), "yours", (1, 2))
    world.write(SetData(paths.config_topic("yours"), b"{", -1))
    sender = clients.ann((Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "mine"))
    asked = described((BROKER_RESOURCE, OWN), (TOPIC_RESOURCE, "mine"), (TOPIC_RESOURCE, "yours"))
    own, mine, yours = results_of(world.ask(asked, 4, sender))
    assert own == DescribedConfigs(31, "Cluster authorization failed.", BROKER_RESOURCE, OWN, ())
    assert (mine.error, len(mine.entries) > 1) == (0, True)
    assert yours == DescribedConfigs(29, "Topic authorization failed.", TOPIC_RESOURCE, "yours", ())
    assert refusals(world, "cluster") == []
    sender = clients.ann((Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME))
    assert [each.error for each in results_of(world.ask(asked, 4, sender))] == [0, 29, 29]
