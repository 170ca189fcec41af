"""Topic settings: what Kafka's brokers accept is accepted, the rest is refused by name."""

from __future__ import annotations

import pytest

from lethe.admin.topic_config import parse_topic_config, topic_config_problem


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
    "config,problem",
    [
        ({"retention.ms": "-1", "remote.storage.enable": " True"}, None),
        ({"retention.m": "1"}, "Unknown topic config name: retention.m"),
        ({"retention.ms": "1h"}, "Invalid value 1h for configuration retention.ms: Not a number of type LONG"),
        (
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)",
        ),
    ],
)
def test_problems_are_named_in_kafkas_words(config: dict[str, str], problem: str | None) -> None:
    assert topic_config_problem(config) == problem
