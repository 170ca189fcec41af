"""Sentences for OpenSSL's reasons. Those that a real handshake gives are in tests/runtime/kafka."""

import ssl

import pytest

from lethe.adapters.security.tls_failures import answered_with_alert, ended_in_handshake, tls_failure


def refused(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] text")
    error.reason = reason
    return error


def unverified(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, message
    return error


@pytest.mark.parametrize(
    "reason, sentence",
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "requires a client certificate, and none was sent: set ssl.keystore"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "requires a client certificate, and none was sent or it is refused"),
        (
            "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
            "our client certificate, which has expired or is of a CA that it does not trust: set ssl.key",
        ),
        ("UNEXPECTED_MESSAGE", "as Kafka 2.5 does without a client certificate it accepts: set ssl.keystore.location"),
        ("SSLV3_ALERT_CERTIFICATE_REVOKED", "our client certificate, which is revoked"),
        ("TLSV1_ALERT_UNKNOWN_CA", "does not trust the CA of our client certificate"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "no version of TLS in common"),
        ("UNSUPPORTED_PROTOCOL", "no version of TLS in common"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "no cipher in common"),
        ("WRONG_VERSION_NUMBER", "its listener does not speak TLS: check the port"),
        ("HTTP_REQUEST", "its listener does not speak TLS"),
        ("A_{NEW}_REASON", "A_{NEW}_REASON (reason of OpenSSL)"),
    ],
)
def test_alerts(reason: str, sentence: str) -> None:
    text = str(tls_failure("b1:9093 (SSL)", "b1", refused(reason)))
    assert text.startswith("TLS with b1:9093 (SSL) failed: ")
    assert sentence in text


@pytest.mark.parametrize(
    "code, sentence",
    [
        (9, "is not valid yet: compare the clocks"),
        (10, "has expired"),
        (18, "not signed by a CA that is trusted here"),
        (19, "not signed by a CA that is trusted here"),
        (20, "not signed by a CA that is trusted here"),
        (23, "is revoked"),
        (62, "is not for b1: issue one with this name"),
        (64, "is not for b1: issue one with this name"),
        (26, "its certificate is refused here: unsuitable certificate purpose"),
    ],
)
def test_certificates_that_are_refused_here(code: int, sentence: str) -> None:
    assert sentence in str(tls_failure("b1:9093 (SSL)", "b1", unverified(code, "unsuitable certificate purpose")))


def test_the_others_name_the_place_and_the_property() -> None:
    for failure in (ended_in_handshake("b1:9093 (SSL)"), answered_with_alert("b1:9093 (PLAINTEXT)")):
        assert "b1:9093 (" in str(failure)
        assert "security.protocol" in str(failure)
