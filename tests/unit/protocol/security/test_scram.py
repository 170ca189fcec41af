"""SCRAM against the examples of its RFCs, and both sides against messages that are not of this exchange."""

import base64

import pytest

from lethe.protocol.security.exchange import AuthenticationFailed
from lethe.protocol.security.scram import (
    MAX_ITERATIONS,
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    client_proof,
    salted_password,
    server_signature,
    user_of,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
"""The example of RFC 7677, section 3: user `user`, password `pencil`."""
CREDENTIAL = ScramCredential.of(ScramMechanism.SHA_256, "pencil", SALT)


def client(password: str = "pencil") -> ScramClient:
    return ScramClient(ScramMechanism.SHA_256, "user", password, CLIENT_NONCE)


def server(credential: ScramCredential | None = CREDENTIAL) -> ScramServer:
    return ScramServer(ScramMechanism.SHA_256, SERVER_NONCE, lambda name: credential if name == "user" else None)


def asked() -> ScramClient:
    started = client()
    assert started.first() == CLIENT_FIRST
    return started


# --- the RFCs -----------------------------------------------------------------------------------------------------


def test_the_formulas_give_the_example_of_rfc_5802() -> None:
    salted = salted_password("sha1", "pencil", base64.b64decode("QSXCR+Q6sek8bf92"), 4096)
    nonce = "fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j"
    said = f"n=user,r=fyko+d2lbbFgONRv9qkxdawL,r={nonce},s=QSXCR+Q6sek8bf92,i=4096,c=biws,r={nonce}".encode()
    assert base64.b64encode(client_proof("sha1", salted, said)) == b"v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert base64.b64encode(server_signature("sha1", salted, said)) == b"rmF9pqV8S7suAoZWja4dJRkFsKQ="


def test_both_sides_send_the_messages_of_rfc_7677() -> None:
    ours, theirs = client(), server()
    assert ours.first() == CLIENT_FIRST
    assert theirs.answer(CLIENT_FIRST) == SERVER_FIRST
    assert ours.answer(SERVER_FIRST) == CLIENT_FINAL
    assert theirs.answer(CLIENT_FINAL) == SERVER_FINAL
    assert theirs.principal == "user"
    assert ours.answer(SERVER_FINAL) is None


def test_names_are_escaped_and_a_delegation_token_says_that_it_is_one() -> None:
    made = ScramClient(ScramMechanism.SHA_512, "a=b,c", "pw", "N", is_token=True)
    assert made.first() == b"n,,n=a=3Db=2Cc,r=N,tokenauth=true"


# --- stored credentials -------------------------------------------------------------------------------------------


def test_a_credential_is_written_as_kafka_writes_it_and_read_in_any_order() -> None:
    text = (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )
    assert CREDENTIAL.text() == text
    assert ScramCredential.parse(text) == CREDENTIAL
    assert ScramCredential.parse(",".join(reversed(text.split(",")))) == CREDENTIAL


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=czNjcmV0,stored_key=czNjcmV0,server_key=czNjcmV0",
        "salt=czNjcmV0,stored_key=czNjcmV0,server_key=czNjcmV0,iterations=4096,more=1",
        "salt=czNjcmV0,stored_key=czNjcmV0,server_key=czNjcmV0,iterations=0",
        "salt=czNjcmV0,stored_key=czNjcmV0,server_key=czNjcmV0,iterations=-4096",
        "salt=czNjcmV0,stored_key=czNjcmV0,server_key=czNjcmV0,iterations=٤٠٩٦",
        "salt=czNjcmV0,stored_key=czNjcmV0,server_key=czNjcmV0,salt=czNjcmV0",
        "salt=*,stored_key=czNjcmV0,server_key=czNjcmV0,iterations=4096",
        "salt=czNjcmV0,stored_key=czNjcmV0,server_key=czNjcmV,iterations=4096",
    ],
)
def test_another_text_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="a SCRAM credential") as refused:
        ScramCredential.parse(text)
    assert "czNjcmV0" not in str(refused.value)


def test_no_representation_shows_a_key() -> None:
    assert repr(CREDENTIAL) == "ScramCredential(iterations=4096)"
    assert "pencil" not in repr(client())


