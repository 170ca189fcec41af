"""Requests about configurations as bytes, by hand from Kafka's message schemas, and the answers to those that fail."""

from __future__ import annotations

import pytest

from lethe.protocol.kafka.admin_configs import (
    AlterableConfig,
    AlterableResource,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredResource,
    AlterOperation,
    ConfigResource,
    ConfigsRequest,
    ConfigsResponse,
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
    IncrementalAlterConfigsRequest,
    configs_error_response,
    configs_errors,
)
from lethe.protocol.kafka.codec import decode_request, encode_request

RESOURCES = (AlterableResource(4, "9", (AlterableConfig("a", "b"), AlterableConfig("c", None, AlterOperation.DELETE))),)


def hexed(*words: str) -> bytes:
    return bytes.fromhex("".join(words))


def test_a_setting_is_set_and_another_one_deleted() -> None:
    request = IncrementalAlterConfigsRequest(RESOURCES, validate_only=True)
    payload = hexed("002c 0001 00000007 0001 39 00 02 04 02 39 03 02 61 00 02 62 00 02 63 01 00 00 00 01 00")
    assert encode_request(request, 1, 7, "9") == payload
    assert decode_request(payload).value == request


def test_the_older_request_has_no_operations() -> None:
    request = AlterConfigsRequest((AlterableResource(2, "t", (AlterableConfig("a", "b"),)),))
    payload = hexed("0021 0000 00000007 0001 39 00000001 02 0001 74 00000001 0001 61 0001 62 00")
    assert encode_request(request, 0, 7, "9") == payload
    assert decode_request(payload).value == request


@pytest.mark.parametrize(
    "request_, response",
    [
        (AlterConfigsRequest(RESOURCES), AlterConfigsResponse((AlteredResource(41, "why", 4, "9"),))),
        (IncrementalAlterConfigsRequest(RESOURCES), AlterConfigsResponse((AlteredResource(41, "why", 4, "9"),))),
        (
            DescribeConfigsRequest((DescribableConfigs(4, "9"),)),
            DescribeConfigsResponse((DescribedConfigs(41, "why", 4, "9", ()),)),
        ),
    ],
    ids=["AlterConfigs", "IncrementalAlterConfigs", "DescribeConfigs"],
)
def test_an_error_of_the_request_is_that_of_each_resource(request_: ConfigsRequest, response: ConfigsResponse) -> None:
    assert configs_error_response(request_, 41, "why") == response
    assert configs_errors(response) == (41,)


def test_texts_name_the_resource_as_kafka_does_and_no_value() -> None:
    assert str(ConfigResource(4, "9")) == "ConfigResource(type=BROKER, name='9')"
    assert str(ConfigResource(99, "x")) == "ConfigResource(type=UNKNOWN, name='x')"
    assert repr(RESOURCES[0].configs[0]) == "AlterableConfig('a', operation=0)"
