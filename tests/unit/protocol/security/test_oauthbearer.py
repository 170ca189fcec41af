"""OAUTHBEARER: the messages of RFC 7628 both ways, and what is refused."""

import pytest

from lethe.protocol.security.exchange import AuthenticationFailed
from lethe.protocol.security.oauthbearer import BearerToken, OAuthBearerClient
from tests.fakes.oauthbearer_server import OAuthBearerServer

TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="
MESSAGE = b"n,,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01"


def server() -> OAuthBearerServer:
    return OAuthBearerServer(lambda token: "alice" if token == TOKEN else None)


def test_an_accepted_token() -> None:
    client, accepting = OAuthBearerClient(TOKEN), server()
    assert client.first() == MESSAGE
    assert accepting.answer(MESSAGE) == b""
    assert accepting.principal == "alice"
    assert client.answer(b"") is None


def test_a_token_that_is_not_valid() -> None:
    client, refusing = OAuthBearerClient("other"), server()
    challenge = refusing.answer(client.first())
    assert challenge == b'{"status":"invalid_token"}'
    assert client.answer(challenge) == b"\x01"
    with pytest.raises(AuthenticationFailed, match="the token is not valid"):
        refusing.answer(b"\x01")
    with pytest.raises(AuthenticationFailed, match="does not accept the token: invalid_token"):
        client.answer(b"")
    assert refusing.principal is None


@pytest.mark.parametrize(
    "challenge", [b"{}", b"no JSON", b"[]", b'{"status":5}', b'{"status":"\\u001b[31m"}', b"[" * 9999]
)
def test_a_refusal_without_a_readable_reason(challenge: bytes) -> None:
    client = OAuthBearerClient(TOKEN)
    assert client.answer(challenge) == b"\x01"
    with pytest.raises(AuthenticationFailed, match="it gives no reason") as failed:
        client.answer(b"")
    assert TOKEN not in str(failed.value)


def test_extensions_and_another_identity_go_both_ways() -> None:
    token = BearerToken(TOKEN, {"logicalCluster": "lkc-1", "traceId": "a b"}, "a,b=c")
    message = token.encode()
    assert message == MESSAGE.replace(b"n,,", b"n,a=a=2Cb=3Dc,")[:-1] + b"logicalCluster=lkc-1\x01traceId=a b\x01\x01"
    assert BearerToken.decode(message) == token


@pytest.mark.parametrize(
    "message, reason",
    [
        (MESSAGE.replace(b"n,,", b"n,a=bob,"), "act as another user"),
        (MESSAGE.replace(b"Bearer ", b"Basic "), "no bearer token"),
        (MESSAGE.replace(b"auth=", b"other="), "no bearer token"),
        (MESSAGE.replace(b"Bearer ", b"Bearer s3cret!"), "no bearer token"),
        (MESSAGE[:-1], "malformed"),
        (MESSAGE + b"\x01", "malformed"),
        (MESSAGE.replace(b"n,,", b"y,,"), "malformed"),
        (b"", "malformed"),
        (b"\x01", "malformed"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_client_is_refused(message: bytes, reason: str) -> None:
    refusing = server()
    with pytest.raises(AuthenticationFailed, match=reason) as failed:
        refusing.answer(message)
    assert refusing.principal is None
    assert "s3cret" not in str(failed.value)


def test_a_client_may_name_the_principal_of_its_token() -> None:
    accepting = server()
    accepting.answer(MESSAGE.replace(b"n,,", b"n,a=alice,"))
    assert accepting.principal == "alice"
    with pytest.raises(AuthenticationFailed, match="the exchange is over"):
        accepting.answer(MESSAGE)


@pytest.mark.parametrize(
    "token, extensions",
    [
        ("", {}),
        ("s3cret token", {}),
        ("s3cret\n", {}),
        ("s3cret\x01auth=x", {}),
        ("=s3cret", {}),
        ("t", {"auth": "s3cret"}),
        ("t", {"a1": "s3cret"}),
        ("t", {"a": ""}),
        ("t", {"a": "s3cret\x01"}),
    ],
)
def test_what_the_message_cannot_carry_is_refused(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"no OAuth token|extension") as refused:
        OAuthBearerClient(token, extensions)
    assert "s3cret" not in str(refused.value)


def test_no_representation_shows_the_token() -> None:
    assert TOKEN not in repr(BearerToken(TOKEN)) + repr(OAuthBearerClient(TOKEN))
