"""Settings as DescribeConfigs shows them: the value that counts, where it comes from, and what would count without it.

A setting may be given in several places and under several names (synonyms), as in Kafka's `ConfigHelper`. The first
place counts; within a place, the first name. Synonyms begin with the setting's own name: others before it are dropped.

    topic orders: retention.ms=5000; file: log.retention.hours=100

    retention.ms=5000     TOPIC      retention.ms=5000 TOPIC
    retention.ms of a topic without it: 360000000, said to be a DEFAULT without synonyms, for log.retention.ms, the
    first of the brokers' names, is given nowhere
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from itertools import dropwhile
from typing import Final, NamedTuple

from lethe.protocol.kafka.config_entries import ConfigEntry, ConfigSynonym
from lethe.protocol.kafka.topic_configs import TOPIC_CONFIGS, InvalidTopicConfig, text_of, topic_config_value
from lethe.protocol.kafka.topic_defaults import (
    BROKER_NAMES,
    TOPIC_NAMES,
    BrokerSetting,
    BrokerSettings,
    ConfigSource,
    broker_setting_value,
    topic_defaults,
)


class ConfigType(enum.IntEnum):
    """Type of a setting, by Kafka's numbers."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class ConfigPlaces(NamedTuple):
    """Where brokers' settings are given, the first place first: texts by the brokers' names."""

    broker: Mapping[str, str]
    """`/config/brokers/ID`."""
    all_brokers: Mapping[str, str]
    """`/config/brokers/<default>`."""
    file: Mapping[str, str]

    def in_order(self) -> Iterator[tuple[ConfigSource, Mapping[str, str]]]:
        """Iterate over the places without defaults."""
        yield ConfigSource.BROKER, self.broker
        yield ConfigSource.ALL_BROKERS, self.all_brokers
        yield ConfigSource.FILE, self.file


_FIRST_WITHOUT_DEFAULT: Final = ("log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms", "log.retention.ms")
"""Kafka's defaults stand under another name of the same setting."""
TOPIC_NAME_DEFAULTS: Final[Mapping[str, str]] = {
    **{
        names[0]: TOPIC_CONFIGS[name].default
        for name, names in BROKER_NAMES.items()
        if names[0] not in _FIRST_WITHOUT_DEFAULT
    },
    "log.roll.hours": "168",
    "log.roll.jitter.hours": "0",
    "log.flush.scheduler.interval.ms": TOPIC_CONFIGS["flush.ms"].default,
    "log.retention.hours": "168",
}
"""Kafka's defaults of the brokers' settings that stand for settings of topics."""


def synonyms_of(name: str, places: ConfigPlaces, defaults: Mapping[str, str]) -> tuple[ConfigSynonym, ...]:
    """Return the places of a setting of brokers, and of those that stand in for it."""
    names = BROKER_NAMES[TOPIC_NAMES[name]] if name in TOPIC_NAMES else (name,)
    found = (
        ConfigSynonym(each, texts[each], source)
        for source, texts in (*places.in_order(), (ConfigSource.DEFAULT, defaults))
        for each in names
        if each in texts
    )
    return tuple(dropwhile(lambda synonym: synonym.name != name, found))


def described_topic(configs: Mapping[str, str], places: ConfigPlaces) -> tuple[ConfigEntry, ...]:
    """Return all settings of a topic with this configuration, by name, with their synonyms.

    As in Kafka, settings of the topic that brokers do not know are listed without a value. Raises InvalidTopicConfig if
    brokers refuse a value.
    """
    defaults = defaults_of_topics(places)
    entries = [_topic_entry(name, configs, defaults, places) for name in TOPIC_CONFIGS]
    for name in configs:
        if name not in TOPIC_CONFIGS:
            own = (ConfigSynonym(name, None, ConfigSource.TOPIC),)
            entries.append(ConfigEntry(name, None, source=ConfigSource.TOPIC, is_sensitive=True, synonyms=own))
    return tuple(sorted(entries))


def defaults_of_topics(places: ConfigPlaces) -> dict[str, str]:
    """Return what brokers with these settings set for topics, by the names of topic settings."""
    return topic_defaults(_valid_settings(places))


def _topic_entry(
    name: str, configs: Mapping[str, str], defaults: Mapping[str, str], places: ConfigPlaces
) -> ConfigEntry:
    config = TOPIC_CONFIGS[name]
    value = text_of(topic_config_value(name, configs.get(name, defaults.get(name, config.default))))
    first = BROKER_NAMES.get(name, ("",))[0]
    synonyms = synonyms_of(first, places, TOPIC_NAME_DEFAULTS) if first else ()
    if name in configs:
        synonyms = (ConfigSynonym(name, value, ConfigSource.TOPIC), *synonyms)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return ConfigEntry(name, value, source=source, synonyms=synonyms, type=ConfigType[config.type.value])


def _valid_settings(places: ConfigPlaces) -> BrokerSettings:
    """Return the settings that stand for those of topics; as in Kafka, a value that is none is passed over."""
    found: dict[str, BrokerSetting] = {}
    for source, texts in places.in_order():
        for name, text in texts.items():
            if name in TOPIC_NAMES and name not in found and _is_valid(name, text):
                found[name] = BrokerSetting(text, source)
    return found


def _is_valid(name: str, text: str) -> bool:
    try:
        broker_setting_value(name, text)
    except InvalidTopicConfig:
        return False
    return True
