"""DIGEST-MD5: the examples of RFC 2831, a login that ZooKeeper accepted, and challenges that are refused."""

from __future__ import annotations

import hashlib

import pytest

from lethe.protocol.security.digest_md5 import DigestMd5Client
from lethe.protocol.security.exchange import AuthenticationFailed

CHALLENGE = 'realm="zk-sasl-md5",nonce="N",charset=utf-8,algorithm=md5-sess'
"""As ZooKeeper 3.5, 3.8 and 3.9 write it, but for the nonce."""


def client(username: str = "kafka", password: str = "secret") -> DigestMd5Client:
    return DigestMd5Client(username, password, "C")


def directives(message: bytes | None) -> dict[str, str]:
    assert message is not None
    return dict(part.split("=", 1) for part in message.decode().split(","))


def expected(login: bytes) -> str:
    """The response to CHALLENGE, with the first line of A1 given as bytes."""
    secret = hashlib.md5(hashlib.md5(login).digest() + b":N:C").hexdigest()
    uri = hashlib.md5(b"AUTHENTICATE:zookeeper/zk-sasl-md5").hexdigest()
    return hashlib.md5(f"{secret}:N:00000001:C:auth:{uri}".encode()).hexdigest()


@pytest.mark.parametrize(
    "service, nonce, client_nonce, response, proof",
    [
        pytest.param(
            "imap",
            "OA6MG9tEQGm2hh",
            "OA6MHXh6VqTrRk",
            "d388dad90d4bbd760a152321f2143af7",
            "ea40f60335c427b5527b84dbabcdfffd",
            id="IMAP",
        ),
        pytest.param(
            "acap",
            "OA9BSXrbuRhWay",
            "OA9BSuZWMSpW8m",
            "6084c6db3fede7352c551284490fd0fc",
            "2f0b3d7c3c2e486600ef710726aa2eae",
            id="ACAP",
        ),
    ],
)
def test_the_examples_of_rfc_2831(service: str, nonce: str, client_nonce: str, response: str, proof: str) -> None:
    login = DigestMd5Client("chris", "secret", client_nonce, f"{service}/elwood.innosoft.com")
    challenge = f'realm="elwood.innosoft.com",nonce="{nonce}",qop="auth",algorithm=md5-sess,charset=utf-8'
    assert login.first() == b""
    said = directives(login.answer(challenge.encode()))
    assert said["response"] == response
    assert said["realm"] == '"elwood.innosoft.com"'
    assert login.answer(f"rspauth={proof}".encode()) is None


def test_what_zookeeper_is_answered() -> None:
    said = directives(client().answer(CHALLENGE.encode()))
    assert said.pop("response") == expected(b"kafka:zk-sasl-md5:secret")
    assert said == {
        "charset": "utf-8",
        "username": '"kafka"',
        "realm": '"zk-sasl-md5"',
        "nonce": '"N"',
        "nc": "00000001",
        "cnonce": '"C"',
        "digest-uri": '"zookeeper/zk-sasl-md5"',
        "maxbuf": "65536",
        "qop": "auth",
    }


@pytest.mark.parametrize("proof", [b"", b"rspauth=", b"rspauth=" + b"0" * 32, b"0" * 32])
def test_a_server_that_does_not_have_the_password_is_refused(proof: bytes) -> None:
    login = client()
    login.answer(CHALLENGE.encode())
    with pytest.raises(AuthenticationFailed, match="does not prove"):
        login.answer(proof)


def test_the_response_of_another_login_is_no_proof() -> None:
    """The server's proof covers no method, so a client's own response cannot be sent back to it."""
    login = client()
    response = directives(login.answer(CHALLENGE.encode()))["response"]
    with pytest.raises(AuthenticationFailed, match="does not prove"):
        login.answer(f"rspauth={response}".encode())


@pytest.mark.parametrize("nonce", ["N", "M"])
def test_each_nonce_gives_another_response(nonce: str) -> None:
    challenge = CHALLENGE.replace('"N"', f'"{nonce}"').encode()
    responses = {
        directives(DigestMd5Client("kafka", "secret", mine).answer(challenge))["response"] for mine in ("C", "D")
    }
    assert len(responses) == 2
    usual = directives(client().answer(CHALLENGE.encode()))["response"]
    assert (usual in responses) == (nonce == "N")


@pytest.mark.parametrize(
    "challenge, why",
    [
        ("", "no nonce"),
        ('realm="r",charset=utf-8,algorithm=md5-sess', "no nonce"),
        ('nonce="",algorithm=md5-sess', "no nonce"),
        (CHALLENGE + ',nonce="M"', "nonce more than once"),
        (CHALLENGE + ",algorithm=md5-sess", "algorithm more than once"),
        ('nonce="N",charset=utf-8', "another algorithm"),
        (CHALLENGE.replace("md5-sess", "md5"), "another algorithm"),
        (CHALLENGE.replace("utf-8", "koi8-r"), "another charset"),
        (CHALLENGE + ',qop="auth-int,auth-conf"', "'auth-int,auth-conf' only"),
        ("nonsense", "malformed"),
        ('nonce="N', "malformed"),
        (CHALLENGE + " x", "malformed"),
        (CHALLENGE + ',x="' + "y" * 2048 + '"', "has 2,115 bytes"),
    ],
)
def test_a_challenge_that_cannot_be_answered_is_refused(challenge: str, why: str) -> None:
    with pytest.raises(AuthenticationFailed, match=why):
        client().answer(challenge.encode())


def test_a_challenge_that_is_no_text_is_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="UTF-8"):
        client().answer(CHALLENGE.encode() + b',x="\xff"')


@pytest.mark.parametrize("offered", ['qop="auth"', 'qop="auth-conf, auth"', "maxbuf=1000"])
def test_only_authentication_is_asked_for(offered: str) -> None:
    said = client().answer(f"{CHALLENGE},{offered}".encode())
    assert said is not None
    assert said.endswith(b",qop=auth")


def test_quotes_and_backslashes_are_escaped_and_not_hashed() -> None:
    said = client('a"b\\c').answer(CHALLENGE.encode())
    assert said is not None
    assert rb'username="a\"b\\c"' in said
    quoted = client().answer(CHALLENGE.replace('"N"', r'"a\"b"').encode())
    assert quoted is not None
    assert rb'nonce="a\"b"' in quoted


@pytest.mark.parametrize(
    "username, password, hashed",
    [
        ("pä", "wörd", "pä:zk-sasl-md5:wörd".encode("latin-1")),
        ("кафка", "wörd", "кафка:zk-sasl-md5:".encode() + "wörd".encode("latin-1")),
        ("кафка", "пароль", "кафка:zk-sasl-md5:пароль".encode()),
    ],
)
def test_latin_1_is_hashed_where_it_has_all_characters(username: str, password: str, hashed: bytes) -> None:
    """RFC 2831, 2.1.2.1; ZooKeeper accepts all three: see tests/integration/test_zookeeper_sasl.py."""
    assert directives(client(username, password).answer(CHALLENGE.encode()))["response"] == expected(hashed)


def test_without_a_charset_only_latin_1_can_be_sent() -> None:
    challenge = CHALLENGE.replace("charset=utf-8,", "").encode()
    said = client("pä").answer(challenge)
    assert said is not None
    assert 'username="pä"'.encode("latin-1") in said
    assert b"charset" not in said
    with pytest.raises(AuthenticationFailed, match="characters that the server cannot read"):
        client("кафка").answer(challenge)


def test_the_password_is_in_no_representation() -> None:
    assert "secret" not in repr(client())
