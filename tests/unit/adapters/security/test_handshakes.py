"""What a peer's alert means, and what to do about it. tests/runtime/test_tls.py meets them on sockets."""

from __future__ import annotations

import ssl

import pytest

from lethe.adapters.security.handshakes import handshake_problem, needs_a_setting, shows_refusal


@pytest.mark.parametrize(
    "reason,sentence",
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "b: requires a certificate of its clients; set ssl.keystore.location"),
        (
            "SSLV3_ALERT_BAD_CERTIFICATE",
            "b: refuses this side's certificate, or requires one and got none; set ssl.key",
        ),
        ("TLSV1_ALERT_UNKNOWN_CA", "b: does not know the authority that issued this side's certificate; add"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "b: says that this side's certificate has expired; put a new"),
        ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "b: refuses this side's certificate; check that"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "b: speaks no version of TLS that is enabled here; compare"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "b: finds no common cipher suite, or lacks"),
        ("NO_SHARED_CIPHER", "b: offers no cipher suite that is enabled here; compare ssl.cipher.suites"),
        ("WRONG_VERSION_NUMBER", "b: does not speak TLS; connect to a listener with SSL or SASL_SSL"),
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "b: shows no certificate, and ssl.client.auth requires one; give"),
        ("SOMETHING_NEW", "b: the handshake of TLS failed: something new; look at the other side's log"),
        (None, "b: the handshake of TLS failed: for an unknown reason; look"),
    ],
)
def test_alerts(reason: str | None, sentence: str) -> None:
    error = ssl.SSLError(1, "anything")
    error.reason = reason  # type: ignore[assignment]
    assert handshake_problem(error, "b").startswith(sentence)


@pytest.mark.parametrize(
    "error", [ConnectionResetError(104, "reset"), ssl.SSLEOFError(8, "EOF"), BrokenPipeError(32, "x")]
)
def test_an_end_without_an_alert(error: OSError) -> None:
    assert handshake_problem(error, "b").startswith(
        "b: closed the connection during the handshake of TLS; look at its log"
    )


def test_reasons_of_verification_that_have_no_words_of_their_own() -> None:
    error = ssl.SSLCertVerificationError(1, "anything")
    error.verify_code, error.verify_message = 26, "unsupported certificate purpose"
    assert handshake_problem(error, "b").startswith(
        "b: its certificate is refused: unsupported certificate purpose; use"
    )


@pytest.mark.parametrize(
    "error,expected",
    [
        (ssl.SSLError(1, "[SSL: TLSV1_ALERT_UNKNOWN_CA] alert"), True),
        (ssl.SSLCertVerificationError(1, "expired"), True),
        (ssl.SSLEOFError(8, "EOF occurred"), False),
        (ssl.SSLZeroReturnError(6, "closed"), False),
        (ConnectionResetError(), False),
        (TimeoutError(), False),
    ],
)
def test_a_peer_that_only_hangs_up_has_refused_nothing(error: OSError, expected: bool) -> None:
    assert shows_refusal(error) is expected


@pytest.mark.parametrize("code,expected", [(10, False), (9, False), (20, True), (62, True)])
def test_the_dates_of_a_certificate_are_no_setting(code: int, expected: bool) -> None:
    error = ssl.SSLCertVerificationError(1, "anything")
    error.verify_code = code
    assert needs_a_setting(error) is expected
    assert needs_a_setting(ssl.SSLError(1, "an alert"))
    assert not needs_a_setting(ConnectionResetError())
