"""SASL PLAIN: the message of RFC 4616 both ways, and what is refused."""

import pytest

from lethe.protocol.security.exchange import AuthenticationFailed
from lethe.protocol.security.plain import PlainClient, PlainServer, PlainToken


def server() -> PlainServer:
    return PlainServer(lambda name, password: (name, password) == ("tim", "tanstaaftanstaaf"))


def test_both_sides_agree_on_the_message_of_the_rfc() -> None:
    client, accepting = PlainClient("tim", "tanstaaftanstaaf"), server()
    assert client.first() == b"\0tim\0tanstaaftanstaaf"
    assert accepting.answer(client.first()) == b""
    assert accepting.principal == "tim"
    client.answer(b"")


@pytest.mark.parametrize(
    "message, reason",
    [
        (b"\0tim\0wrong", "no user of this name and password"),
        (b"\0kurt\0tanstaaftanstaaf", "no user of this name and password"),
        (b"kurt\0tim\0tanstaaftanstaaf", "act as another user"),
        (b"\0tim\0", "does not consist"),
        (b"\0\0tanstaaftanstaaf", "does not consist"),
        (b"tim\0tanstaaftanstaaf", "does not consist"),
        (b"\0tim\0tanstaaf\0tanstaaf", "does not consist"),
        (b"", "does not consist"),
        (b"\0tim\0\xff", "not UTF-8"),
    ],
)
def test_a_client_is_refused(message: bytes, reason: str) -> None:
    refusing = server()
    with pytest.raises(AuthenticationFailed, match=reason) as failed:
        refusing.answer(message)
    assert refusing.principal is None
    assert "tanstaaf" not in str(failed.value)


def test_there_is_one_message_in_each_direction() -> None:
    client, accepting = PlainClient("tim", "tanstaaftanstaaf"), server()
    with pytest.raises(AuthenticationFailed, match="one message"):
        client.answer(b"more")
    accepting.answer(client.first())
    with pytest.raises(AuthenticationFailed, match="after the end"):
        accepting.answer(client.first())


@pytest.mark.parametrize(
    "name, password, reason",
    [("", "pw", "user name is empty"), ("tim", "", "password is empty"), ("tim", "p\0w", "NUL"), ("t\0m", "pw", "NUL")],
)
def test_what_the_message_cannot_carry_is_refused(name: str, password: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PlainClient(name, password)


def test_no_representation_shows_the_password() -> None:
    assert repr(PlainToken("tim", "tanstaaf")) == "PlainToken(username='tim', authorization_id='')"
    assert "tanstaaf" not in repr(PlainClient("tim", "tanstaaf"))
