"""Values of Kafka's configuration."""

from __future__ import annotations

import pytest

from lethe.protocol.kafka.config_values import parse_boolean, parse_thousandths


@pytest.mark.parametrize(
    "text,value",
    [("true", True), ("TRUE", True), (" True\t", True), ("false", False), ("FALSE ", False), ("yes", None), ("", None)],
)
def test_booleans_are_parsed_as_kafka_does(text: str, value: bool | None) -> None:
    assert parse_boolean(text) is value


@pytest.mark.parametrize(
    "text,thousandths",
    [
        ("20", 20_000),
        (" 0.5 ", 500),
        ("0.001", 1),
        ("0", 0),
        ("-1", None),
        ("1.", None),
        (".5", None),
        ("1.2345", None),
        ("1e3", None),
        ("", None),
        ("²", None),
    ],
)
def test_a_number_in_thousandths(text: str, thousandths: int | None) -> None:
    assert parse_thousandths(text) == thousandths
