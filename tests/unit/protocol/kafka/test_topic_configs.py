"""Topic settings: what `LogConfig.validate` of Kafka 3.9.1 accepts is accepted, the rest is refused in its words.

Values, answers and defaults are what its class, run from its own jars, has said."""

from __future__ import annotations

import pytest

from lethe.protocol.kafka.topic_configs import (
    TOPIC_CONFIGS,
    InvalidTopicConfig,
    checked_topic_configs,
    text_of,
    topic_config_value,
)

_NO_REPLICAS = (
    "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
)


@pytest.mark.parametrize(
    "name,text,value",
    [
        ("cleanup.policy", "delete , compact", "delete,compact"),
        ("cleanup.policy", "", ""),
        ("min.cleanable.dirty.ratio", "NaN", "NaN"),
        ("min.cleanable.dirty.ratio", "0.5f", "0.5"),
        ("min.cleanable.dirty.ratio", "1e-4", "1.0E-4"),
        ("leader.replication.throttled.replicas", " * ", "*"),
        ("message.format.version", "3.9.9", "3.9.9"),
        ("message.format.version", "0.10.0-IV1", "0.10.0-IV1"),
        ("message.format.version", "4.0-IV1", "4.0-IV1"),
        ("unclean.leader.election.enable", " TRUE ", "true"),
        ("retention.ms", "+5", "5"),
        ("retention.ms", " 5 ", "5"),
        ("retention.bytes", "-5", "-5"),
        ("min.compaction.lag.ms", "9223372036854775807", "9223372036854775807"),
    ],
)
def test_accepted(name: str, text: str, value: str) -> None:
    assert text_of(checked_topic_configs({name: text}, {}, tiered_storage=False)[name]) == value


@pytest.mark.parametrize(
    "name,text,shown,reason",
    [
        ("retention.ms", "1h", "1h", "Not a number of type LONG"),
        ("retention.ms", "-2", "-2", "Value must be at least -1"),
        ("segment.bytes", "2147483648", "2147483648", "Not a number of type INT"),
        ("segment.bytes", "13", "13", "Value must be at least 14"),
        ("min.insync.replicas", "0", "0", "Value must be at least 1"),
        ("preallocate", "yes", "yes", "Expected value to be either true or false"),
        ("cleanup.policy", "delet", "delet", "String must be one of: compact, delete"),
        ("min.cleanable.dirty.ratio", "nan", "nan", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "1.5", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "-1", "-1.0", "Value must be at least 0"),
        ("min.cleanable.dirty.ratio", "1e9", "1.0E9", "Value must be no more than 1"),
        (
            "compression.type",
            "brotli",
            "brotli",
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        ("compression.gzip.level", "0", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "10", "10", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "18", "18", "Value must be no more than 17"),
        ("compression.zstd.level", "23", "23", "Value must be no more than 22"),
        (
            "leader.replication.throttled.replicas",
            "1",
            "[1]",
            _NO_REPLICAS,
        ),
        (
            "leader.replication.throttled.replicas",
            "0:1, 1:x",
            "[0:1, 1:x]",
            _NO_REPLICAS,
        ),
        ("message.format.version", "latest", "latest", "Version latest is not a valid version"),
        ("message.format.version", "0.8", "0.8", "Version 0.8 is not a valid version"),
        ("message.format.version", "4.0", "4.0", "Version 4.0 is not a valid version"),
        ("message.format.version", "", "", "Version  is not a valid version"),
        ("message.timestamp.type", "createtime", "createtime", "String must be one of: CreateTime, LogAppendTime"),
        ("retention.ms", "", "", "Not a number of type LONG"),
        ("local.retention.ms", "-3", "-3", "Value must be at least -2"),
        ("max.compaction.lag.ms", "0", "0", "Value must be at least 1"),
        ("delete.retention.ms", "9223372036854775808", "9223372036854775808", "Not a number of type LONG"),
    ],
)
def test_refused(name: str, text: str, shown: str, reason: str) -> None:
    with pytest.raises(InvalidTopicConfig) as refused:
        checked_topic_configs({name: text}, {}, tiered_storage=False)
    assert str(refused.value) == f"Invalid value {shown} for configuration {name}: {reason}"


@pytest.mark.parametrize(
    "configs,reason",
    [
        ({"retention.m": "1", "retention.ms": "x"}, "Unknown topic config name: retention.m"),
        (
            {"retention.ms": "x", "segment.ms": "0", "segment.bytes": "1"},
            "Invalid value 1 for configuration segment.bytes: Value must be at least 14",
        ),
        (
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)",
        ),
        (
            {"remote.log.delete.on.disable": "true"},
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode.",
        ),
        (
            {"remote.storage.enable": "true", "cleanup.policy": "compact"},
            "Remote log storage is unsupported for the compacted topics",
        ),
        (
            {"remote.storage.enable": "true", "local.retention.bytes": "-1", "retention.bytes": "5"},
            (
                "Invalid value -1 for configuration local.retention.bytes: "
                "Value must not be -1 as retention.bytes value is set as 5."
            ),
        ),
        (
            {"remote.storage.enable": "true", "local.retention.ms": "6", "retention.ms": "5"},
            (
                "Invalid value 6 for configuration local.retention.ms: "
                "Value must not be more than retention.ms property value: 5"
            ),
        ),
    ],
)
def test_refused_together(configs: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidTopicConfig) as refused:
        checked_topic_configs(configs, {}, tiered_storage=True)
    assert str(refused.value) == reason


