"""Settings of brokers that clients may alter: names, types and values."""

from __future__ import annotations

import pytest

from lethe.protocol.kafka.broker_configs import (
    broker_config_default,
    broker_config_type,
    check_broker_config,
    holds_secret,
    not_dynamic,
)
from lethe.protocol.kafka.topic_configs import InvalidTopicConfig, ValueType


@pytest.mark.parametrize(
    "name, value_type",
    [
        ("leader.replication.throttled.rate", ValueType.LONG),
        ("log.cleanup.policy", ValueType.LIST),
        ("unclean.leader.election.enable", ValueType.BOOLEAN),
        ("log.cleaner.io.buffer.load.factor", ValueType.DOUBLE),
        *(
            (name, None)
            for name in ("log.retention.hours", "log.message.format.version", "broker.id", "listeners", "x")
        ),
    ],
)
def test_types(name: str, value_type: ValueType | None) -> None:
    assert broker_config_type(name) is value_type


@pytest.mark.parametrize(
    "name, good, bad",
    [
        ("num.io.threads", "1", "0"),
        ("leader.replication.throttled.rate", "9223372036854775807", "9223372036854775808"),
        ("log.cleaner.io.max.bytes.per.second", "1.5E308", "fast"),
        ("log.cleanup.policy", "compact,delete", "shred"),
        ("transaction.partition.verification.enable", " TRUE ", "yes"),
    ],
)
def test_values(name: str, good: str, bad: str) -> None:
    check_broker_config(name, good)
    with pytest.raises(InvalidTopicConfig, match=f"for configuration {name}"):
        check_broker_config(name, bad)


def test_passwords_of_listeners_are_secrets() -> None:
    assert holds_secret("listener.name.internal.ssl.keystore.password")
    assert not holds_secret("leader.replication.throttled.rate")


def test_words_and_defaults() -> None:
    assert not_dynamic(["b", "a"]) == "Cannot update these configs dynamically: Set(a, b)"
    assert broker_config_default("log.cleanup.policy") == "delete"
