"""Client against server for any name, password and nonce; and no damaged message is ever accepted."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.protocol.security.exchange import AuthenticationFailed, SaslClient, SaslServer
from lethe.protocol.security.jaas import JaasError, parse_config, parse_file
from lethe.protocol.security.oauthbearer import OAuthBearerClient
from lethe.protocol.security.plain import PlainClient, PlainServer
from lethe.protocol.security.scram import ScramClient, ScramCredential, ScramMechanism, ScramServer
from tests.fakes.oauthbearer_server import OAuthBearerServer

PASSWORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
NAMES = st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1, max_size=20)
NONCES = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=","), min_size=1, max_size=20)
MECHANISMS = st.sampled_from(ScramMechanism)


def exchange(
    client: SaslClient, server: SaslServer, on_the_way: Callable[[int, bytes], bytes] = lambda _, data: data
) -> None:
    """Carry the messages; `on_the_way` may change the one with this number. Raises AuthenticationFailed."""
    response: bytes | None = client.first()
    number = 0
    while response is not None:
        challenge = on_the_way(number + 1, server.answer(on_the_way(number, response)))
        response = client.answer(challenge)
        number += 2


@settings(max_examples=50)
@given(mechanism=MECHANISMS, name=NAMES, password=PASSWORDS, nonces=st.tuples(NONCES, NONCES), salt=st.binary())
def test_scram_with_the_right_password(
    mechanism: ScramMechanism, name: str, password: str, nonces: tuple[str, str], salt: bytes
) -> None:
    credential = ScramCredential.parse(ScramCredential.of(mechanism, password, salt).text())
    server = ScramServer(mechanism, nonces[1], lambda asked: credential if asked == name else None)
    exchange(ScramClient(mechanism, name, password, nonces[0]), server)
    assert server.principal == name


@settings(max_examples=50)
@given(mechanism=MECHANISMS, password=PASSWORDS, other=PASSWORDS)
def test_scram_with_another_password(mechanism: ScramMechanism, password: str, other: str) -> None:
    # PBKDF2 pads a password with zero bytes, but none of them contains one.
    if password == other:
        return
    server = ScramServer(mechanism, "S", lambda _: ScramCredential.of(mechanism, password, b"salt"))
    with pytest.raises(AuthenticationFailed):
        exchange(ScramClient(mechanism, "alice", other, "C"), server)
    assert server.principal is None


CREDENTIAL = ScramCredential.of(ScramMechanism.SHA_256, "pw", b"salt")


@settings(max_examples=300)
@given(number=st.integers(0, 3), data=st.data())
def test_scram_with_a_message_changed_on_the_way(number: int, data: st.DataObject) -> None:
    def damaged(at: int, message: bytes) -> bytes:
        if at != number:
            return message
        changed = bytearray(message)
        place = data.draw(st.integers(0, len(message) - 1))
        changed[place] = data.draw(st.integers(0, 255).filter(lambda value: value != message[place]))
        return bytes(changed)

    server = ScramServer(ScramMechanism.SHA_256, "SERVER", lambda name: CREDENTIAL if name == "alice" else None)
    with pytest.raises(AuthenticationFailed):
        exchange(ScramClient(ScramMechanism.SHA_256, "alice", "pw", "CLIENT"), server, damaged)


@given(name=NAMES, password=PASSWORDS)
def test_plain(name: str, password: str) -> None:
    server = PlainServer(lambda *asked: asked == (name, password))
    exchange(PlainClient(name, password), server)
    assert server.principal == name
    with pytest.raises(AuthenticationFailed):
        exchange(PlainClient(name, password + "x"), PlainServer(lambda *asked: asked == (name, password)))


@given(token=st.from_regex(r"[-_~+/.a-zA-Z0-9]+=*", fullmatch=True))
def test_oauthbearer(token: str) -> None:
    server = OAuthBearerServer(lambda asked: "alice" if asked == token else None)
    exchange(OAuthBearerClient(token), server)
    assert server.principal == "alice"
    with pytest.raises(AuthenticationFailed):
        exchange(OAuthBearerClient("x" + token), OAuthBearerServer(lambda asked: "alice" if asked == token else None))


@settings(max_examples=300)
@given(messages=st.lists(st.binary(max_size=60), min_size=1, max_size=3))
def test_no_server_accepts_garbage(messages: list[bytes]) -> None:
    servers: list[SaslServer] = [
        ScramServer(ScramMechanism.SHA_512, "S", lambda _: CREDENTIAL),
        PlainServer(lambda *_: False),
        OAuthBearerServer(lambda _: None),
    ]
    for server in servers:
        for message in messages:
            try:
                server.answer(message)
            except AuthenticationFailed:
                break
        assert server.principal is None


@settings(max_examples=300)
@given(text=st.text() | st.text(st.sampled_from("a{};=\"'\\/*- \n1")))
def test_any_text_as_jaas_ends_with_a_value_or_its_error(text: str) -> None:
    for parse in (parse_config, parse_file):
        with contextlib.suppress(JaasError):
            parse(text)


@given(value=st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])))
def test_a_quoted_jaas_value_is_read_as_it_was_meant(value: str) -> None:
    written = value.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_config(f'org.Module required password="{written}";').options == {"password": value}
