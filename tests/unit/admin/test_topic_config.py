"""Topic settings: what Kafka's brokers accept is accepted, the rest is refused by name."""

from __future__ import annotations

import pytest

from lethe.admin.topic_config import TOPIC_CONFIGS, parse_topic_config, topic_config_problem


def test_settings_are_parsed_and_sorted() -> None:
    assert parse_topic_config(["segment.bytes = 1048576", "cleanup.policy=compact,delete"]) == {
        "cleanup.policy": "compact,delete",
        "segment.bytes": "1048576",
    }


@pytest.mark.parametrize("text", ["retention.ms", "=5", "retention.ms=", ""])
def test_malformed_settings_are_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is not of the form name=value"):
        parse_topic_config([text])


def test_a_setting_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="retention.ms is given twice: '1' and '2'"):
        parse_topic_config(["retention.ms=1", "retention.ms=2"])


@pytest.mark.parametrize(
    "name,value",
    [
        ("retention.ms", "-1"),
        ("retention.bytes", "-5"),
        ("cleanup.policy", "delete, compact"),
        ("min.cleanable.dirty.ratio", "0.5"),
        ("unclean.leader.election.enable", "TRUE"),
        ("remote.storage.enable", " True"),
        ("compression.type", "producer"),
        ("leader.replication.throttled.replicas", "*"),
        ("follower.replication.throttled.replicas", "0:1,1:2"),
        ("message.format.version", "3.0-IV1"),
        ("remote.log.copy.disable", "false"),
    ],
)
def test_good_values(name: str, value: str) -> None:
    assert topic_config_problem({name: value}) is None


@pytest.mark.parametrize(
    "name,value,words",
    [
        ("retention.m", "1", "unknown topic setting 'retention.m'"),
        ("retention.ms", "1h", "'1h' is not a whole number"),
        ("retention.ms", "-2", "not between -1"),
        ("segment.bytes", "2147483648", "2147483647"),
        ("min.insync.replicas", "0", "not between 1"),
        ("preallocate", "yes", "neither true nor false"),
        ("cleanup.policy", "delet", "list of compact and delete"),
        ("min.cleanable.dirty.ratio", "nan", "not between 0 and 1"),
        ("compression.type", "brotli", "none of uncompressed, zstd"),
        ("leader.replication.throttled.replicas", "1", "partition:broker"),
        ("remote.log.delete.on.disable", "true", "refused under ZooKeeper"),
        ("message.format.version", "latest", "not a version"),
    ],
)
def test_bad_values(name: str, value: str, words: str) -> None:
    problem = topic_config_problem({name: value})
    assert problem is not None
    assert words in problem
    assert name in problem


def test_contradicting_lags_are_refused() -> None:
    assert "larger than" in (
        topic_config_problem({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}) or "nothing"
    )


def test_settings_are_listed_in_order() -> None:
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)
    assert len(TOPIC_CONFIGS) == 36
