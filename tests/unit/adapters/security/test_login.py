"""Logins from JAAS entries: which mechanism goes with which module, and what is refused."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from lethe.adapters.security.login import (
    MECHANISMS,
    LoginUnusable,
    SaltedPasswords,
    SaslLogin,
    check_mechanism,
    masked,
    shown,
)
from lethe.adapters.security.tokens import TokenFile
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.security.exchange import SaslClient
from lethe.protocol.security.jaas import JaasEntry, JaasError, parse_config
from lethe.protocol.security.scram import ScramCredential, ScramMechanism, ScramServer, salted_password

COMMON = "org.apache.kafka.common.security"
PLAIN = parse_config(f'{COMMON}.plain.PlainLoginModule required username="alice" password="hunter2";')
SCRAM = parse_config(f'{COMMON}.scram.ScramLoginModule required username="alice" password="hunter2";')
TOKEN = parse_config(f'{COMMON}.scram.ScramLoginModule required username="id" password="hunter2" tokenauth=true;')
OAUTH = parse_config(f'{COMMON}.oauthbearer.OAuthBearerLoginModule required extension_tenant="t1" scope="s";')


async def first(login: SaslLogin) -> bytes:
    client: SaslClient = await login.client()
    return client.first()


async def test_a_login_for_each_mechanism(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc")
    assert await first(SaslLogin.from_jaas("PLAIN", PLAIN)) == b"\0alice\0hunter2"
    assert (await first(SaslLogin.from_jaas("SCRAM-SHA-256", SCRAM))).startswith(b"n,,n=alice,r=")
    assert (await first(SaslLogin.from_jaas("SCRAM-SHA-512", TOKEN))).endswith(b",tokenauth=true")
    oauth = SaslLogin.from_jaas("OAUTHBEARER", OAUTH, TokenFile(tmp_path / "token"))
    assert await first(oauth) == b"n,,\x01auth=Bearer abc\x01tenant=t1\x01\x01"
    assert oauth.identity == f"the token in {tmp_path}/token"


async def test_a_salted_password_is_derived_once_for_all_brokers() -> None:
    derived: list[bytes] = []

    def slowly(digest: str, password: str, salt: bytes, iterations: int) -> bytes:
        derived.append(salt)
        return salted_password(digest, password, salt, iterations)

    passwords = SaltedPasswords(slowly)
    login = replace(SaslLogin.from_jaas("SCRAM-SHA-256", SCRAM), _salted=passwords)

    async def log_in(salt: bytes) -> None:
        credential = ScramCredential.of(ScramMechanism.SHA_256, "hunter2", salt)
        client, server = await login.client(), ScramServer(ScramMechanism.SHA_256, "n", lambda _: credential)
        final = await asyncio.to_thread(client.answer, server.answer(client.first()))
        assert final is not None
        assert client.answer(server.answer(final)) is None
        assert server.principal == "alice"

    await asyncio.gather(*(log_in(b"of the cluster") for _ in range(20)))
    assert derived == [b"of the cluster"]
    for number in range(10):
        await log_in(b"of another %d" % number)
    assert len(derived) == 11
    assert len(passwords) <= 4


async def test_each_exchange_has_a_nonce_of_its_own() -> None:
    login = SaslLogin.from_jaas("SCRAM-SHA-256", SCRAM)
    assert len({await first(login) for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "mechanism, entry, reason",
    [
        ("PLAIN", SCRAM, "PLAIN goes with PlainLoginModule, and sasl.jaas.config names ScramLoginModule"),
        ("SCRAM-SHA-512", PLAIN, "SCRAM-SHA-512 goes with ScramLoginModule"),
        ("OAUTHBEARER", OAUTH, "OAUTHBEARER needs a token: name the file"),
        ("GSSAPI", PLAIN, r"Kerberos, for which Lethe has no library; set it to one of PLAIN, SCRAM-SHA-256.*as well"),
        ("scram-sha-512", SCRAM, "is no SASL mechanism that Lethe has; set it to one of PLAIN"),
        ("AWS_MSK_IAM", PLAIN, "is no SASL mechanism"),
    ],
)
def test_what_gives_no_login_is_refused(mechanism: str, entry: JaasEntry, reason: str) -> None:
    with pytest.raises((LoginUnusable, Unusable), match=reason) as refused:
        SaslLogin.from_jaas(mechanism, entry)
    assert "hunter2" not in str(refused.value)


def test_a_missing_option_is_named() -> None:
    with pytest.raises(JaasError, match="PlainLoginModule has no password"):
        SaslLogin.from_jaas("PLAIN", parse_config(f'{COMMON}.plain.PlainLoginModule required username="alice";'))


def test_every_mechanism_is_one_that_can_be_used() -> None:
    for mechanism in MECHANISMS:
        check_mechanism(mechanism)


def test_no_representation_shows_the_password() -> None:
    assert "hunter2" not in repr(SaslLogin.from_jaas("PLAIN", PLAIN))


def test_a_peers_text_is_one_line_of_limited_length() -> None:
    assert shown("a\nb\x1b[2J\u202e") == "a?b?[2J?"
    assert shown("x" * 301) == "x" * 300 + "…"


@pytest.mark.parametrize(
    "sent, said, expected",
    [
        (b"\0alice\0hunter2", "no password hunter2 here", "no password *** here"),
        (b"n,,\x01auth=Bearer hunter2.x\x01tenant=t1\x01\x01", "not hunter2.x", "not ***"),
        (b"n,,n=alice,r=abc", "invalid credentials of alice", "invalid credentials of alice"),
        (b"\0al\0hunter2", "all credentials", "all credentials"),
        (b"\0lethe\0lethe-hunter2", "no password lethe-hunter2 here", "no password *** here"),
    ],
)
def test_a_broker_that_repeats_the_secret_is_not_quoted(sent: bytes, said: str, expected: str) -> None:
    assert masked(said, sent) == expected
