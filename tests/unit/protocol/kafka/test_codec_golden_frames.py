"""Frames that passed between real controllers and real brokers (tests/wire): read and written again, byte for byte."""

from __future__ import annotations

from collections import Counter

import pytest

from lethe.protocol.kafka.codec import (
    decode_request,
    decode_response,
    encode_control_body,
    encode_request,
    encode_response,
)
from lethe.protocol.kafka.control import Addressed, ApiKey
from tests.wire.recording import DIRECTORY, VERSIONS, Exchange, Who, read_recording

NORMALISED: dict[tuple[ApiKey, int, str], str] = {}
"""What we may write in other bytes than Kafka: (API, version, `request` or `response`) and why. There is nothing."""

CONTROL = {ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA}
EXPECTED = {
    "3.9.1": {
        (ApiKey.LEADER_AND_ISR, 7),
        (ApiKey.UPDATE_METADATA, 8),
        (ApiKey.STOP_REPLICA, 4),
        (ApiKey.API_VERSIONS, 4),
        (ApiKey.ALTER_PARTITION, 3),
        (ApiKey.CONTROLLED_SHUTDOWN, 3),
        (ApiKey.ALLOCATE_PRODUCER_IDS, 0),
    },
    "2.5.1": {
        (ApiKey.LEADER_AND_ISR, 4),
        (ApiKey.UPDATE_METADATA, 6),
        (ApiKey.STOP_REPLICA, 2),
        (ApiKey.CONTROLLED_SHUTDOWN, 3),
    },
}
"""What a history has to have shown, so that no request is left untried unnoticed."""


def request_again(frame: bytes) -> bytes:
    """The request as we write what we have read from it."""
    header, value = decode_request(frame)
    return encode_request(value, header.version, header.correlation_id, header.client_id)


def response_again(exchange: Exchange) -> bytes:
    """The response as we write what we have read from it."""
    assert exchange.response is not None
    number, value = decode_response(exchange.api, exchange.version, exchange.response)
    return encode_response(exchange.api, exchange.version, number, value)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("who", list(Who))
def test_what_was_read_is_written_with_the_same_bytes(who: Who, version: str) -> None:
    other = Counter[tuple[ApiKey, int, str]]()
    for each in read_recording(who, version).exchanges:
        if request_again(each.request) != each.request:
            other[each.api, each.version, "request"] += 1
        if each.response is not None and response_again(each) != each.response:
            other[each.api, each.version, "response"] += 1
    assert set(other) == set(NORMALISED), other


@pytest.mark.parametrize("version", VERSIONS)
def test_a_body_that_brokers_share_is_the_same_for_each(version: str) -> None:
    """As the controller sends it: encoded once, each broker's own epoch put in place."""
    told = [each for each in read_recording(Who.KAFKA, version).exchanges if each.api in CONTROL]
    assert told
    for each in told:
        header, value = decode_request(each.request)
        assert isinstance(value, Addressed)
        body = encode_control_body(value.request, header.version)
        head, tail = body.frame(header.correlation_id, header.client_id, value.broker_epoch)
        assert head[4:] + tail == each.request
        assert int.from_bytes(head[:4], "big") == len(each.request)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_request_of_that_version_was_recorded(version: str) -> None:
    exchanges = read_recording(Who.KAFKA, version).exchanges
    assert {(each.api, each.version) for each in exchanges} == EXPECTED[version]
    assert {(each.api, each.version) for each in exchanges if each.response is not None} == EXPECTED[version]


def test_the_recordings_are_small() -> None:
    assert sum(file.stat().st_size for file in DIRECTORY.glob("*.jsonl")) < 250_000
