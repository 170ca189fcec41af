"""What brokers set instead of Kafka's defaults for topics, and a topic's settings as Kafka 3.9.1 answers them.

Several names of the brokers' configuration stand for one setting of topics; the first one that is set counts. Each may
stand in three places, of which the first counts: of this broker or of all brokers in ZooKeeper, or in the file.

    log.retention.hours=100 in the file          retention.ms is 360000000
    log.retention.ms=5000 for all in ZooKeeper   retention.ms is 5000

Kafka names the place of the first name only: retention.ms=360000000 above is said to be a default.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.protocol.kafka.config_entries import ConfigEntry
from lethe.protocol.kafka.topic_configs import (
    TOPIC_CONFIGS,
    Value,
    checked_topic_configs,
    parse_value,
    text_of,
)

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_UNITS_MS: Final = {"minutes": _MINUTE_MS, "hours": _HOUR_MS}


class ConfigSource(enum.IntEnum):
    """Where a value comes from, by Kafka's numbers."""

    TOPIC = 1
    BROKER = 2
    """This broker's configuration in ZooKeeper."""
    ALL_BROKERS = 3
    """The configuration of all brokers in ZooKeeper."""
    FILE = 4
    DEFAULT = 5


class BrokerSetting(NamedTuple):
    """A setting of the brokers' configuration, and the place whose value counts."""

    text: str
    source: ConfigSource


BrokerSettings = Mapping[str, BrokerSetting]
"""By name; without settings that stand for none of topics."""
NO_BROKER_SETTINGS: Final[BrokerSettings] = {}

BROKER_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "segment.bytes": ("log.segment.bytes",),
        "segment.ms": ("log.roll.ms", "log.roll.hours"),
        "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        "segment.index.bytes": ("log.index.size.max.bytes",),
        "flush.messages": ("log.flush.interval.messages",),
        "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        "retention.bytes": ("log.retention.bytes",),
        "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        "max.message.bytes": ("message.max.bytes",),
        "index.interval.bytes": ("log.index.interval.bytes",),
        "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
        "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
        "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
        "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
        "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
        "cleanup.policy": ("log.cleanup.policy",),
        "unclean.leader.election.enable": ("unclean.leader.election.enable",),
        "min.insync.replicas": ("min.insync.replicas",),
        "compression.type": ("compression.type",),
        "compression.gzip.level": ("compression.gzip.level",),
        "compression.lz4.level": ("compression.lz4.level",),
        "compression.zstd.level": ("compression.zstd.level",),
        "preallocate": ("log.preallocate",),
        "message.format.version": ("log.message.format.version",),
        "message.timestamp.type": ("log.message.timestamp.type",),
        "message.timestamp.difference.max.ms": ("log.message.timestamp.difference.max.ms",),
        "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
        "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
        "message.downconversion.enable": ("log.message.downconversion.enable",),
        "local.retention.ms": ("log.local.retention.ms",),
        "local.retention.bytes": ("log.local.retention.bytes",),
    }
)
"""Settings of topics, and the brokers' names that stand for each, the first one first."""
TOPIC_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {broker_name: name for name, broker_names in BROKER_NAMES.items() for broker_name in broker_names}
)

_FORMAT_VERSION: Final = "message.format.version"
"""Brokers of 3.x ignore what the file says of it."""
_DIFFERENCE: Final = "message.timestamp.difference.max.ms"
_LIMITS: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
"""Where these are not set, the older limit for both counts."""


def broker_setting_value(broker_name: str, text: str) -> Value:
    """Return the value that this setting of brokers gives to topics. Raises InvalidTopicConfig."""
    name = TOPIC_NAMES[broker_name]
    unit_ms = _UNITS_MS.get(broker_name.rpartition(".")[2])
    config = TOPIC_CONFIGS[name]
    value = parse_value(broker_name, text, config.type)
    if name == "retention.ms" and isinstance(value, int) and value < 0:
        return -1
    if unit_ms is not None and isinstance(value, int):
        value = parse_value(broker_name, str(value * unit_ms), config.type)
    config.check(broker_name, value)
    return value


def topic_defaults(settings: BrokerSettings) -> dict[str, str]:
    """Return the values that brokers set for topics, by the names of topic settings. All settings are valid."""
    found: dict[str, str] = {}
    for name, broker_names in BROKER_NAMES.items():
        given = next((each for each in broker_names if each in settings), None)
        if given is not None and name != _FORMAT_VERSION:
            found[name] = text_of(broker_setting_value(given, settings[given].text))
    if _DIFFERENCE in found:
        for name in _LIMITS:
            if found.get(name, TOPIC_CONFIGS[name].default) == TOPIC_CONFIGS[name].default:
                found[name] = found[_DIFFERENCE]
    return found


def effective_configs(
    configs: Mapping[str, str], settings: BrokerSettings, *, tiered_storage: bool
) -> tuple[ConfigEntry, ...]:
    """Return all settings of a topic with this configuration, by name. Raises InvalidTopicConfig."""
    values = checked_topic_configs(configs, topic_defaults(settings), tiered_storage=tiered_storage)
    return tuple(
        ConfigEntry(
            name,
            text_of(values[name]),
            source=ConfigSource.TOPIC if name in configs else _source(name, settings),
        )
        for name in sorted(values)
    )


def _source(name: str, settings: BrokerSettings) -> ConfigSource:
    first = BROKER_NAMES.get(name, ("",))[0]
    return settings[first].source if first in settings else ConfigSource.DEFAULT
