"""A topic's settings with their sources are those that a broker of Kafka 3.9.1 in ZooKeeper mode has answered.

The rows are its answers to CreateTopics (version 7); rows that are Kafka's own defaults are left out."""

from __future__ import annotations

import pytest

from lethe.protocol.kafka.topic_configs import TOPIC_CONFIGS, InvalidTopicConfig
from lethe.protocol.kafka.topic_defaults import (
    BROKER_NAMES,
    BrokerSetting,
    ConfigSource,
    broker_setting_value,
    effective_configs,
    topic_defaults,
)

FILE, ALL, BROKER, TOPIC, DEFAULT = (
    ConfigSource.FILE,
    ConfigSource.ALL_BROKERS,
    ConfigSource.BROKER,
    ConfigSource.TOPIC,
    ConfigSource.DEFAULT,
)
IN_FILE = {
    name: BrokerSetting(text, FILE)
    for name, text in {
        "log.retention.hours": "100",
        "log.roll.ms": "5000000",
        "log.segment.bytes": "1000000",
        "log.flush.scheduler.interval.ms": "77777",
        "log.message.timestamp.difference.max.ms": "88888",
        "log.cleaner.min.cleanable.ratio": "0.25",
        "log.message.format.version": "2.8",
    }.items()
}
IN_ZOOKEEPER = {
    **IN_FILE,
    "log.retention.ms": BrokerSetting("123456", ALL),
    "log.segment.bytes": BrokerSetting("2000000", ALL),
    "log.roll.ms": BrokerSetting("6000000", ALL),
    "message.max.bytes": BrokerSetting("4000000", BROKER),
}


def _differing(configs: dict[str, str], settings: dict[str, BrokerSetting]) -> dict[str, tuple[str | None, int]]:
    entries = effective_configs(configs, settings, tiered_storage=False)
    assert [entry.name for entry in entries] == sorted(TOPIC_CONFIGS)
    return {
        entry.name: (entry.value, entry.source)
        for entry in entries
        if (entry.value, entry.source) != (TOPIC_CONFIGS[entry.name].default, DEFAULT)
    }


def test_settings_of_the_file_and_of_the_topic() -> None:
    assert _differing(
        {"retention.ms": "5", "cleanup.policy": "compact , delete", "min.cleanable.dirty.ratio": "1e-4"}, IN_FILE
    ) == {
        "cleanup.policy": ("compact,delete", TOPIC),
        "flush.ms": ("77777", DEFAULT),
        "message.format.version": ("3.0-IV1", FILE),
        "message.timestamp.after.max.ms": ("88888", DEFAULT),
        "message.timestamp.before.max.ms": ("88888", DEFAULT),
        "message.timestamp.difference.max.ms": ("88888", FILE),
        "min.cleanable.dirty.ratio": ("1.0E-4", TOPIC),
        "retention.ms": ("5", TOPIC),
        "segment.bytes": ("1000000", FILE),
        "segment.ms": ("5000000", FILE),
    }


def test_settings_in_zookeeper_come_before_the_file() -> None:
    assert _differing({}, IN_ZOOKEEPER) == {
        "flush.ms": ("77777", DEFAULT),
        "max.message.bytes": ("4000000", BROKER),
        "message.format.version": ("3.0-IV1", FILE),
        "message.timestamp.after.max.ms": ("88888", DEFAULT),
        "message.timestamp.before.max.ms": ("88888", DEFAULT),
        "message.timestamp.difference.max.ms": ("88888", FILE),
        "min.cleanable.dirty.ratio": ("0.25", FILE),
        "retention.ms": ("123456", ALL),
        "segment.bytes": ("2000000", ALL),
        "segment.ms": ("6000000", ALL),
    }


def test_the_first_name_that_is_set_counts_and_its_place_is_named() -> None:
    hours = {"log.retention.hours": BrokerSetting("100", FILE)}
    minutes = {**hours, "log.retention.minutes": BrokerSetting("-5", FILE)}
    assert _differing({}, hours) == {"retention.ms": ("360000000", DEFAULT)}
    assert _differing({}, minutes) == {"retention.ms": ("-1", DEFAULT)}


def test_limits_of_timestamps_that_are_set_stay() -> None:
    settings = {
        "log.message.timestamp.difference.max.ms": BrokerSetting("8", FILE),
        "log.message.timestamp.after.max.ms": BrokerSetting("9", FILE),
    }
    assert topic_defaults(settings) == {
        "message.timestamp.difference.max.ms": "8",
        "message.timestamp.before.max.ms": "8",
        "message.timestamp.after.max.ms": "9",
    }


@pytest.mark.parametrize(
    "name,text,reason",
    [
        ("log.roll.hours", "0", "Invalid value 0 for configuration log.roll.hours: Value must be at least 1"),
        ("log.roll.hours", "x", "Invalid value x for configuration log.roll.hours: Not a number of type LONG"),
        ("log.segment.bytes", "13", "Invalid value 13 for configuration log.segment.bytes: Value must be at least 14"),
    ],
)
def test_values_that_are_none(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidTopicConfig) as refused:
        broker_setting_value(name, text)
    assert str(refused.value) == reason


def test_every_name_is_of_a_topic_setting() -> None:
    assert not BROKER_NAMES.keys() - TOPIC_CONFIGS.keys()
