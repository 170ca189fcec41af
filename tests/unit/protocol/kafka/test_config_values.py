"""Values of Kafka's configuration."""

from __future__ import annotations

import pytest

from lethe.protocol.kafka.config_values import parse_boolean


@pytest.mark.parametrize(
    "text,value",
    [("true", True), ("TRUE", True), (" True\t", True), ("false", False), ("FALSE ", False), ("yes", None), ("", None)],
)
def test_booleans_are_parsed_as_kafka_does(text: str, value: bool | None) -> None:
    assert parse_boolean(text) is value
