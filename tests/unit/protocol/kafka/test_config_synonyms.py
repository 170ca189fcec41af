"""A topic's settings with their synonyms, by the rules of Kafka's ConfigHelper and DynamicBrokerConfig (3.9)."""

from __future__ import annotations

import pytest

from lethe.protocol.kafka.config_entries import ConfigEntry, ConfigSynonym
from lethe.protocol.kafka.config_synonyms import ConfigPlaces, ConfigType, described_topic, synonyms_of
from lethe.protocol.kafka.topic_configs import TOPIC_CONFIGS, InvalidTopicConfig
from lethe.protocol.kafka.topic_defaults import ConfigSource

TOPIC, BROKER, ALL, FILE, DEFAULT = (
    ConfigSource.TOPIC,
    ConfigSource.BROKER,
    ConfigSource.ALL_BROKERS,
    ConfigSource.FILE,
    ConfigSource.DEFAULT,
)
NOWHERE = ConfigPlaces({}, {}, {})


def described(configs: dict[str, str], places: ConfigPlaces, name: str) -> ConfigEntry:
    (entry,) = (each for each in described_topic(configs, places) if each.name == name)
    return entry


def test_every_setting_is_described_by_name() -> None:
    entries = described_topic({}, NOWHERE)
    assert [entry.name for entry in entries] == sorted(TOPIC_CONFIGS)
    assert {entry.name: entry.value for entry in entries} == {n: c.default for n, c in TOPIC_CONFIGS.items()}
    assert {entry.source for entry in entries} == {DEFAULT}


@pytest.mark.parametrize(
    "name,synonyms",
    [
        ("segment.bytes", (ConfigSynonym("log.segment.bytes", "1073741824", DEFAULT),)),
        ("retention.ms", ()),
        ("remote.storage.enable", ()),
    ],
)
def test_defaults_are_synonyms_if_the_first_name_has_one(name: str, synonyms: tuple[ConfigSynonym, ...]) -> None:
    assert described({}, NOWHERE, name).synonyms == synonyms


def test_places_come_in_kafkas_order() -> None:
    places = ConfigPlaces(
        {"log.retention.ms": "1"}, {"log.retention.ms": "2", "log.retention.hours": "3"}, {"log.retention.minutes": "4"}
    )
    entry = described({"retention.ms": " 0 "}, places, "retention.ms")
    assert (entry.value, entry.source, entry.type, entry.is_sensitive) == ("0", TOPIC, ConfigType.LONG, False)
    assert entry.synonyms == (
        ConfigSynonym("retention.ms", "0", TOPIC),
        ConfigSynonym("log.retention.ms", "1", BROKER),
        ConfigSynonym("log.retention.ms", "2", ALL),
        ConfigSynonym("log.retention.hours", "3", ALL),
        ConfigSynonym("log.retention.minutes", "4", FILE),
        ConfigSynonym("log.retention.hours", "168", DEFAULT),
    )
    assert described({}, places, "retention.ms")[1:4] == ("1", False, BROKER)


def test_names_before_the_settings_own_are_dropped() -> None:
    places = ConfigPlaces({}, {}, {"log.retention.ms": "1", "log.retention.hours": "3"})
    assert synonyms_of("log.retention.hours", places, {}) == (ConfigSynonym("log.retention.hours", "3", FILE),)
    entry = described({}, ConfigPlaces({}, {}, {"log.retention.hours": "3"}), "retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("10800000", DEFAULT, ())


def test_a_value_of_brokers_that_is_none_is_passed_over() -> None:
    places = ConfigPlaces({"log.segment.bytes": "many"}, {"log.segment.bytes": "2000"}, {})
    assert described({}, places, "segment.bytes").value == "2000"


def test_an_unknown_setting_of_a_topic_keeps_its_value_hidden() -> None:
    entry = described({"my.plugin": "x"}, NOWHERE, "my.plugin")
    own = (ConfigSynonym("my.plugin", None, TOPIC),)
    assert entry == ConfigEntry("my.plugin", None, source=TOPIC, is_sensitive=True, synonyms=own)


def test_a_value_that_brokers_refuse_is_not_described() -> None:
    with pytest.raises(InvalidTopicConfig):
        described_topic({"retention.ms": "soon"}, NOWHERE)
