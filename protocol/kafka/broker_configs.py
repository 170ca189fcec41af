"""Settings of brokers in ZooKeeper that Lethe's controller lets clients alter for itself, by Kafka 3.9.1's types.

Kafka lets clients alter more of them while a broker runs. Listeners, TLS, logins, limits on connections and Java
classes come from this process's properties file only, so the controller refuses them as Kafka refuses static settings.
Settings of threads and disks are stored and have no effect: a controller has none, but tools set them for all brokers.

    num.io.threads=0          Invalid value 0 for configuration num.io.threads: Value must be at least 1
    broker.id=2, listeners=…  Cannot update these configs dynamically: Set(broker.id, listeners)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from lethe.protocol.kafka.topic_configs import TOPIC_CONFIGS, ValueType, between, parse_value
from lethe.protocol.kafka.topic_defaults import BROKER_NAMES, broker_setting_value


class _BrokerConfig(NamedTuple):
    type: ValueType
    least: int | None = None


_INT, _LONG, _DOUBLE = ValueType.INT, ValueType.LONG, ValueType.DOUBLE
_OF_BROKERS: Final = {
    "background.threads": _BrokerConfig(_INT, 1),
    "follower.replication.throttled.rate": _BrokerConfig(_LONG, 0),
    "leader.replication.throttled.rate": _BrokerConfig(_LONG, 0),
    "log.cleaner.backoff.ms": _BrokerConfig(_LONG, 0),
    "log.cleaner.dedupe.buffer.size": _BrokerConfig(_LONG),
    "log.cleaner.io.buffer.load.factor": _BrokerConfig(_DOUBLE),
    "log.cleaner.io.buffer.size": _BrokerConfig(_INT, 0),
    "log.cleaner.io.max.bytes.per.second": _BrokerConfig(_DOUBLE),
    "log.cleaner.threads": _BrokerConfig(_INT, 0),
    "num.io.threads": _BrokerConfig(_INT, 1),
    "num.network.threads": _BrokerConfig(_INT, 1),
    "num.recovery.threads.per.data.dir": _BrokerConfig(_INT, 1),
    "num.replica.fetchers": _BrokerConfig(_INT),
    "producer.id.expiration.ms": _BrokerConfig(_INT, 1),
    "remote.fetch.max.wait.ms": _BrokerConfig(_INT, 1),
    "remote.log.index.file.cache.total.size.bytes": _BrokerConfig(_LONG, 1),
    "remote.log.manager.copy.max.bytes.per.second": _BrokerConfig(_LONG, 1),
    "remote.log.manager.fetch.max.bytes.per.second": _BrokerConfig(_LONG, 1),
    "replica.alter.log.dirs.io.max.bytes.per.second": _BrokerConfig(_LONG, 0),
    "transaction.partition.verification.enable": _BrokerConfig(ValueType.BOOLEAN),
}
_OF_TOPICS: Final = {names[0]: name for name, names in BROKER_NAMES.items() if names[0] != "log.message.format.version"}
"""Defaults of topics, with the topics' name for each. In ZooKeeper Kafka takes the first one of several names only."""
_SECRETS: Final = (
    *("sasl.jaas.config", "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key"),
    *("ssl.keystore.password", "ssl.truststore.certificates", "ssl.truststore.password"),
)


def broker_config_type(name: str) -> ValueType | None:
    """Return the type of a setting that clients may alter; None for another one."""
    if name in _OF_TOPICS:
        return TOPIC_CONFIGS[_OF_TOPICS[name]].type
    found = _OF_BROKERS.get(name)
    return None if found is None else found.type


def check_broker_config(name: str, text: str) -> None:
    """Raise InvalidTopicConfig if brokers refuse this value of a setting that clients may alter."""
    if name in _OF_TOPICS:
        broker_setting_value(name, text)
        return
    config = _OF_BROKERS[name]
    value = parse_value(name, text, config.type)
    if config.least is not None:
        between(config.least)(name, value)


def broker_config_default(name: str) -> str:
    """Return Kafka's default of a list among these settings, to which clients add."""
    return TOPIC_CONFIGS[_OF_TOPICS[name]].default if name in _OF_TOPICS else ""


def holds_secret(name: str) -> bool:
    """True for passwords and keys, with the prefix of a listener or without."""
    return name.endswith(_SECRETS)


def not_dynamic(names: Iterable[str]) -> str:
    """Return Kafka's words for settings that cannot be altered while a broker runs."""
    return f"Cannot update these configs dynamically: Set({', '.join(sorted(names))})"
