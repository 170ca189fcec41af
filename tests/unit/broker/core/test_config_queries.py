"""DescribeConfigs as Kafka 3.9 answers it, and what is said where ZooKeeper could not be read."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lethe.broker.core.config_queries import BrokerProperty, OwnSettings, answer_describe_configs, needed_paths
from lethe.broker.core.metadata_cache import MetadataCache
from lethe.protocol.kafka.admin_configs import (
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribedConfigs,
)
from lethe.protocol.kafka.config_entries import ConfigEntry, ConfigSynonym
from lethe.protocol.kafka.config_synonyms import ConfigType
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.topic_configs import TOPIC_CONFIGS
from lethe.protocol.kafka.topic_defaults import ConfigSource
from lethe.protocol.vocabulary import BrokerId
from tests.unit.broker.core.driver import metadata

TOPIC, BROKER, LOGGER, METRICS = 2, 4, 8, 16
ALL_BROKERS, OWN, OF_T = "/config/brokers/<default>", "/config/brokers/1", "/config/topics/t"
EMPTY: dict[str, dict[str, str]] = {OF_T: {}, ALL_BROKERS: {}, OWN: {}}
SETTINGS = OwnSettings(
    BrokerId(1),
    (
        BrokerProperty("broker.id", ConfigType.LONG, None, "1"),
        BrokerProperty("broker.rack", ConfigType.STRING),
        BrokerProperty("lethe.delete.files.per.second", ConfigType.LONG, "5000"),
        BrokerProperty("log.segment.bytes", ConfigType.INT, None, "4000"),
        BrokerProperty("ssl.key.password", ConfigType.PASSWORD, None, ""),
    ),
)


def ask(
    resource_type: int,
    name: str,
    stored: Mapping[str, Mapping[str, str] | None] | None = None,
    names: tuple[str, ...] | None = None,
    *,
    synonyms: bool = False,
) -> DescribedConfigs:
    cache = MetadataCache()
    cache.apply(metadata())
    request = DescribeConfigsRequest((DescribableConfigs(resource_type, name, names),), synonyms)
    (row,) = answer_describe_configs(cache, request, SETTINGS, {**EMPTY, **(stored or {})}).results
    assert (row.resource_type, row.resource_name) == (resource_type, name)
    return row


def by_name(row: DescribedConfigs) -> dict[str, ConfigEntry]:
    assert row.error == ErrorCode.NONE
    return {entry.name: entry for entry in row.entries}


def test_a_topic_has_its_settings_and_those_of_brokers() -> None:
    found = by_name(ask(TOPIC, "t", {OF_T: {"retention.ms": "5"}, ALL_BROKERS: {"message.max.bytes": "7"}}))
    assert len(found) == len(TOPIC_CONFIGS)
    values = {name: (found[name].value, found[name].source) for name in ("retention.ms", "max.message.bytes")}
    assert values == {"retention.ms": ("5", ConfigSource.TOPIC), "max.message.bytes": ("7", ConfigSource.ALL_BROKERS)}
    assert (found["segment.bytes"].value, found["segment.bytes"].source) == ("4000", ConfigSource.FILE)
    assert not any(entry.synonyms or entry.read_only for entry in found.values())


def test_only_the_settings_that_were_asked_for_and_all_for_an_empty_list() -> None:
    assert [*by_name(ask(TOPIC, "t", names=("retention.ms", "nope")))] == ["retention.ms"]
    assert len(by_name(ask(TOPIC, "t", names=()))) == len(TOPIC_CONFIGS)


def test_synonyms_if_they_were_asked_for() -> None:
    (entry,) = ask(TOPIC, "t", {OF_T: {"segment.bytes": "99"}}, ("segment.bytes",), synonyms=True).entries
    assert entry.synonyms == (
        ConfigSynonym("segment.bytes", "99", ConfigSource.TOPIC),
        ConfigSynonym("log.segment.bytes", "4000", ConfigSource.FILE),
        ConfigSynonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    )


@pytest.mark.parametrize(
    "resource_type,name,error,message",
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC, "..", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
        (
            BROKER,
            "2",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 2",
        ),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 2"),
        (METRICS, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (
            METRICS,
            "m",
            ErrorCode.INVALID_REQUEST,
            "Config type client-metrics is only supported on KRaft clusters",
        ),
    ],
)
def test_what_is_not_described(resource_type: int, name: str, error: int, message: str) -> None:
    row = ask(resource_type, name)
    assert (row.error, row.error_message, row.entries) == (error, message, ())


def test_a_type_that_is_not_described_refuses_the_whole_request() -> None:
    request = DescribeConfigsRequest((DescribableConfigs(TOPIC, "t"), DescribableConfigs(99, "x")))
    answer = answer_describe_configs(MetadataCache(), request, SETTINGS, EMPTY)
    assert [row.error for row in answer.results] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize("unread", [OF_T, ALL_BROKERS, OWN])
def test_what_could_not_be_read_is_no_default(unread: str) -> None:
    row = ask(TOPIC, "t", {unread: None})
    assert (row.error, row.error_message, row.entries) == (ErrorCode.UNKNOWN_SERVER_ERROR, None, ())


def test_a_value_that_brokers_refuse_is_an_error_of_the_server() -> None:
    assert ask(TOPIC, "t", {OF_T: {"retention.ms": "soon"}}).error == ErrorCode.UNKNOWN_SERVER_ERROR


def test_each_configuration_is_read_once_and_none_of_topics_that_are_not_there() -> None:
    cache = MetadataCache()
    cache.apply(metadata())
    resources = ((TOPIC, "t"), (TOPIC, "t"), (TOPIC, "a/b"), (TOPIC, "nope"), (BROKER, "2"))
    request = DescribeConfigsRequest(tuple(DescribableConfigs(*each) for each in resources))
    assert needed_paths(cache, request, BrokerId(1)) == (OF_T, ALL_BROKERS, OWN)


def test_a_topic_that_came_after_the_reads_is_not_there_yet() -> None:
    cache = MetadataCache()
    cache.apply(metadata())
    request = DescribeConfigsRequest((DescribableConfigs(TOPIC, "t"),))
    (row,) = answer_describe_configs(cache, request, SETTINGS, {ALL_BROKERS: {}, OWN: {}}).results
    assert row.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- brokers ------------------------------------------------------------------------------------------------------


def test_an_agents_own_settings_by_place() -> None:
    stored = {
        OWN: {"lethe.delete.files.per.second": "7", "leader.replication.throttled.rate": "9"},
        ALL_BROKERS: {"lethe.delete.files.per.second": "8", "listener.name.in.ssl.keystore.password": "pw"},
    }
    found = by_name(ask(BROKER, "1", stored, synonyms=True))
    assert found["broker.id"][1:4] == ("1", True, ConfigSource.FILE)
    assert found["broker.rack"][1:4] == (None, True, ConfigSource.DEFAULT)
    rate = found["lethe.delete.files.per.second"]
    assert rate[1:4] == ("7", False, ConfigSource.BROKER)
    assert [(each.value, each.source) for each in rate.synonyms] == [("7", 2), ("8", 3), ("5000", 5)]
    assert found["leader.replication.throttled.rate"][1:4] == ("9", False, ConfigSource.BROKER)


def test_secrets_and_unknown_settings_have_no_values() -> None:
    stored = {ALL_BROKERS: {"listener.name.in.ssl.keystore.password": "pw"}, OWN: {"ssl.key.password": "pw"}}
    found = by_name(ask(BROKER, "1", stored, synonyms=True))
    for name in ("ssl.key.password", "listener.name.in.ssl.keystore.password"):
        assert (found[name].value, found[name].is_sensitive) == (None, True)
    assert "pw" not in repr(found)


def test_the_settings_of_all_brokers() -> None:
    stored = {ALL_BROKERS: {"log.segment.bytes": "5"}, OWN: {"log.segment.bytes": "6"}}
    row = ask(BROKER, "", stored, synonyms=True)
    own = (ConfigSynonym("log.segment.bytes", "5", ConfigSource.ALL_BROKERS),)
    expected = ConfigEntry("log.segment.bytes", "5", False, ConfigSource.ALL_BROKERS, False, own, ConfigType.INT)
    assert row.entries == (expected,)


def test_an_agent_has_no_loggers_to_describe() -> None:
    assert ask(LOGGER, "1").entries == ()