def test_remote_storage_needs_brokers_that_have_one() -> None:
    wanted = {"remote.storage.enable": "true"}
    assert checked_topic_configs(wanted, {}, tiered_storage=True)["remote.storage.enable"] is True
    with pytest.raises(InvalidTopicConfig, match="Tiered Storage functionality is disabled in the broker"):
        checked_topic_configs(wanted, {}, tiered_storage=False)


def test_what_brokers_set_counts_where_the_topic_sets_nothing() -> None:
    defaults = {"max.compaction.lag.ms": "8", "retention.ms": "7"}
    values = checked_topic_configs({"retention.ms": "5"}, defaults, tiered_storage=False)
    assert (values["retention.ms"], values["max.compaction.lag.ms"]) == (5, 8)
    with pytest.raises(InvalidTopicConfig, match=r"\(9\) > max.compaction.lag.ms \(8\)"):
        checked_topic_configs({"min.compaction.lag.ms": "9"}, defaults, tiered_storage=False)


def test_defaults_and_order_are_kafkas() -> None:
    assert {name: (config.type.value, config.default) for name, config in TOPIC_CONFIGS.items()} == _KAFKAS
    assert list(TOPIC_CONFIGS) == list(_KAFKAS)
    assert all(
        text_of(topic_config_value(name, config.default)) == config.default for name, config in TOPIC_CONFIGS.items()
    )


_KAFKAS = {
    "segment.bytes": ("INT", "1073741824"),
    "segment.ms": ("LONG", "604800000"),
    "segment.jitter.ms": ("LONG", "0"),
    "segment.index.bytes": ("INT", "10485760"),
    "flush.messages": ("LONG", "9223372036854775807"),
    "flush.ms": ("LONG", "9223372036854775807"),
    "retention.bytes": ("LONG", "-1"),
    "retention.ms": ("LONG", "604800000"),
    "max.message.bytes": ("INT", "1048588"),
    "index.interval.bytes": ("INT", "4096"),
    "delete.retention.ms": ("LONG", "86400000"),
    "min.compaction.lag.ms": ("LONG", "0"),
    "max.compaction.lag.ms": ("LONG", "9223372036854775807"),
    "file.delete.delay.ms": ("LONG", "60000"),
    "min.cleanable.dirty.ratio": ("DOUBLE", "0.5"),
    "cleanup.policy": ("LIST", "delete"),
    "unclean.leader.election.enable": ("BOOLEAN", "false"),
    "min.insync.replicas": ("INT", "1"),
    "compression.type": ("STRING", "producer"),
    "compression.gzip.level": ("INT", "-1"),
    "compression.lz4.level": ("INT", "9"),
    "compression.zstd.level": ("INT", "3"),
    "preallocate": ("BOOLEAN", "false"),
    "message.format.version": ("STRING", "3.0-IV1"),
    "message.timestamp.type": ("STRING", "CreateTime"),
    "message.timestamp.difference.max.ms": ("LONG", "9223372036854775807"),
    "message.timestamp.before.max.ms": ("LONG", "9223372036854775807"),
    "message.timestamp.after.max.ms": ("LONG", "9223372036854775807"),
    "leader.replication.throttled.replicas": ("LIST", ""),
    "follower.replication.throttled.replicas": ("LIST", ""),
    "message.downconversion.enable": ("BOOLEAN", "true"),
    "remote.storage.enable": ("BOOLEAN", "false"),
    "local.retention.ms": ("LONG", "-2"),
    "local.retention.bytes": ("LONG", "-2"),
    "remote.log.copy.disable": ("BOOLEAN", "false"),
    "remote.log.delete.on.disable": ("BOOLEAN", "false"),
}