# --- hostile servers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message, reason",
    [
        (SERVER_FIRST.replace(b"r=rOpr", b"r=sOpr"), "nonce does not continue ours"),
        (SERVER_FIRST.replace(SERVER_NONCE.encode(), b""), "nonce does not continue ours"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "requests 4,095 SCRAM iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=0"), "requests 0 SCRAM iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=2147483648"), "requests 2,147,483,648 SCRAM iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=" + b"9" * 5000), "malformed"),
        (SERVER_FIRST.replace(b"i=4096", "i=٤٠٩٦".encode()), "malformed"),
        (SERVER_FIRST.replace(b"s=W22", b"s=W2"), "not base64"),
        (b"m=ext," + SERVER_FIRST, "malformed"),
        (SERVER_FIRST + b"\n", "malformed"),
        (SERVER_FINAL, "malformed"),
        (b"e=other-error", "malformed"),
        (b"", "malformed"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_first_message_that_is_none_ends_the_exchange(message: bytes, reason: str) -> None:
    started = asked()
    with pytest.raises(AuthenticationFailed, match=reason) as failed:
        started.answer(message)
    assert "pencil" not in str(failed.value)
    with pytest.raises(AuthenticationFailed, match="after the end"):
        started.answer(SERVER_FIRST)


def test_the_largest_number_of_iterations_is_accepted() -> None:
    asked_for = SERVER_FIRST.replace(b"i=4096", b"i=%d" % MAX_ITERATIONS)
    answer = asked().answer(asked_for)
    assert answer is not None
    assert answer.startswith(b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hv")
    with pytest.raises(AuthenticationFailed, match="1,000,001 SCRAM iterations"):
        asked().answer(SERVER_FIRST.replace(b"i=4096", b"i=1000001"))


@pytest.mark.parametrize(
    "message, reason",
    [
        (b"v=AAAATRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "signature is wrong"),
        (b"v=", "signature is wrong"),
        (b"v=!", "malformed"),
        (SERVER_FINAL.replace(b"G4=", b"G5="), "not base64"),
        (b"", "malformed"),
        (b"e=invalid-proof", "the server refuses: invalid-proof"),
        (b"e=\x1b[31m", "malformed"),
        (b"x=" + SERVER_FINAL, "malformed"),
        (SERVER_FIRST, "malformed"),
    ],
)
def test_a_server_without_the_key_is_not_believed(message: bytes, reason: str) -> None:
    started = asked()
    started.answer(SERVER_FIRST)
    with pytest.raises(AuthenticationFailed, match=reason):
        started.answer(message)


def test_nothing_follows_the_final_message() -> None:
    started = asked()
    started.answer(SERVER_FIRST)
    started.answer(SERVER_FINAL)
    with pytest.raises(AuthenticationFailed, match="after the end"):
        started.answer(b"")


@pytest.mark.parametrize("name, nonce", [("", "N"), ("user", ""), ("user", "a,b"), ("user", "ä"), ("user", "a b")])
def test_a_client_without_name_or_nonce_is_not_made(name: str, nonce: str) -> None:
    with pytest.raises(ValueError, match=r"user name|nonce"):
        ScramClient(ScramMechanism.SHA_256, name, "pw", nonce)


# --- hostile clients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message, reason",
    [
        (b"y,,n=user,r=N", "malformed, or asks for channel binding"),
        (b"p=tls-unique,,n=user,r=N", "malformed, or asks for channel binding"),
        (b"n,,m=ext,n=user,r=N", "malformed"),
        (b"n,,n=us=er,r=N", "malformed"),
        (b"n,,n=,r=N", "malformed"),
        (b"n,,n=user,r=", "malformed"),
        (b"n,a=admin,n=user,r=N", "act as another user"),
        (b"n,,n=user,r=N,tokenauth=true", "delegation tokens are not accepted"),
        (b"n,,n=nobody,r=N", "no user of this name and password"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_client_is_refused_at_its_first_message(message: bytes, reason: str) -> None:
    refusing = server()
    with pytest.raises(AuthenticationFailed, match=reason):
        refusing.answer(message)
    assert refusing.principal is None
    with pytest.raises(AuthenticationFailed, match="after the end"):
        refusing.answer(CLIENT_FIRST)


def test_a_client_may_name_itself_as_the_one_it_acts_as() -> None:
    accepting, ours = server(), client()
    assert accepting.answer(b"n,a=user," + CLIENT_FIRST[3:]) == SERVER_FIRST
    final = ours.answer(SERVER_FIRST)
    assert final is not None
    with pytest.raises(AuthenticationFailed, match="another beginning"):
        accepting.answer(final)


@pytest.mark.parametrize(
    "message, reason",
    [
        (CLIENT_FINAL.replace(b"p=dHzb", b"p=AAAA"), "no user of this name and password"),
        (b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=AAAA", "no user of this name and password"),
        (CLIENT_FINAL.replace(b"r=rOpr", b"r=sOpr"), "another exchange"),
        (CLIENT_FINAL.replace(b"c=biws", b"c=eSws"), "another beginning"),
        (CLIENT_FIRST, "malformed"),
        (b"", "malformed"),
    ],
)
def test_a_client_is_refused_at_its_final_message(message: bytes, reason: str) -> None:
    refusing = server()
    refusing.answer(CLIENT_FIRST)
    with pytest.raises(AuthenticationFailed, match=reason):
        refusing.answer(message)
    assert refusing.principal is None


def test_messages_of_one_exchange_are_refused_in_the_next() -> None:
    again = ScramServer(ScramMechanism.SHA_256, "another", lambda _: CREDENTIAL)
    again.answer(CLIENT_FIRST)
    with pytest.raises(AuthenticationFailed, match="another exchange"):
        again.answer(CLIENT_FINAL)


def test_a_stored_credential_below_the_minimum_is_refused() -> None:
    weak = ScramCredential.of(ScramMechanism.SHA_256, "pencil", SALT, 1000)
    with pytest.raises(AuthenticationFailed, match="has 1,000 iterations, and at least 4,096 are required"):
        server(weak).answer(CLIENT_FIRST)


def test_the_user_is_read_from_the_first_message_before_a_credential_is_looked_up() -> None:
    assert user_of(CLIENT_FIRST) == "user"
    assert user_of(ScramClient(ScramMechanism.SHA_256, "a=b,c", "x", CLIENT_NONCE).first()) == "a=b,c"
    for malformed in (b"", b"n,,n=,r=x", b"\xff", CLIENT_FINAL):
        with pytest.raises(AuthenticationFailed):
            user_of(malformed)
