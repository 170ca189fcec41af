"""SaslHandshake and SaslAuthenticate as Kafka 3.9.1 writes them, and what their representations do not show."""

import pytest

from lethe.protocol.kafka.codec import Malformed, decode_request, decode_response, encode_request, encode_response
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.queries import Request, Response
from lethe.protocol.kafka.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

HANDSHAKE = SaslHandshakeRequest("PLAIN")
TOKEN = SaslAuthenticateRequest(b"\0alice\0pw")
ENABLED = SaslHandshakeResponse(33, ("PLAIN", "GSSAPI"))
DONE = SaslAuthenticateResponse(0, None, b"v=", 3_600_000)


@pytest.mark.parametrize(
    "request_, version, expected",
    [
        (HANDSHAKE, 0, "0011 0000 00000007 0001 6d  0005 504c41494e"),
        (HANDSHAKE, 1, "0011 0001 00000007 0001 6d  0005 504c41494e"),
        (TOKEN, 0, "0024 0000 00000007 0001 6d  00000009 00616c696365007077"),
        (TOKEN, 1, "0024 0001 00000007 0001 6d  00000009 00616c696365007077"),
        (TOKEN, 2, "0024 0002 00000007 0001 6d 00  0a 00616c696365007077 00"),
    ],
)
def test_requests_in_bytes(request_: SaslHandshakeRequest, version: int, expected: str) -> None:
    payload = encode_request(request_, version, 7, "m")
    assert payload == bytes.fromhex(expected)
    value: Request = decode_request(payload).value
    assert value == request_


@pytest.mark.parametrize(
    "api, response, version, expected",
    [
        (ApiKey.SASL_HANDSHAKE, ENABLED, 0, "00000007  0021 00000002 0005 504c41494e 0006 475353415049"),
        (ApiKey.SASL_HANDSHAKE, ENABLED, 1, "00000007  0021 00000002 0005 504c41494e 0006 475353415049"),
        (ApiKey.SASL_AUTHENTICATE, DONE, 1, "00000007  0000 ffff 00000002 763d 000000000036ee80"),
        (ApiKey.SASL_AUTHENTICATE, DONE, 2, "00000007 00  0000 00 03 763d 000000000036ee80 00"),
    ],
)
def test_responses_in_bytes(api: ApiKey, response: Response, version: int, expected: str) -> None:
    payload = encode_response(api, version, 7, response)
    assert payload == bytes.fromhex(expected)
    assert decode_response(api, version, payload) == (7, response)


def test_version_0_of_the_answer_has_no_session_lifetime() -> None:
    payload = encode_response(ApiKey.SASL_AUTHENTICATE, 0, 7, DONE)
    assert payload == bytes.fromhex("00000007  0000 ffff 00000002 763d")
    assert decode_response(ApiKey.SASL_AUTHENTICATE, 0, payload) == (7, SaslAuthenticateResponse(0, None, b"v=", 0))


@pytest.mark.parametrize("size", ["7fffffff", "ffffffff", "80000000", "0000000a"])
def test_a_false_length_of_the_token_is_refused(size: str) -> None:
    with pytest.raises(Malformed):
        decode_request(bytes.fromhex("0024 0000 00000007 0001 6d" + size + "00616c696365007077"))


def test_no_representation_shows_a_token() -> None:
    for value in (SaslAuthenticateRequest(b"hunter2"), SaslAuthenticateResponse(0, None, b"hunter2")):
        assert "hunter2" not in repr(value)
